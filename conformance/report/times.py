"""Link times of an old linker against those of what replaces it: the whole distribution, scenario by scenario."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from conformance import gate
from conformance.compare import link_time
from conformance.report.collect import Column, Report

# Points of a curve; more would not be seen.
POINTS = 60
# Fewer scenarios make no distribution.
FEWEST = 20


@dataclass(frozen=True)
class Times:
    """Milliseconds of the scenarios that both runs linked, in the same order.

    alike: whether both ran on the same kind of driver and device; otherwise the two are not to be compared as they are.
    """

    linker: str
    old: Column
    new: Column
    before: list[float]
    after: list[float]

    @property
    def alike(self) -> bool:
        """Whether driver and device were the same."""
        return self.old.driver == self.new.driver and self.old.run.header.get("device") == self.new.run.header.get("device")

    @property
    def ratios(self) -> list[float]:
        """New by old, for each scenario."""
        return [b / a for a, b in zip(self.before, self.after, strict=True)]

    def row(self, which: str) -> list[float]:
        """The 5th, 50th and 95th percentile of `before`, `after` or `ratios`."""
        cuts = statistics.quantiles(getattr(self, which), n=20)
        return [cuts[0], cuts[9], cuts[18]]


def times(report: Report) -> list[Times]:
    """Each run of an old linker against what replaces it: at the same release, and where the gate looks."""
    found = []
    for decision in report.decisions:
        replacement = {p.old.name: p for p in decision.pairs}
        for old in report.columns:
            if old.linker == decision.linker and old.environment.name in replacement:
                found += _against(decision.linker, old, replacement[old.environment.name], report.columns)
    return found


def _against(linker: str, old: Column, pair: gate.Pair, columns: list[Column]) -> list[Times]:
    fitting = [c for c in columns if c.environment == pair.new and c.linker != linker and c.source == old.source]
    chosen = [c for c in fitting if c.release == old.release or c.release == pair.new_release]
    found = [_times(linker, old, new) for new in chosen]
    return [t for t in found if len(t.before) >= FEWEST]


def _times(linker: str, old: Column, new: Column) -> Times:
    both = [
        (a, b)
        for name, o in old.by_scenario.items()
        if name in new.by_scenario and (a := link_time(o)) and (b := link_time(new.by_scenario[name]))
    ]
    return Times(linker, old, new, [a for a, _ in both], [b for _, b in both])


# -- the chart ---------------------------------------------------------------------------------------

# Where the plot lies in the chart, in its own units.
LEFT, RIGHT, TOP, BOTTOM = 46, 630, 12, 170


@dataclass(frozen=True)
class Chart:
    """A cumulative distribution as SVG paths: the share of scenarios linked within a time (logarithmic)."""

    before: str
    after: str
    ticks: list[tuple[float, str]]


def chart(t: Times) -> Chart:
    """The curves of both, on one axis of time."""
    low = math.floor(math.log10(min(*t.before, *t.after)))
    high = max(math.ceil(math.log10(max(*t.before, *t.after))), low + 1)

    def x(ms: float) -> float:
        return LEFT + (math.log10(ms) - low) / (high - low) * (RIGHT - LEFT)

    def path(values: list[float]) -> str:
        ordered = sorted(values)
        steps = [round(i * (len(ordered) - 1) / (POINTS - 1)) for i in range(POINTS)]
        points = [(x(ordered[i]), BOTTOM - (i + 1) / len(ordered) * (BOTTOM - TOP)) for i in dict.fromkeys(steps)]
        return "M" + " L".join(f"{px:.1f} {py:.1f}" for px, py in points)

    ticks = [(x(10.0**p), f"{10.0**p:g} ms" if p < 3 else f"{10.0**p / 1000:g} s") for p in range(low, high + 1)]
    return Chart(path(t.before), path(t.after), ticks)
