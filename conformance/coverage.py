"""Prints every combination of the matrix: the releases of each environment, or why there is none.

    python -m conformance.coverage
"""

from __future__ import annotations

import argparse
import sys

from conformance import matrices


def rows(m: matrices.Matrices) -> list[tuple[str, str]]:
    """For each combination its name, and its releases or the reason why it cannot exist."""
    return [
        (e.name, f"impossible: {refusal.reason}" if refusal else _releases(m, e))
        for e, refusal in m.combinations
    ]


def _releases(m: matrices.Matrices, environment) -> str:
    has = m.releases_of(environment)
    lacking = [r for r in m.releases if r not in has]
    why = {m.absence(environment, r).reason for r in lacking}
    return " ".join(r.version for r in has) + "".join(f"; else {reason}" for reason in sorted(why))


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    argparse.ArgumentParser(prog="nox -s environments --", description=__doc__.split("\n")[0]).parse_args(argv)
    m = matrices.load()
    table = rows(m)
    width = max(len(name) for name, _ in table)
    for name, what in table:
        print(f"{name:<{width}}  {what}")
    print(f"\nPython {' '.join(m.common.python)} everywhere")
    for version, newer in m.common.newer.items():
        print(f"Python {version} with {', '.join(newer.packages)} at {' '.join(newer.releases)} ({newer.reason})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
