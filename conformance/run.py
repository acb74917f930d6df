"""Runs the suite in an environment, release by release (`nox -s ENVIRONMENT`).

    python -m conformance.run cuda12-ctypes --release 0.18.1 --driver recording
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conformance import candidate, cells, environments, matrices
from conformance.errors import SuiteError
from conformance.model import Cell, Environment, Release
from conformance.paths import RESULTS, ROOT
from conformance.records import read

# pytest's exit codes for which it has said why itself: interrupted, internal error, usage error.
_GIVEN_UP = (2, 3, 4)
# Arguments of pytest that leave scenarios out.
_SELECTING = ("-k", "-m", "--deselect", "--scenario", "--maxfail", "-x", "--lf", "--sw")


def parser() -> argparse.ArgumentParser:
    """The options of an environment's session; what it does not know goes to pytest."""
    p = argparse.ArgumentParser(
        prog="nox -s ENVIRONMENT --",
        description="Build an environment and run the linking scenarios in it. "
        "Options that are not listed here go to pytest (-k ltoir, -n 2, -x, ...).",
    )
    p.add_argument("environment", help=argparse.SUPPRESS)
    p.add_argument("--release", action="append", default=[], help="a numba-cuda release (default: all in which the environment exists)")
    p.add_argument("--driver", choices=("auto", "device", "recording"), default="auto", help="the machine's device, or a recording stand-in (default: a device if there is one)")
    p.add_argument("--scenario", action="append", default=[], help="a scenario's whole id")
    p.add_argument("--seconds", type=float, default=60, help="a scenario that takes longer hangs (default: 60)")
    p.add_argument("--python", default="", help="the Python version to use, e.g. 3.12")
    p.add_argument("--results", type=Path, default=RESULTS, help="where records go (default: results/)")
    candidate.add_options(p)
    return p  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run one environment; 0 where every release conforms, 1 otherwise."""
    options, rest = parser().parse_known_args(argv)
    _check_platform()
    m = matrices.load()
    environment = m.environment(options.environment)
    asked = candidate.asked(options)
    asked += candidate.for_python(m, options.python, asked)
    newer = [options.python] if options.python in m.common.newer else []
    python = environments.choose_python([*m.common.python, *newer], options.python)
    parts = [candidate.find(one, python) for one in asked]
    releases = _releases(m, environment, _expected_as(m, parts, options.release))
    failed = []
    for release in releases:
        words = candidate.words(asked, options.python)
        subject = candidate.settle(m, environment, release, parts, words, python) if parts else None
        if _run_release(m, environment, release, python, options, rest, subject):
            failed.append(subject.name if subject else release.version)
    if failed:
        print(f"{environment.name}: not as expected in {', '.join(failed)}", flush=True)
    return 1 if failed else 0


def _check_platform() -> None:
    if sys.platform != "linux":
        raise SuiteError("environments are built on Linux only; records can be read anywhere")


def _expected_as(m: matrices.Matrices, parts: list[candidate.Part], wanted: list[str]) -> list[str]:
    """The releases that were asked for, or the one that a candidate's numba-cuda descends from."""
    base = None if wanted else candidate.base(m, parts)
    return [base.version] if base else wanted


def _releases(m: matrices.Matrices, environment: Environment, wanted: list[str]) -> list[Release]:
    """The releases to run; one that the environment does not exist in is an error with the reason."""
    chosen = [m.release(version) for version in wanted]
    for release in chosen:
        refusal = m.absence(environment, release)
        if refusal:
            has = ", ".join(r.version for r in m.releases_of(environment))
            raise SuiteError(
                f"{environment.name} does not exist at {release.version}: {refusal.reason} "
                f"({refusal.source}); it exists at {has}"
            )
    return chosen or m.releases_of(environment)


