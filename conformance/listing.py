"""The catalogue as a table, and what it leaves out (`nox -s catalogue`).

    python -m conformance.listing --family lto
    python -m conformance.listing --gaps            what no scenario touches, or no environment runs
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from conformance import gaps, matrices
from conformance.errors import SuiteError
from conformance.evidence import default_results
from conformance.scenario import Scenario, catalogue


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
    runs = gaps.recorded(m, results)
    found = {
        "features that a linker offers and no scenario needs": gaps.features(m, scenarios),
        "scenarios that are skipped wherever they were recorded, and why": gaps.skipped(runs),
        "scenarios that were never recorded": gaps.absent(scenarios, runs),
        "axis values on which no scenario ran": gaps.values(m, runs),
        "linkers with options and kinds of input that nobody has run together": gaps.pairs(m, scenarios, runs),
    }
    for title, lines in found.items():
        print(f"{title}: {len(lines)}")
        print("".join(f"  {line}\n" for line in lines), end="")
    print(f"from {len(runs)} runs in {results}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
