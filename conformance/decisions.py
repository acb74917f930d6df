"""Which configurations of the decision table are tried, and what each means for a process.

A configuration has one value on every axis of matrices/decisions.toml.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from allpairspy import AllPairs

from conformance.errors import SuiteError
from conformance.matrices import Matrices, matches, within
from conformance.model import Decisions, Impossible

Configuration = dict[str, str]


def refusal(d: Decisions, configuration: Configuration, release: str) -> Impossible | None:
    """Why a configuration, or a part of one, cannot occur in a release; None where it can."""
    for entry in d.impossible:
        known = all(axis in configuration for axis in entry.when)
        if known and matches(configuration, entry.when) and within(release, entry.releases):
            return entry
    return None


def configurations(m: Matrices, release: str) -> list[Configuration]:
    """The configurations to try in a release, always in the same order.

    Every release tries what any other one does, as far as it can occur there, so that two can be compared.
    """
    found: dict[tuple[str, ...], Configuration] = {}
    for other in m.releases:
        for c in [*_pairwise(m.decisions, other.version), *_named(m.decisions)]:
            if refusal(m.decisions, c, release) is None:
                found.setdefault(tuple(c.values()), c)
    return list(found.values())


def _pairwise(d: Decisions, release: str) -> list[Configuration]:
    """Few configurations in which every pair of values that can occur together occurs."""

    def admitted(row: list[str]) -> bool:
        return refusal(d, dict(zip(d.axes, row, strict=False)), release) is None

    chosen = [dict(zip(d.axes, row, strict=True)) for row in AllPairs(list(d.axes.values()), filter_func=admitted)]
    # Under constraints the algorithm may miss a pair, or leave a row that no value can complete.
    chosen = [c for c in chosen if len(c) == len(d.axes)]
    for pair in pairs(d):
        if not any(pair.items() <= c.items() for c in chosen):
            chosen += _completed(d, pair, release)
    return chosen


def pairs(d: Decisions) -> Iterator[Configuration]:
    """Every pair of values of two axes."""
    for a, b in itertools.combinations(d.axes, 2):
        yield from ({a: x, b: y} for x, y in itertools.product(d.axes[a], d.axes[b]))


def _completed(d: Decisions, part: Configuration, release: str) -> list[Configuration]:
    """The most usual configuration that has these values and can occur, or none."""
    free = [[part[axis]] if axis in part else values for axis, values in d.axes.items()]
    if refusal(d, part, release):
        return []
    for row in itertools.product(*free):
        whole = dict(zip(d.axes, row, strict=True))
        if refusal(d, whole, release) is None:
            return [whole]
    return []


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
            raise SuiteError(f"{axis}={value}: no such {'value' if axis in d.axes else 'axis'}; known: {known}")
    return d.usual | given
