"""Which configurations of the decision table are tried, and what each means for a process.

A configuration has one value on every axis of matrices/decisions.toml.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from conformance.errors import SuiteError
from conformance.matrices import Matrices, matches, within
from conformance.model import Decisions, Impossible

Configuration = dict[str, str]


def refusal(d: Decisions, configuration: Configuration, release: str) -> Impossible | None:
    """Why a configuration, or a part of one, cannot occur in a release; None where it can."""
    for entry in d.impossible:
        if matches(configuration, entry.when) and within(release, entry.releases):
            return entry
    return None


def configurations(m: Matrices) -> dict[str, list[Configuration]]:
    """The configurations to try in each release, always the same in the same order.

    Every release tries what any other one does, as far as it can occur there, so that two can be compared.
    """
    tried = _all(m)
    return {r.version: [c for c in tried if refusal(m.decisions, c, r.version) is None] for r in m.releases}


def _all(m: Matrices) -> list[Configuration]:
    """The named configurations, and what every pair of values needs beside them in each release."""
    found = {tuple(c.values()): c for c in _named(m.decisions)}
    for release in m.releases:
        known = [c for c in found.values() if refusal(m.decisions, c, release.version) is None]
        found |= {tuple(c.values()): c for c in _pairwise(m.decisions, release.version, known)}
    return list(found.values())


def _pairwise(d: Decisions, release: str, known: list[Configuration]) -> list[Configuration]:
    """Few configurations that show every pair of values which the known ones do not.

    Greedy: each takes up a missing pair, and on every other axis the value that brings most missing ones.
    (allpairspy does not look ahead: under these constraints it leaves out a tenth of the pairs.)
    """
    missing = {p for p in map(_key, pairs(d)) if can_occur(d, dict(p), release)}
    missing -= {p for c in known for p in _pairs_of(c)}
    chosen = []
    while missing:
        whole = dict(min(missing))
        for axis in d.axes:
            if axis not in whole:
                fitting = [v for v in d.axes[axis] if can_occur(d, whole | {axis: v}, release)]
                gains = [len(missing & _pairs_of(whole | {axis: v})) for v in fitting]
                whole |= {axis: fitting[gains.index(max(gains))]}
        missing -= _pairs_of(whole)
        chosen.append({axis: whole[axis] for axis in d.axes})
    return chosen


def pairs(d: Decisions) -> Iterator[Configuration]:
    """Every pair of values of two axes."""
    for a, b in itertools.combinations(d.axes, 2):
        yield from ({a: x, b: y} for x, y in itertools.product(d.axes[a], d.axes[b]))


def _pairs_of(configuration: Configuration) -> set[tuple[tuple[str, str], ...]]:
    return set(itertools.combinations(sorted(configuration.items()), 2))


def _key(pair: Configuration) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pair.items()))


def can_occur(d: Decisions, part: Configuration, release: str) -> bool:
    """Whether some configuration of a release has these values."""
    if refusal(d, part, release):
        return False
    free = [axis for axis in d.axes if axis not in part]
    return not free or any(can_occur(d, part | {free[0]: value}, release) for value in d.axes[free[0]])


def _named(d: Decisions) -> list[Configuration]:
    """All configurations that are named for a case, with either value of `lto`."""
    found = []
    for named in d.named:
        free = named.values | {axis: d.axes[axis] for axis in ("lto",) if axis in d.axes}
        found += [d.usual | dict(zip(free, row, strict=True)) for row in itertools.product(*free.values())]
    return found


def title(d: Decisions, configuration: Configuration) -> str:
    """A configuration in words: what is not usual in it."""
    unusual = [f"{axis}={value}" for axis, value in configuration.items() if value != d.usual[axis]]
    return " ".join(unusual) or "all as usual"


def variables(d: Decisions, configuration: Configuration) -> dict[str, str]:
    """The NUMBA variables of a configuration's process."""
    through = configuration["through"]
    if through == "config":
        return {}
    off, on = d.spellings[configuration["spelling"]]
    if through == "opposed":
        off, on = on, off
    return {f"NUMBA_{d.settings[axis]}": on if value else off for axis, value in _set(d, configuration)}


def config(d: Decisions, configuration: Configuration) -> dict[str, bool | None]:
    """The entries of numba.config that are set before numba.cuda is imported."""
    if configuration["through"] == "none":
        return {d.settings["enable"]: None}
    if configuration["through"] == "variables":
        return {}
    return {d.settings[axis]: value for axis, value in _set(d, configuration)}


def hidden(d: Decisions, configuration: Configuration) -> list[str]:
    """The packages that a configuration's process must not find."""
    return [name for axis, values in d.hidden.items() for name in values.get(configuration[axis], [])]


def _set(d: Decisions, configuration: Configuration) -> list[tuple[str, bool]]:
    return [(axis, configuration[axis] == "1") for axis in d.settings if configuration[axis] != "unset"]


def parse(d: Decisions, text: str) -> Configuration:
    """A configuration from words like `driver=11.8 binding=0`; what they do not say is as usual."""
    given = dict(word.partition("=")[::2] for word in text.split())
    for axis, value in given.items():
        if value not in d.axes.get(axis, []):
            known = ", ".join(d.axes.get(axis, d.axes))
            kind = "value" if axis in d.axes else "axis"
            raise SuiteError(f"{axis}={value}: no such {kind}; known: {known}")
    return d.usual | given
