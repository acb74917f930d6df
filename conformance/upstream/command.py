"""Runs numba-cuda's own tests that concern linking, out of its wheel (`nox -s upstream -- cuda12-ctypes`).

Which those are is found by rule (matrices/upstream.toml). Records lie in results/upstream/, laid out as results are, so
that `nox -s compare -- A B --results results/upstream`, and history and report with the same option, read them.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance import candidate, cells, environments, matrices, run
from conformance.errors import SuiteError
from conformance.model import Cell, Environment, Release
from conformance.paths import RESULTS
from conformance.records import Recorder
from conformance.summary import summarise
from conformance.toolchain import Toolchain
from conformance.upstream import binaries, modules, rule
from conformance.upstream.names import FAMILY


def parser() -> argparse.ArgumentParser:
    """The options of `nox -s upstream`."""
    p = argparse.ArgumentParser(prog="nox -s upstream --", description=__doc__.split("\n")[0])
    p.add_argument("environment", help="where they run (nox -s environments lists them)")
    p.add_argument("--release", action="append", default=[], help="a numba-cuda release (default: all in which the environment exists)")
    p.add_argument("--driver", choices=("auto", "device", "recording"), default="auto")
    p.add_argument("--scenario", action="append", default=[], metavar="ID", help="a test, or a module: upstream/cudadrv/test_linker")
    p.add_argument("--seconds", type=float, default=120, help="a test that takes longer hangs (default: 120)")
    p.add_argument("-j", "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="modules at a time (default: 2)")
    p.add_argument("--python", default="", help="the Python version to use, e.g. 3.12")
    p.add_argument("--results", type=Path, default=RESULTS, help="where records go, into upstream/ (default: results/)")
    p.add_argument("--list", action="store_true", help="say which modules are run, and why, and run none")
    candidate.add_options(p)
    return p


def main(argv: list[str] | None = None) -> int:
    """Run the tests in one environment; 0 where none fails that is not known to, 1 otherwise."""
    options = parser().parse_args(argv)
    m = matrices.load()
    environment = m.environment(options.environment)
    asked = candidate.asked(options)
    python = environments.choose_python(m.common.python, options.python)
    parts = [candidate.find(one, python) for one in asked]
    failed = []
    for release in run._releases(m, environment, run._expected_as(m, parts, options.release)):
        words = candidate.words(asked, options.python)
        subject = candidate.settle(m, environment, release, parts, words, python) if parts else None
        lock = _lock(m, environment, release, parts, python)
        interpreter = environments.environment(lock, python)
        cell = _cell(m, environment, release, interpreter, options)
        cell = candidate.place(cell, subject) if subject else cell
        cell = dataclasses.replace(cell, lock=f"{lock.stem}@{environments.digest(lock)}", results=_results(options, environment, subject or release))
        if options.list:
            print("\n".join(f"{name}: {', '.join(why)}" for name, why in rule.chosen(_package(interpreter)).items()))
        elif _run(cell, interpreter, options):
            failed.append(cell.subject)
    if failed:
        print(f"{environment.name}: upstream's own tests fail in {', '.join(failed)}", flush=True)
    return 1 if failed else 0


def _lock(m: matrices.Matrices, environment: Environment, release: Release, parts: list, python: Path) -> Path:
    """The environment's packages and those that upstream's tests import."""
    requirements = candidate._requirements(m, environment, release, parts) + rule.load().packages
    return candidate.resolve(
        f"{FAMILY}-{environment.lock}-{release.version}", requirements, candidate._left(environment.constraints, parts),
        m.lock(environment, release), python, without=frozenset(p.package for p in parts),
    )  # fmt: skip


def _cell(m: matrices.Matrices, environment: Environment, release: Release, interpreter: Path, options) -> Cell:
    # The suite silences Numba's advice on performance; upstream's tests ask for it.
    settings = {k: v for k, v in environment.settings.items() if k not in m.common.settings}
    environment = dataclasses.replace(environment, settings=settings)
    driver = cells.choose_driver(options.driver, environment, interpreter)
    return cells.describe(m, environment, release, driver, Path())


def _results(options, environment: Environment, subject) -> str:
    name = getattr(subject, "name", "") or subject.version
    partial = "partial." if options.scenario else ""
    return str(options.results.resolve() / FAMILY / environment.name / f"{name}.{partial}jsonl")


def _package(interpreter: Path) -> Path:
    """The folder of numba-cuda in an environment."""
    return next(interpreter.parents[1].glob("lib/python*/site-packages/numba_cuda"))


def _run(cell: Cell, interpreter: Path, options) -> bool:
    """Run and record one cell; whether it failed."""
    package = _package(interpreter)
    toolchain = Toolchain(cells.toolchain_folder(cell.environment), cell.environment.cuda_major)
    folder, left_out = binaries.build(toolchain, cell.driver.compute_capability, package)
    cell = dataclasses.replace(cell, fixtures=str(folder), notes=[*cell.notes, *left_out])
    variables = cells.process_environment(cell) | {"NUMBA_CUDA_TEST_BIN_DIR": str(folder)}
    chosen = _wanted(list(rule.chosen(package)), options.scenario)
    runner = modules.Runner(interpreter, cell, variables, package, options.seconds, options.scenario)
    recorder = Recorder(Path(cell.results))
    observations = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, (header, seen) in enumerate(pool.map(runner.run, chosen)):
            if not number:
                recorder.header(**header)
            for one in seen:
                recorder.observation(one)
            observations += seen
            told = Counter(o["status"] for o in seen)
            print(f"{chosen[number]}: {', '.join(f'{n} {status}' for status, n in told.items()) or 'no test'}", flush=True)
    recorder.footer()
    print("\n".join(["", *summarise(cell, observations), *by_linker(observations)]), flush=True)
    return any(o["status"] == "differs" for o in observations)


def _wanted(chosen: list[str], scenarios: list[str]) -> list[str]:
    """The modules that have what was asked for; raises SuiteError for what none of them can have."""
    for scenario in scenarios:
        if not any(f"{scenario}/".startswith(f"{FAMILY}/{name}/") for name in chosen):
            raise SuiteError(f"{scenario}: none of upstream's modules that concern linking has it; `--list` names them")
    return [n for n in chosen if not scenarios or any(f"{s}/".startswith(f"{FAMILY}/{n}/") for s in scenarios)]


def by_linker(observations: list[dict]) -> list[str]:
    """How many tests passed and failed by the linker that served them."""
    counts: dict[str, Counter] = {}
    for o in observations:
        counts.setdefault(o["linker"] or "no linker", Counter())[o["status"]] += 1
    words = {"conforms": "passed", "differs": "failed", "deviates": "failed as known"}
    return [
        f"{linker}: {', '.join(f'{n} {words.get(status, status)}' for status, n in sorted(c.items()))}"
        for linker, c in sorted(counts.items())
    ]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
