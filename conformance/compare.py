"""Two sets of records side by side (`nox -s compare -- A B`), worst first.

    python -m conformance.compare cuda12-ctypes@0.18.1 cuda12-nvidia@0.18.1 --format markdown

A and B: an environment, an environment@release, a linker, or a folder of results. The exit code is 0 where
nothing breaks, 1 where something does, 2 where the records cannot be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from conformance import matrices, sealed
from conformance.differences import WEIGHTS, Difference, differences
from conformance.errors import SuiteError
from conformance.evidence import default_results
from conformance.records import Run
from conformance.sealed import Sealed
from conformance.selectors import Place, pairs, select

_PHASES = ("construct", "add", "complete")
# Pairs from which on it is worth while to start processes.
_MANY = 64


@dataclass
class Comparison:
    """One cell against another.

    headers: of both, what tells where they ran. remarks: what makes the two less comparable (another device, an
    unfinished run). found: scenario and difference. same: how many scenarios do not differ. ratios: for each scenario
    linked in both, B's time from construction to the image by A's.
    """

    a: Place
    b: Place
    headers: tuple[dict, dict]
    remarks: list[str] = field(default_factory=list)
    found: list[tuple[str, Difference]] = field(default_factory=list)
    same: int = 0
    ratios: array[float] = field(default_factory=lambda: array("d"))


def compare(a: Place, b: Place) -> Comparison:
    """Compare two cells' records; raises SuiteError where one cannot be read."""
    ours, theirs = sealed.read(a.path), sealed.read(b.path)
    result = Comparison(a, b, (_where(ours), _where(theirs)), [*_remarks("A", ours), *_remarks("B", theirs)])
    result.remarks += _apart(ours, theirs)
    mine = {o.scenario: o for o in ours.observations}
    yours = {o.scenario: o for o in theirs.observations}
    result.remarks += _missing(mine, yours)
    for scenario in (s for s in mine if s in yours):
        _compare_scenario(result, scenario, mine[scenario], yours[scenario])
    return result


def compare_all(chosen: list[tuple[Place, Place]]) -> list[Comparison]:
    """Compare pairs of cells, in a process for each processor where there are many."""
    if len(chosen) < _MANY:
        return [compare(a, b) for a, b in chosen]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compare, *zip(*chosen, strict=True), chunksize=_MANY // 4))


def _compare_scenario(result: Comparison, scenario: str, mine: Sealed, yours: Sealed) -> None:
    found = [] if mine.same(yours) else differences(mine.open(), yours.open())
    result.found += [(scenario, difference) for difference in found]
    result.same += not found
    before, after = link_time(mine.timed()), link_time(yours.timed())
    if before and after:
        result.ratios.append(after / before)


def _where(run: Run) -> dict:
    return {key: run.header.get(key) for key in ("driver", "device", "source")}


def link_time(observation: dict) -> float:
    """Milliseconds from a linker's construction to its image; 0 where no image was linked or no time is known."""
    return sum(observation["milliseconds"].get(p, 0) for p in _PHASES) if observation["image"] else 0


def _remarks(name: str, run: Run) -> list[str]:
    if run.fault:
        return [f"{name} is damaged: {run.fault}"]
    return [] if run.complete else [f"{name} has no footer: its run did not finish"]


def _apart(a: Run, b: Run) -> list[str]:
    """In what the circumstances of two runs differ that should not."""
    questions = {
        "driver": lambda h: (h.get("driver") or {}).get("kind"),
        "device": lambda h: h.get("device"),
        "compute capability": lambda h: h.get("compute_capability"),
        "suite": lambda h: h.get("suite"),
        "Python": lambda h: str(h.get("python")).rsplit(".", 1)[0],
    }
    answers = {name: (ask(a.header), ask(b.header)) for name, ask in questions.items()}
    return [f"another {name}: {x} and {y}" for name, (x, y) in answers.items() if x != y]


def _missing(mine: dict, yours: dict) -> list[str]:
    only = {"A": [s for s in mine if s not in yours], "B": [s for s in yours if s not in mine]}
    return [
        f"{len(scenarios)} scenarios only in {name}: {', '.join(scenarios[:3])}{' ...' if len(scenarios) > 3 else ''}"
        for name, scenarios in only.items()
        if scenarios
    ]


