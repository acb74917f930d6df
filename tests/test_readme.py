"""Every command of the README does what it says, in a fresh copy of the repository with a fresh nox."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.paths import ROOT, cache

COMMANDS = [
    line
    for block in re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    for line in block.splitlines()
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The repository as a clone would hold it, had everything been committed."""
    folder = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def variables(tmp_path_factory) -> dict[str, str]:
    """The caller's environment with a virtual environment that has pip and nothing else at its front."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    foreign = ("VIRTUAL_ENV", "PYTEST_", "NOX_", "PYTHON")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    # What is built is shared with the repository's own cache: nothing is done twice.
    return clean | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "CONFORMANCE_CACHE": str(cache())}


def test_the_readme_names_two_commands_first():
    assert [command.split()[-1] for command in COMMANDS[:2]] == ["cuda12-ctypes", "tests"]


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, copy, variables):
    if command.endswith("-s tests"):
        # These very tests: that they are found is all that can be asked of them here.
        variables = variables | {"PYTEST_ADDOPTS": "--collect-only --quiet --no-summary"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=copy, env=variables, capture_output=True, encoding="utf-8", timeout=1200
    )
    # What compare and gate find is not for this test to say: that they say it is.
    answers = (0, 1) if re.search(r"-s (compare|gate)", command) else (0,)
    assert done.returncode in answers, done.stdout[-4000:] + done.stderr[-2000:]
    if "-s gate" in command:
        assert re.search("^ctypes: (removable|blocked|not enough evidence)$", done.stdout, re.M)
    if "-s cuda12-ctypes" in command:
        assert "records   results/cuda12-ctypes/" in done.stdout
    if "-s compare" in command:
        assert re.search(r"^\d+ scenarios the same; \d+ breaking, ", done.stdout, re.M), done.stdout[-4000:]
