"""What `nox -s selection` prints: what a release gives, and what changed between two."""

from __future__ import annotations

import re
from collections import Counter

from conformance import decisions
from conformance.matrices import Matrices
from conformance.records import Run

_SHORT = 100


def counts(found: Counter) -> str:
    """Statuses with their counts in words."""
    shown = [(status, n) for status, n in sorted(found.items()) if n and not status.startswith("_")]
    return ", ".join(f"{n} {status}" for status, n in shown)


def gets(m: Matrices, observation: dict) -> str:
    """What a user gets: the linker with its engine, or the error; and the warnings."""
    outcome = observation["outcome"]
    if outcome["kind"] == "value":
        engine = observation["engine"]
        text = observation["linker"] + (f" over {engine}" if engine else "")
    else:
        message = outcome["message"].removeprefix(f"{outcome['type']}: ")
        text = f"{outcome['type'] or outcome['kind']} at {outcome['phase']}: {_line(message)}"
    warnings = Counter(f"{w['category']}: {_line(w['message'])}" for w in observation["warnings"])
    return text + "".join(f"; warns {'twice ' if n == 2 else ''}{w}" for w, n in sorted(warnings.items()))


def _line(text: str) -> str:
    """The beginning of a message, without how a user spelled a value."""
    first = re.sub(r"associated value '\w*'", "associated value", text.strip().partition("\n")[0])
    return first if len(first) <= _SHORT else first[: _SHORT - 3] + "..."


def table(m: Matrices, run: Run, form: str) -> str:
    """What every configuration of a release gets, those with the same together."""
    groups: dict[tuple[str, ...], list[dict]] = {}
    for o in run.observations:
        groups.setdefault((gets(m, o),), []).append(o["configuration"])
    head = f"numba-cuda {run.header['release']}: {len(run.observations)} configurations"
    return _grouped(m, head, groups, form)


def changes(m: Matrices, before: Run, after: Run, form: str) -> str:
    """Every configuration whose outcome changed, those with the same change together."""
    a = {o["scenario"]: o for o in before.observations}
    b = {o["scenario"]: o for o in after.observations}
    both = [name for name in a if name in b]
    groups: dict[tuple[str, ...], list[dict]] = {}
    for name in both:
        change = (gets(m, a[name]), gets(m, b[name]))
        if change[0] != change[1]:
            groups.setdefault(change, []).append(a[name]["configuration"])
    changed = sum(map(len, groups.values()))
    head = (
        f"numba-cuda {before.header['release']} -> {after.header['release']}: {changed} of {len(both)} "
        f"configurations changed; only in one of them: {len(a) + len(b) - 2 * len(both)}"
    )
    return _grouped(m, head, groups, form)


def names(m: Matrices, before: Run, after: Run, form: str) -> str:
    """Which names of numba.cuda.cudadrv.driver came, went or are called otherwise."""
    a, b = before.header["names"], after.header["names"]
    known = list(dict.fromkeys([*a, *b]))
    rows = [(name, a.get(name, "-"), b.get(name, "-")) for name in known if a.get(name) != b.get(name)]
    releases = f"{before.header['release']} -> {after.header['release']}"
    head = f"numba.cuda.cudadrv.driver, {releases}: {len(rows)} of {len(known)} names changed"
    if form == "markdown":
        lines = [f"### {head}", "", "| name | before | after |", "|---|---|---|"]
        return "\n".join(lines + [f"| `{n}` | `{x}` | `{y}` |" for n, x, y in rows])
    return "\n".join([head, *(f"  {n}\n    before  {x}\n    after   {y}" for n, x, y in rows)])


def _grouped(m: Matrices, head: str, groups: dict[tuple[str, ...], list[dict]], form: str) -> str:
    lines = [f"### {head}", ""] if form == "markdown" else [head]
    for outcomes, configurations in sorted(groups.items(), key=lambda item: -len(item[1])):
        titles = _titles(m, configurations)
        if form == "markdown":
            lines += [" -> ".join(f"**{o}**" for o in outcomes), "", *(f"- `{t}`" for t in titles), ""]
        else:
            lines += ["", *(f"{word}{o}" for word, o in zip(("", "  -> "), outcomes, strict=False))]
            lines += [f"      {t}" for t in titles]
    return "\n".join(lines)


def _titles(m: Matrices, configurations: list[dict]) -> list[str]:
    """Configurations in words; where both values of `lto` get the same, it is left out."""
    found: dict[str, set[str]] = {}
    for c in configurations:
        without = {axis: value for axis, value in c.items() if axis != "lto"}
        found.setdefault(decisions.title(m.decisions, without), set()).add(c["lto"])
    every = set(m.decisions.axes["lto"])
    return [t if ltos == every else f"{t} lto={'/'.join(sorted(ltos))}" for t, ltos in found.items()]
