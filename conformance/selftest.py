"""Runs the tests of the suite itself, in an environment of its own (`nox -s tests`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conformance import environments, matrices
from conformance.paths import LOCKS, ROOT, cache


def main(argv: list[str] | None = None) -> int:
    """Run pytest on tests/ with the arguments given; the exit code is pytest's."""
    python = environments.environment(LOCKS / "harness.txt", Path(sys.executable))
    command = [python, "-m", "pytest", *(argv or [])]
    # Tests read and write UTF-8, whatever the caller's locale.
    variables = {**os.environ, "PYTHONUTF8": "1", **_toolchains()}
    return subprocess.run(command, cwd=ROOT, env=variables).returncode


def _toolchains() -> dict[str, str]:
    """The compiler libraries, where tests of what is built with them look for them."""
    folder = cache("toolchains", "by-name")
    folder.mkdir(parents=True, exist_ok=True)
    for name in matrices.load().toolchains:
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(environments.toolchain(LOCKS / f"toolchain-{name}.txt"))
    return {"CONFORMANCE_TOOLCHAINS": str(folder)}
