"""When a scenario's outcome changed (`nox -s history -- --scenario ID`): one line for each release."""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from pathlib import Path

from conformance import matrices, sealed
from conformance.differences import differences
from conformance.errors import SuiteError
from conformance.evidence import default_results
from conformance.scenario import select as select_scenarios
from conformance.selectors import Place, places


def history(cells: list[Place], scenario: str) -> list[tuple[Place, dict | None, list]]:
    """For each cell, oldest release first: its observation, and the differences from the release before.

    Cosmetic differences are left out: texts and sizes change with every package.
    """
    found, before = [], None
    for place in cells:
        seen = next((o.open() for o in sealed.read(place.path).observations if o.scenario == scenario), None)
        changed = differences(before, seen) if before and seen else []
        found.append((place, seen, [d for d in changed if d.weight != "cosmetic"]))
        before = seen or before
    return found


def line(place: Place, seen: dict | None, changed: list) -> str:
    """A release's line: its linker and outcome, and what changed since the one before."""
    if seen is None:
        return f"  {place.release:<8} not run"
    outcome = seen["outcome"] or {"kind": seen["status"]}
    what = f"{outcome.get('type') or outcome['kind']}"
    where = f" in {outcome['phase']}" if outcome.get("phase") and outcome["kind"] != "value" else ""
    news = "; ".join(f"{d.weight}: {d.text}{f' ({d.detail})' if d.detail else ''}" for d in changed)
    return f"  {place.release:<8} {seen['linker']:<16} {what}{where}, {seen['evidence']}{'   <- ' + news if news else ''}"


def main(argv: list[str] | None = None) -> int:
    """Print the history of a scenario in every environment, or in one."""
    parser = argparse.ArgumentParser(prog="nox -s history --", description=__doc__.split("\n")[0])
    parser.add_argument("--scenario", required=True, help="a scenario's whole id")
    parser.add_argument("--environment", help="in this environment only")
    parser.add_argument("--results", type=Path, default=default_results(), help="folder of records (default: results/)")
    options = parser.parse_args(argv)
    select_scenarios([options.scenario])
    if options.environment:
        matrices.load().environment(options.environment)
    cells = [p for p in places(options.results) if options.environment in (None, p.environment)]
    for environment, group in groupby(cells, key=lambda p: p.environment):
        print(environment)
        for row in history(list(group), options.scenario):
            print(line(*row))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
