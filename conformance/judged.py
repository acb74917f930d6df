"""Observations of results folders, judged anew by what the matrices say today.

The verdict that a record holds was that of its day; only what was seen is taken from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from conformance import cells, expectation, gate
from conformance.errors import SuiteError
from conformance.expectation import Expectation
from conformance.matrices import Matrices
from conformance.model import Cell, Driver
from conformance.records import Run
from conformance.scenario import ENVIRONMENT, catalogue
from conformance.selectors import Place, places
from conformance.spots import DRIVERS, Spot, everywhere


@dataclass(frozen=True)
class Judged:
    """What one scenario did at one spot. expected: `value` or `error`; reasons: how it differs, empty if it conforms."""

    scenario: str
    spot: Spot
    expected: str
    reasons: list[str]
    observation: dict


@dataclass(frozen=True)
class Evidence:
    """All that some records tell.

    judged: every observation that a deviation can be about. remarks: what no deviation can settle.
    """

    matrices: Matrices
    judged: list[Judged] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def expected(self) -> dict[tuple[str, str], set[Spot]]:
        """For every scenario, and `value` or `error`: where it can run and that is expected of it, run or not."""
        return _runnable(self.matrices)

    @property
    def scenarios(self) -> list[str]:
        """Every scenario that there is."""
        return [ENVIRONMENT, *catalogue()]


@lru_cache
def _runnable(m: Matrices) -> dict[tuple[str, str], set[Spot]]:
    found = defaultdict(set)
    for spot in everywhere(m):
        for scenario, expected in _expectations(_cell(m, spot)).items():
            found[scenario, _kind(expected)].add(spot)
    return dict(found)


def gather(m: Matrices, folders: Iterable[Path]) -> Evidence:
    """The evidence of some folders; where two hold the same spot, the first one counts."""
    judged, remarks, taken = [], [], set()
    for place in (place for folder in folders for place in places(folder)):
        run = place.read()
        unfit = _unfit(m, place, run)
        spot = Spot(place.environment, place.release, (run.header.get("driver") or {}).get("kind", ""))
        if unfit:
            remarks.append(f"{place.path}: not looked at: {unfit}")
        elif spot not in taken:
            taken.add(spot)
            ours, others = _judge(_cell(m, spot), spot, run)
            judged += ours
            remarks += others
    return Evidence(m, judged, remarks)


def _unfit(m: Matrices, place: Place, run: Run) -> str:
    """Why a record says nothing of a released numba-cuda under today's suite."""
    if place.environment not in m.environments or place.release not in {r.version for r in m.releases}:
        return "no such environment or release"
    if (run.header.get("driver") or {}).get("kind") not in DRIVERS:
        return run.fault or "its header is missing"
    if run.header.get("candidate"):
        return "it is of a candidate and of no release"
    stale = [s for s in gate.unfit(m, m.environment(place.environment), place.release, run) if s.startswith("is stale")]
    return "it " + stale[0] if stale else ""


def _judge(cell: Cell, spot: Spot, run: Run) -> tuple[list[Judged], list[str]]:
    expectations = _expectations(cell)
    judged, remarks = [], []
    for o in run.observations:
        expected = expectations.get(o["scenario"])
        if o["status"] == "skipped":
            continue
        elif expected is None:
            remark = "nothing is expected of it here"
        elif o["outcome"] is None:
            remark = o["reason"]
        elif o["status"] == "unstable":
            remark = f"unstable: {o['reason']}"
        elif not expectation.excusable(o, expected):
            remark = f"linked by {o['linker']} instead of {expected.class_name}: no deviation can excuse that"
        else:
            reasons = expectation.differences(o, expected)
            judged.append(Judged(o["scenario"], spot, _kind(expected), reasons, o))
            continue
        remarks.append(f"{spot.name} ({spot.driver}) {o['scenario']}: {remark}")
    return judged, remarks


def _cell(m: Matrices, spot: Spot) -> Cell:
    driver = Driver(spot.driver, "", "")
    return cells.describe(m, m.environment(spot.environment), m.release(spot.release), driver, Path())


def _expectations(cell: Cell) -> dict[str, Expectation]:
    """What is expected of every scenario that can run in a cell."""
    found = {ENVIRONMENT: expectation.of_examination(cell)}
    if cell.expected.error and "import" in cell.expected.error.phase:
        return found
    for scenario in catalogue().values():
        if not scenario.left_out(cell.release, cell.driver.kind):
            try:
                found[scenario.id] = expectation.of(scenario, cell)
            except SuiteError:
                continue  # undocumented: a run says so, and there is nothing to compare with
    return found


def _kind(expected: Expectation) -> str:
    return "error" if expected.error else "value"