def _run_release(m, environment, release, python, options, rest, subject=None) -> bool:
    """Build and run one cell, or a candidate in a release's place; whether it failed."""
    start = time.monotonic()
    interpreter = environments.environment(subject.lock if subject else m.lock(environment, release), python)
    driver = cells.choose_driver(options.driver, environment, interpreter)
    name = subject.name if subject else release.version
    cell = cells.describe(m, environment, release, driver, _results(options, environment, name, rest))
    cell = candidate.place(cell, subject) if subject else cell
    cell = dataclasses.replace(
        cell, fixtures=str(cells.fixtures_for(environment, driver.compute_capability))
    )
    variables = cells.process_environment(cell)
    print(f"{environment.name} @ {name}: ready after {time.monotonic() - start:.1f} s", flush=True)
    # Always with `=`: before pytest knows the suite's options it takes words that follow them for test files.
    arguments = [f"--scenario={s}" for s in options.scenario]
    arguments += [f"--seconds={options.seconds:g}", *_processes(options, rest), *rest]
    return _pytest(interpreter, cell, variables, arguments, options.seconds) != 0


def _results(options, environment: Environment, release: str, rest: list[str]) -> Path:
    """The record file; a run of some scenarios does not replace the record of all."""
    name = f"{release}.{'partial.' if _is_part(options, rest) else ''}jsonl"
    return options.results.resolve() / environment.name / name


def _is_part(options, rest: list[str]) -> bool:
    return bool(options.scenario or any(a.startswith(_SELECTING) for a in rest))


def _processes(options, rest: list[str]) -> list[str]:
    """Two processes for a whole catalogue, where nobody says how many; some scenarios do not repay a second."""
    said = any(a.startswith(("-n", "--numprocesses")) for a in rest)
    return [] if said or _is_part(options, rest) or os.cpu_count() == 1 else ["-n", "2"]


def _pytest(
    interpreter: Path, cell: Cell, variables: dict[str, str], arguments: list[str], seconds: float, output=None
) -> int:
    """Run pytest until it comes to its end; a process that dies costs the scenario in flight only.

    output: a file for what it says, instead of the terminal.
    """
    with tempfile.NamedTemporaryFile("w", prefix="cell-", suffix=".json") as description:
        json.dump(cell.to_json(), description)
        description.flush()
        arguments = [f"--cell={description.name}", *arguments]
        code = _until_the_end(interpreter, cell, variables, arguments, seconds, output)
    if code < 0:
        print(f"pytest was {_cause_of_death(code)} outside of any scenario", flush=True)
    if code not in _GIVEN_UP and not read(Path(cell.results)).complete:
        print(f"{cell.results} has no footer: the run did not finish (exit code {code})", flush=True)
        return code or 1
    return code


def _until_the_end(
    interpreter: Path, cell: Cell, variables: dict[str, str], arguments: list[str], seconds: float, output=None
) -> int:
    """pytest's exit code, once no scenario takes the process with it any more."""
    in_flight = Path(cell.results + ".in-flight")
    _forget(in_flight)
    command = [
        interpreter, "-m", "pytest", "conformance/test_scenarios.py", "-p", "no:cacheprovider",
        # The suite's own summary says what is wrong, and how to see it again.
        "--quiet", "--no-header", "--tb=no", "-rN",
        # xdist gives up after four dead workers for each one, and leaves the rest out.
        "--max-worker-restart", "100", *arguments,
    ]  # fmt: skip
    resume: list[str] = []
    taken: set[str] = set()
    while True:
        told = {"stdout": output, "stderr": output}
        code = subprocess.run([*command, *resume], cwd=ROOT, env=variables, **told).returncode
        lost = _lost(code, in_flight, seconds)
        if not lost or lost["scenario"] in taken:  # twice: the record cannot be gone on with
            break
        taken.add(lost["scenario"])
        resume = [f"--resume={json.dumps(lost)}"]
    return code


def _forget(in_flight: Path) -> None:
    try:
        in_flight.unlink(missing_ok=True)
    except OSError as error:
        raise SuiteError(f"{in_flight.parent} is no folder for records ({error.strerror})") from error


def _lost(code: int, in_flight: Path, seconds: float) -> dict:
    """What a pytest process died of, in which scenario and phase; empty where it came to its end.

    The word that it left is taken away, so that the next process can only die of something new.
    """
    try:
        marker = json.loads(in_flight.read_text())
    except (OSError, ValueError):
        return {}
    _forget(in_flight)
    late = code == 1 and time.time() - marker["since"] >= seconds - 0.5
    kind, why = ("timeout", f"no end after {seconds:g} s") if late else ("crash", _cause_of_death(code))
    return {"scenario": marker["scenario"], "phase": marker["phase"], "kind": kind, "message": why}


def _cause_of_death(code: int) -> str:
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"the process ended by itself with exit code {code}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
