"""The matrix as jobs for others to run side by side (`nox -s matrix -- --format github`).

    nox -s matrix                                      which jobs there are
    nox -s matrix -- --format github --runner gpu=my-gpu-runner    a line for $GITHUB_OUTPUT: matrix={"include": [...]}
    nox -s matrix -- --each release                    a job for each release, not for each environment

A job is a session of nox with options; what it leaves is merged by putting its `results/` beside the others'.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys

from conformance import matrices
from conformance.errors import SuiteError
from conformance.matrices import Matrices

# GitHub takes no more jobs from one matrix.
MOST = 256
DRIVERS = ("recording", "device")


def jobs(m: Matrices, names: list[str], releases: list[str], each: str, runners: dict[str, str]) -> list[dict[str, str]]:
    """The jobs, by environment.

    names: globs of environments and tags; empty for all. releases: known ones, or `newest`; empty for all. each: `environment` or
    `release`. runners: for each driver the label of the machines that have it. Raises SuiteError where nothing is left.
    """
    wanted = [m.releases[-1].version if r == "newest" else m.release(r).version for r in releases]
    chosen = [e for e in m.environments.values() if not names or any(_named(e, name) for name in names)]
    found = []
    for driver, runner in runners.items():
        for e in chosen:
            has = [r.version for r in m.releases_of(e) if not wanted or r.version in wanted]
            groups = [[r] for r in has] if each == "release" else [has] if has else []
            found += [_job(e.name, group, driver, runner) for group in groups]
    if not found:
        raise SuiteError(
            f"no job: {' '.join(names) or 'the matrix'} has no environment at {' '.join(wanted) or 'any release'}; "
            "`nox -s environments` lists them"
        )
    return found


def _named(environment, name: str) -> bool:
    return fnmatch.fnmatchcase(environment.name, name) or name in environment.tags


def _job(environment: str, releases: list[str], driver: str, runner: str) -> dict[str, str]:
    one = releases[0] if len(releases) == 1 else ""
    return {
        "name": f"{environment}{'@' * bool(one)}{one} ({driver})",
        "environment": environment,
        "releases": " ".join(f"--release {r}" for r in releases),
        "driver": driver,
        "runner": runner,
        # A device's records are merged after a recording driver's, and take their place.
        "artifact": f"records-{driver}-{environment}{'-' * bool(one)}{one}",
    }


def parser() -> argparse.ArgumentParser:
    """The options of `nox -s matrix`."""
    p = argparse.ArgumentParser(prog="nox -s matrix --", description=__doc__.split("\n")[0])
    p.add_argument("names", nargs="*", metavar="ENVIRONMENT", help="environments (a glob is fine) and tags (default: all)")
    p.add_argument("--release", action="append", default=[], help="a numba-cuda release, or `newest` (default: all)")
    p.add_argument("--each", choices=("environment", "release"), default="environment", help="what a job is made for")
    p.add_argument("--runner", action="append", default=[], metavar="DRIVER=LABEL", help="machines for a driver (default: recording=ubuntu-latest)")
    p.add_argument("--format", choices=("text", "github", "json"), default="text")
    return p


def _runners(given: list[str]) -> dict[str, str]:
    """The machines for each driver; one without a label is left out."""
    pairs = [text.partition("=")[::2] for text in given]
    unknown = [driver for driver, _ in pairs if driver not in DRIVERS]
    if unknown:
        raise SuiteError(f"--runner {unknown[0]}: no such driver; known: {', '.join(DRIVERS)} (recording=ubuntu-latest)")
    runners = {driver: label for driver, label in pairs if label}
    return runners or ({} if given else {"recording": "ubuntu-latest"})


def main(argv: list[str] | None = None) -> int:
    """Print the jobs."""
    options = parser().parse_args(argv)
    found = jobs(matrices.load(), options.names, options.release, options.each, _runners(options.runner))
    if options.format == "github":
        if len(found) > MOST:
            raise SuiteError(f"{len(found)} jobs, and GitHub takes {MOST}: name environments, or leave out --each release")
        print(f"matrix={json.dumps({'include': found})}")
    elif options.format == "json":
        print(json.dumps(found, indent=1))
    else:
        for job in found:
            print(f"nox -s {job['environment']} -- {job['releases']} --driver {job['driver']}    # on {job['runner']}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