def grouped(comparisons: list[Comparison]) -> list[tuple[Difference, list[str]]]:
    """Every difference once, with the scenarios that show it, worst and most frequent first."""
    where: dict[Difference, list[str]] = defaultdict(list)
    for c in comparisons:
        for scenario, difference in c.found:
            name = scenario if len(comparisons) == 1 else f"{c.a.name} {scenario}"
            where[difference].append(f"{name} ({difference.detail})" if difference.detail else name)
    return sorted(where.items(), key=lambda item: (WEIGHTS.index(item[0].weight), item[0].kind, -len(item[1])))


def as_text(comparisons: list[Comparison], cosmetic: bool = False) -> str:
    """The comparison for a terminal; cosmetic differences are counted, or shown if asked for."""
    lines = [line for c in comparisons for line in _heading(c)]
    groups = grouped(comparisons)
    shown = [g for g in groups if cosmetic or g[0].weight != "cosmetic"]
    for difference, scenarios in shown:
        lines += [f"{difference.weight:<9} {difference.kind:<12} {len(scenarios):>4}  {difference.text}"]
        lines += [f"{'':<29} {', '.join(scenarios[:3])}{' ...' if len(scenarios) > 3 else ''}"]
    return "\n".join([*lines, _closing(comparisons, groups)])


def as_markdown(comparisons: list[Comparison], cosmetic: bool = False) -> str:
    """The comparison as a Markdown table."""
    lines = [f"- {line}" for c in comparisons for line in _heading(c)]
    lines += ["", "| weight | kind | how many | difference | for example |", "|---|---|---:|---|---|"]
    for difference, scenarios in grouped(comparisons):
        if cosmetic or difference.weight != "cosmetic":
            text = difference.text.replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {difference.weight} | {difference.kind} | {len(scenarios)} | {text} | `{scenarios[0]}` |")
    return "\n".join([*lines, "", _closing(comparisons, grouped(comparisons))])


def as_json(comparisons: list[Comparison], cosmetic: bool = True) -> str:
    """The whole comparison as JSON: one object for each pair of cells."""
    return json.dumps([_document(c) for c in comparisons], indent=1, ensure_ascii=False)


def _document(c: Comparison) -> dict:
    return {
        "a": c.a.name,
        "b": c.b.name,
        "remarks": c.remarks,
        "same": c.same,
        "link_time_ratio": _ratio(c),
        "differences": [
            {"scenario": s, "kind": d.kind, "weight": d.weight, "text": d.text, "detail": d.detail}
            for s, d in c.found
        ],
    }


def _heading(c: Comparison) -> Iterator[str]:
    yield f"A {c.a.name}: {_what(c.headers[0])}"
    yield f"B {c.b.name}: {_what(c.headers[1])}"
    yield from (f"! {remark}" for remark in c.remarks)
    ratio = _ratio(c)
    if ratio:
        yield f"link time B/A: {ratio:.2f} (median of {len(c.ratios)} scenarios)"


def _what(header: dict) -> str:
    driver = header.get("driver") or {}
    return f"{driver.get('kind')} driver {driver.get('version')}, {header.get('device') or 'no device'}, suite {header.get('source')}"


def _ratio(c: Comparison) -> float | None:
    return statistics.median(c.ratios) if c.ratios else None


def _closing(comparisons: list[Comparison], groups: list) -> str:
    counts = {w: sum(len(s) for d, s in groups if d.weight == w) for w in WEIGHTS}
    same = sum(c.same for c in comparisons)
    return f"{same} scenarios the same; " + ", ".join(f"{n} {w}" for w, n in counts.items())


FORMATS = {"text": as_text, "markdown": as_markdown, "json": as_json}


def main(argv: list[str] | None = None) -> int:
    """Print a comparison; 0 nothing breaks, 1 something does, 2 an unfinished or damaged record."""
    parser = argparse.ArgumentParser(prog="nox -s compare --", description=__doc__.split("\n")[0])
    parser.add_argument("a", help="environment, environment@release, linker, or folder of results")
    parser.add_argument("b")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("--cosmetic", action="store_true", help="show cosmetic differences as well")
    parser.add_argument("--results", type=Path, default=default_results(), help="folder of records (default: results/)")
    options = parser.parse_args(argv)
    m = matrices.load()
    chosen = pairs(select(m, options.a, options.results), select(m, options.b, options.results), m)
    comparisons = compare_all(chosen)
    print(FORMATS[options.format](comparisons, options.cosmetic))
    if any(remark.startswith(("A is", "B is", "A has", "B has")) for c in comparisons for remark in c.remarks):
        return 2
    return 1 if any(d.weight == "breaking" for c in comparisons for _, d in c.found) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        print(f"conformance: {error}", file=sys.stderr)
        sys.exit(2)
