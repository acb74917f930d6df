# /// script
# dependencies = ["nox", "uv", "filelock", "packaging", "pydantic>=2", "jinja2", "markdown-it-py", "msgspec", "tomlkit"]
# ///
"""One session for each environment, made from matrices/; then what reads the records.

    nox -s cuda12-ctypes                         build the environment, run the suite in every release
    nox -s cuda12-ctypes -- --release 0.18.1     one release; `-- --help` lists the options
    nox -t cuda12                                all environments with a tag

Tags: cuda11 cuda12 cuda13, ctypes nvidia, pynvjitlink pynvjitlink-forced pynvjitlink-off, mvc.
"""

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))

from conformance import matrices
from conformance.errors import SuiteError

nox.needs_version = ">=2025.2.9"
# Environments are built and shared by their locks (conformance/environments.py): a virtual
# environment for each session would hold the same packages many times over.
nox.options.default_venv_backend = "none"
nox.options.sessions = []
# nox shows what any library logs for its own developers: from here on its own messages only.
logging.getLogger("nox").setLevel(logging.getLogger().level)
logging.getLogger().setLevel(logging.WARNING)


def call(session: nox.Session, module: str, *arguments: str) -> None:
    """Run a command of the suite; its faults are one line, its failure fails the session."""
    try:
        code = importlib.import_module(f"conformance.{module}").main([*arguments, *session.posargs])
    except SuiteError as error:
        session.error(str(error))
    if code:
        session.error(f"{session.name} failed: what it printed says why")


def add(name: str, title: str, module: str, *arguments: str, tags: list[str] | None = None) -> None:
    """Register a session that runs a command of the suite."""

    def run(session: nox.Session) -> None:
        call(session, module, *arguments)

    run.__doc__ = title
    nox.session(run, name=name, tags=tags)


try:
    environments = matrices.load().environments.values()
except SuiteError as error:
    sys.exit(str(error))

for environment in environments:
    add(environment.name, environment.title, "run", environment.name, tags=environment.tags)

add("environments", "Every combination of the matrix: its releases, or why it cannot exist", "coverage")
add("matrix", "The jobs of a CI service (-- --format github), or which there are", "jobs")
add("all", "Many cells side by side (-- -j 2), with their progress", "together")
add("catalogue", "Every scenario: profile, cases, what it needs; -- --gaps: what is left out", "listing")
add("selection", "Which linker, warning or error, for every configuration (-- --from A --to B: what changed)", "decide")
add("compare", "Two environments, releases, linkers or result folders side by side", "compare")
add("gate", "May a linker be removed? (-- --remove LINKER)", "gate")
add("history", "When a scenario's outcome changed from release to release", "history")
add("bisect", "The first published release, or commit of a checkout, whose outcome differs", "bisect")
add("bundle", "Environments and tags in one folder for a machine without a network", "bundle")
add("report", "One page, a summary, JUnit, JSON and badges of what was recorded", "report.command")
add("evidence", "Keep the records of a device in the repository", "evidence")
add("emulation", "The recording driver's records against the kept ones of a device", "emulation")
add("deviations", "What deviations.toml should say, from what was recorded; nothing is applied", "proposal")
add("faults", "Does the suite catch planted faults, and those of released versions? (-- --list)", "catching")
add("bench", "How fast linkers are, step by step, old against new (-- cuda12-ctypes cuda12-nvidia)", "bench")
add("bench-readers", "How fast records are read and compared: a year of them, made up", "bench_readers")
add("upstream", "numba-cuda's own tests that concern linking, in an environment (-- cuda12-ctypes)", "upstream.command")
add("lock", "Resolve the lock files anew, or the named ones", "locks")
add("tests", "The tests of the suite itself", "selftest")
