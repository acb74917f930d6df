"""Makes the lock files: one for every set of packages that the matrices name (`nox -s lock`).

    python -m conformance.locks [NAME ...]    all, or the named ones (a glob is fine)
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conformance import matrices
from conformance.environments import _uv_program
from conformance.errors import SuiteError
from conformance.paths import LOCKS, ROOT


def requirements(m: matrices.Matrices) -> dict[str, tuple[list[str], list[str]]]:
    """For each lock's name: requirements and constraints."""
    wanted = {}
    for environment in m.environments.values():
        for release in m.releases_of(environment):
            numba_cuda = f"numba-cuda[{environment.extra}]=={release.version}"
            packages = [numba_cuda, *release.pins, *environment.packages, *m.common.packages]
            wanted[m.lock(environment, release).stem] = (packages, environment.constraints)
    for name, toolchain in m.toolchains.items():
        wanted[f"toolchain-{name}"] = (toolchain.packages, [])
    wanted |= {name: (packages, []) for name, packages in m.decisions.packages.items()}
    wanted["harness"] = (_harness_packages(), [])
    return wanted


def _harness_packages() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return project["dependency-groups"]["harness"]


def make(name: str, packages: list[str], constraints: list[str]) -> None:
    """Resolve one lock for all admitted Pythons, with hashes."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, bounds = Path(folder, "requirements.in"), Path(folder, "constraints.in")
        wanted.write_text("\n".join(packages) + "\n")
        bounds.write_text("\n".join(constraints) + "\n")
        command = [
            _uv_program(), "pip", "compile", "--quiet", "--universal", "--python-version", "3.10",
            "--generate-hashes", "--no-annotate", "--custom-compile-command", "nox -s lock",
            "--constraints", str(bounds), "--output-file", str(LOCKS / f"{name}.txt"), str(wanted),
        ]  # fmt: skip
        if name == "harness":
            command[command.index("3.10")] = "3.11"
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise SuiteError(f"{name} cannot be locked: {' '.join(done.stderr.split())[:800]}")


def main(argv: list[str] | None = None) -> int:
    """Make the named locks, or all, and remove those that no environment needs any more."""
    parser = argparse.ArgumentParser(prog="nox -s lock --", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="locks to make, globs allowed (default: all)")
    options = parser.parse_args(argv)
    wanted = requirements(matrices.load())
    chosen = [n for n in wanted if not options.names or any(fnmatch.fnmatch(n, g) for g in options.names)]
    if not chosen:
        raise SuiteError(f"no lock matches {' '.join(options.names)}; known: {', '.join(wanted)}")
    LOCKS.mkdir(exist_ok=True)
    with ThreadPoolExecutor(4) as pool:
        for name, _ in zip(chosen, pool.map(lambda n: make(n, *wanted[n]), chosen)):
            print(f"locked {name}", flush=True)
    for stale in set(LOCKS.glob("*.txt")) - {LOCKS / f"{n}.txt" for n in wanted}:
        print(f"removed {stale.name}: nothing needs it")
        stale.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
