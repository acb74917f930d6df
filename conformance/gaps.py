"""What the catalogue and some records leave out (`nox -s catalogue -- --gaps`)."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance import cells
from conformance.matrices import Matrices
from conformance.model import KINDS
from conformance.scenario import ENVIRONMENT, Scenario
from conformance.selectors import places
from conformance.spots import DRIVERS


@dataclass(frozen=True)
class Recorded:
    """One run. axes: its value on every axis; linker: the one that the rules expect, with its engine, `cuda-core/driver`."""

    axes: dict[str, str]
    linker: str
    class_name: str
    observations: list[dict]

    @property
    def ran(self) -> list[dict]:
        """What scenarios did that were not skipped; the examination, which is in every run, is none."""
        return [o for o in self.observations if o["status"] != "skipped" and o["scenario"] != ENVIRONMENT]


def recorded(m: Matrices, results: Path) -> list[Recorded]:
    """The runs of a folder whose environment and release are known."""
    releases = {r.version for r in m.releases}
    known = [p for p in places(results) if p.environment in m.environments and p.release in releases]
    return [_recorded(m, place) for place in known]


def _recorded(m: Matrices, place) -> Recorded:
    run, environment = place.read(), m.environment(place.environment)
    expected = cells.expected(m, environment, place.release)
    linker = f"{expected.linker}/{expected.engine}" if expected.linker else ""
    driver = (run.header.get("driver") or {}).get("kind", "")
    axes = {**environment.axes, "release": place.release, "driver": driver, "linker": linker}
    return Recorded(axes, linker, expected.class_name, run.observations)


def features(m: Matrices, scenarios: list[Scenario]) -> list[str]:
    """Features that some linker offers and no scenario needs."""
    offered = {f for linker in m.linkers.values() for e in linker.engines.values() for f in e.features()}
    needed = {need for s in scenarios for need in s.needs}
    return sorted(offered - needed)


def skipped(runs: list[Recorded]) -> list[str]:
    """Scenarios that every run skips, with the reasons."""
    reasons: dict[str, set[str]] = defaultdict(set)
    for o in (o for run in runs for o in run.observations):
        reasons[o["scenario"]].add(o["reason"] if o["status"] == "skipped" else "")
    return sorted(f"{name}: {'; '.join(sorted(why))}" for name, why in reasons.items() if "" not in why)


def absent(scenarios: list[Scenario], runs: list[Recorded]) -> list[str]:
    """Scenarios that no run has."""
    names = {o["scenario"] for run in runs for o in run.observations}
    return sorted(s.id for s in scenarios if s.id not in names)


def values(m: Matrices, runs: list[Recorded]) -> list[str]:
    """Values of axes on which no scenario ran, and why not."""
    return [f"{axis}={value}: {why}" for axis, value in _values(m) if (why := _untouched(axis, value, runs))]


def _values(m: Matrices) -> Iterator[tuple[str, str]]:
    axes = {**m.axes, "release": [r.version for r in m.releases], "driver": DRIVERS, "linker": _engines(m)}
    return ((axis, value) for axis, known in axes.items() for value in known)


def _engines(m: Matrices) -> list[str]:
    return [f"{name}/{engine}" for name, linker in m.linkers.items() for engine in linker.engines]


def _untouched(axis: str, value: str, runs: list[Recorded]) -> str:
    there = [run for run in runs if run.axes[axis] == value]
    if not there:
        return "nothing is recorded"
    return "" if any(run.ran for run in there) else "all that is recorded was skipped"


def pairs(m: Matrices, scenarios: list[Scenario], runs: list[Recorded]) -> list[str]:
    """Pairs of input kind and option that a linker's engine offers, and that no scenario ran on it: a line an option."""
    known = {option for linker in m.linkers.values() for engine in linker.engines.values() for option in engine.options}
    concerned = {s.id: set(itertools.product(_options(s, known), _kinds(s))) for s in scenarios}
    ran: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for run in runs:
        for o in run.ran:
            if o["linker"] == run.class_name:
                ran[run.linker] |= concerned.get(o["scenario"], set())
    lines = []
    for name, engine in ((n, e) for n, linker in m.linkers.items() for e in linker.engines):
        offers = m.linkers[name].engines[engine]
        for option in offers.options:
            kinds = sorted({k for inputs in offers.inputs.values() for k in inputs if (option, k) not in ran[f"{name}/{engine}"]})
            lines += [f"{name}/{engine}: {option} with {', '.join(kinds)}"] if kinds else []
    return lines


def _kinds(s: Scenario) -> set[str]:
    """The kinds of input that a scenario is about: those that it needs, and the one that it has in its name."""
    needed = {need.split(":")[1] for need in s.needs if need.startswith("input:")}
    return needed | ({s.parameters.get("kind")} & set(KINDS))


def _options(s: Scenario, known: set[str]) -> set[str]:
    """The options that a scenario is about: those that it needs, and the one that its name begins with."""
    needed = {need.removeprefix("option:") for need in s.needs if need.startswith("option:")}
    return needed | {option for option in known if s.id.split("/")[1].startswith(f"{option}-")}
