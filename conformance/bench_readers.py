"""How fast records are read: compare and history over a year of nights, gate and report over a matrix (`nox -s bench-readers`).

    python -m conformance.bench_readers --files 10000 --observations 300

The records are made up, in a temporary folder or in one that is kept. Each command is a process of its own, as a user
would start it; its memory is that of its largest process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from conformance import bench_records, matrices
from conformance.errors import SuiteError
from conformance.paths import ROOT
from conformance.scenario import catalogue


@dataclass(frozen=True)
class Measured:
    """One command. files: how many it read. mib: peak memory of its largest process."""

    name: str
    files: int
    observations: int
    seconds: float
    mib: float

    @property
    def row(self) -> str:
        """The line of the table."""
        each = self.seconds / self.files / self.observations * 1e6
        return f"{self.name:<10}{self.files:>8}{self.seconds:>10.2f}{each:>10.2f}{self.mib:>10.0f}"


def parser() -> argparse.ArgumentParser:
    """The options of `nox -s bench-readers`."""
    p = argparse.ArgumentParser(prog="nox -s bench-readers --", description=__doc__.split("\n")[0])
    p.add_argument("--files", type=int, default=10_000, help="record files of the year, half of them on each side (default: 10000)")
    p.add_argument("--observations", type=int, default=300, help="in each file (default: 300)")
    p.add_argument("--folder", type=Path, help="where the files are made, and kept for the next time (default: a temporary folder)")
    return p  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Make the files, measure each command, print it all."""
    options = parser().parse_args(argv)
    if options.files < 2 or not 1 <= options.observations <= len(catalogue()):
        raise SuiteError(f"give at least 2 files, and observations up to the catalogue's {len(catalogue())} scenarios")
    if options.folder:
        print("\n".join(_all(options.folder.resolve(), options)))
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-readers-") as folder:
        print("\n".join(_all(Path(folder), options)))
    return 0


def _all(folder: Path, options) -> list[str]:
    sides, matrix = make(folder, options.files, options.observations)
    scenario = next(iter(catalogue()))
    runs = [
        ("compare", [*map(str, sides)], sides),
        ("history", ["--scenario", scenario, "--results", str(sides[0])], sides[:1]),
        ("gate", ["--remove", "ctypes", "--results", str(matrix)], [matrix]),
        ("report.command", ["--results", str(matrix), "--out", str(folder / "report")], [matrix]),
    ]
    lines = [f"{'command':<10}{'files':>8}{'seconds':>10}{'us each':>10}{'MiB':>10}"]
    for module, arguments, folders in runs:
        files = sum(1 for f in folders for _ in f.glob("*/*.jsonl"))
        seconds, mib = measure([f"conformance.{module}", *arguments])
        lines.append(Measured(module.split(".")[0], files, options.observations, seconds, mib).row)
    return [*lines, "us each: microseconds for each observation; MiB: of the largest process"]


def make(folder: Path, files: int, observations: int) -> tuple[list[Path], Path]:
    """The two sides of a year, and a folder with every cell of the matrix; what is there already is taken as it is."""
    m = matrices.load()
    sides = [folder / f"{files}x{observations}" / name for name in ("a", "b")]
    for side in sides:
        if not side.exists():
            bench_records.year(side, list(m.environments), files // 2, observations)
    matrix = folder / f"matrix-{observations}"
    if not matrix.exists():
        cells = [(e.name, r.version) for e in m.environments.values() for r in m.releases_of(e)]
        for seed, cell in enumerate(cells):
            bench_records.write(matrix, *cell, observations, seed)
    return sides, matrix


def measure(command: list[str]) -> tuple[float, float]:
    """Run a module of the suite; seconds, and MiB of its largest process. Raises SuiteError where it could not do its work."""
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode("utf-8", "replace").strip()
    if text:
        raise SuiteError(f"{command[0]} ended with {process.returncode}: {text[-600:]}")
    return seconds, usage.ru_maxrss / 1024


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
