"""The catalogue as a table, and what it leaves out (`nox -s catalogue`).

    python -m conformance.listing --family lto
    python -m conformance.listing --gaps            what no scenario touches, or no environment runs
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter, defaultdict
from pathlib import Path

from conformance import matrices
from conformance.errors import SuiteError
from conformance.evidence import default_results
from conformance.matrices import Matrices
from conformance.scenario import Scenario, catalogue
from conformance.selectors import places


def table(scenarios: list[Scenario]) -> list[str]:
    """One line for each scenario: id, profile, cases, what it needs, how it runs."""
    width = max(len(s.id) for s in scenarios)
    return [
        f"{s.id:<{width}}  {s.profile:<8}  {' '.join(s.cases) or '-':<8}  {' '.join(s.needs) or '-'}{_how(s)}".rstrip()
        for s in scenarios
    ]


def _how(s: Scenario) -> str:
    words = [w for w, holds in (("isolated", s.isolated), ("repeats", s.repeats), ("device", s.device)) if holds]
    return f"  [{', '.join(words)}]" if words else ""


def counts(scenarios: list[Scenario]) -> list[str]:
    """How many scenarios each family has, by profile."""
    families = Counter((s.family, s.profile) for s in scenarios)
    names = dict.fromkeys(s.family for s in scenarios)
    return [f"{name:<16} {families[name, 'core']:>4} core {families[name, 'extended']:>4} extended" for name in names]


def untouched(m: Matrices, scenarios: list[Scenario]) -> list[str]:
    """Features that some linker offers and no scenario needs."""
    offered = {f for linker in m.linkers.values() for e in linker.engines.values() for f in e.features()}
    needed = {need for s in scenarios for need in s.needs}
    return sorted(offered - needed)


def skipped_everywhere(results: Path) -> list[str]:
    """Scenarios that every recorded environment and release skips."""
    seen: dict[str, set[bool]] = defaultdict(set)
    for place in places(results):
        for o in place.read().observations:
            seen[o["scenario"]].add(o["status"] == "skipped")
    return sorted(scenario for scenario, skips in seen.items() if skips == {True})


def pairs_not_run(m: Matrices, scenarios: list[Scenario], results: Path) -> list[str]:
    """Pairs of input kind and option that a linker offers, and that no recorded scenario ran on it."""
    needs = {s.id: set(s.needs) for s in scenarios}
    ran: dict[str, set[frozenset]] = defaultdict(set)
    for place in places(results):
        for o in place.read().observations:
            if o["status"] != "skipped":
                ran[o["linker"]].update(_pairs(needs.get(o["scenario"], set())))
    missing = []
    for name, linker in m.linkers.items():
        for engine in linker.engines.values():
            wanted = _pairs(engine.features()) - ran[linker.class_name]
            missing += [f"{name}: {' with '.join(sorted(pair))}" for pair in wanted]
    return sorted(set(missing))


def _pairs(features: set[str]) -> set[frozenset]:
    kinds = {f.split(":")[1] for f in features if f.startswith("input:")}
    options = {f for f in features if f.startswith("option:")}
    return {frozenset(pair) for pair in itertools.product(kinds, options)}


def main(argv: list[str] | None = None) -> int:
    """Print the catalogue, or its gaps."""
    parser = argparse.ArgumentParser(prog="nox -s catalogue --", description=__doc__.split("\n")[0])
    parser.add_argument("--family", help="one family only")
    parser.add_argument("--gaps", action="store_true", help="what no scenario touches, or no environment runs")
    parser.add_argument("--results", type=Path, default=default_results(), help="folder of records (default: results/)")
    options = parser.parse_args(argv)
    scenarios = list(catalogue().values())
    families = list(dict.fromkeys(s.family for s in scenarios))
    if options.family and options.family not in families:
        raise SuiteError(f"no family is called {options.family!r}; known: {', '.join(families)}")
    if options.gaps:
        return _print_gaps(scenarios, options.results)
    chosen = [s for s in scenarios if options.family in (None, s.family)]
    print("\n".join([*table(chosen), "", *counts(chosen), f"{len(chosen)} scenarios"]))
    return 0


def _print_gaps(scenarios: list[Scenario], results: Path) -> int:
    m = matrices.load()
    gaps = {
        "features that no scenario needs": untouched(m, scenarios),
        "scenarios that every recorded environment skips": skipped_everywhere(results),
        "pairs of input kind and option that nobody has run on a linker": pairs_not_run(m, scenarios, results),
    }
    for title, found in gaps.items():
        print(f"{title}: {len(found)}")
        print("".join(f"  {line}\n" for line in found), end="")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
