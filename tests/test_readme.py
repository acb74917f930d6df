"""Every command of the README and of docs/ does what it says, in a fresh copy of the repository with a fresh nox.

What takes minutes, a device or somebody's checkout is run to where its options are understood (PARSED says why). The
same holds for commands within a sentence.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nox.registry
import pytest

from conformance.paths import ROOT, cache

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "findings").glob("*.md"))]

# Commands that are not run here to their end, and who does run them.
PARSED = {
    r"--numba-cuda|--candidate": "wants a checkout of numba-cuda; tests/test_candidate*.py make one up",
    r"-k doubled": "the scenario that the page shows is not in the catalogue",
    r"-s cuda12-nvidia -- --release 0\.30\.4": "minutes; README's own commands run two such cells",
    r"-s all ": "minutes; its cells are those of README's commands, and tests/test_workflow.py runs some together",
    r"-s (selection|bench|bundle|evidence|emulation|lock)\b": "minutes, or records of a device; each has tests of its own",
    r"-s faults(?!.*--list)": "minutes; tests/test_planted.py plants some",
    r"^\./run$": "within a bundle only; tests/test_bundle.py runs it there",
}


def commands(path: Path) -> list[str]:
    """The lines of a page's console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    return [shlex.join(shlex.split(line, comments=True)) if "#" in line else line for b in blocks for line in b.splitlines()]


def inline(path: Path) -> list[str]:
    """Commands of nox within a page's sentences."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [" ".join(c.split()) for c in re.findall(r"`((?:python -m )?nox\s+-[st]\s[^`]+)`", text)]


def is_parsed(command: str) -> bool:
    return any(re.search(pattern, command) for pattern in PARSED)


OF_README = commands(README)
EVERY = list(dict.fromkeys(c for page in PAGES for c in commands(page)))
RUN = [*OF_README, *(c for c in EVERY if c not in OF_README and not is_parsed(c))]
ONLY_PARSED = [c for c in dict.fromkeys([*EVERY, *(c for page in PAGES for c in inline(page))]) if c not in RUN]


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


@pytest.fixture(scope="module")
def sessions():
    """Every session of the noxfile by its name."""
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return nox.registry.get()


def test_the_readme_names_two_commands_first():
    assert [command.split()[-1] for command in OF_README[:2]] == ["cuda12-ctypes", "tests"]


def test_every_exception_is_needed():
    unused = [p for p in PARSED if not any(re.search(p, c) for c in ONLY_PARSED)]
    assert unused == []


def test_every_page_is_found_from_the_index():
    for folder in (ROOT / "docs", ROOT / "docs" / "findings"):
        text = (folder / "README.md").read_text(encoding="utf-8")
        assert [p.name for p in folder.glob("*.md") if p.name != "README.md" and f"({p.name})" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_to_a_file_arrives(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("command", RUN)
def test_command(command, copy, variables):
    if command.endswith("-s tests"):
        # These very tests: that they are found is all that can be asked of them here.
        variables = variables | {"PYTEST_ADDOPTS": "--collect-only --quiet --no-summary"}
    done = subprocess.run(
        ["bash", "-c", command], check=False, cwd=copy, env=variables, capture_output=True, encoding="utf-8", timeout=1200
    )
    # What compare and gate find is not for this test to say: that they say it is.
    answers = (0, 1) if re.search(r"-s (compare|gate)", command) else (0,)
    assert done.returncode in answers, done.stdout[-4000:] + done.stderr[-2000:]
    # `library.module > ...` is how nox shows what a library logs for its own developers.
    assert not re.search(r"^\w+\.[\w.]+ > ", done.stdout + done.stderr, re.MULTILINE)
    says(command, done.stdout, copy)


def says(command: str, text: str, copy: Path) -> None:
    """What a command must print, where that is more than its success."""
    if "-s gate" in command and "json" in command:
        assert json.loads(text)["linker"] == "ctypes"
    elif "-s gate" in command:
        assert re.search("^ctypes: (removable|blocked|not enough evidence)$", text, re.MULTILINE)
    elif "-s cuda12-ctypes" in command:
        assert "records   results/cuda12-ctypes/" in text
    elif "-s compare" in command:
        assert re.search(r"^\d+ scenarios the same; \d+ breaking, ", text, re.MULTILINE), text[-4000:]
    elif command.endswith("-s report"):
        assert text.startswith("## ") and (copy / "results/report/index.html").exists()
    elif "-s matrix" in command:
        assert {job["driver"] for job in json.loads(text)} == {"recording"}


@pytest.mark.parametrize("command", ONLY_PARSED)
def test_a_command_that_is_not_run_is_understood(command, sessions, capsys, tmp_path):
    if command == "./run":
        # What a bundle has under that name, away from the suite as there.
        script = shutil.copy(ROOT / "conformance" / "bundled_run.py", tmp_path / "run")
        subprocess.run([sys.executable, script, "--help"], check=True)
        return
    words = shlex.split(command.removeprefix("python -m "))
    assert words[0] == "nox" and words[1] in ("-s", "-t")
    chosen = "cuda12-ctypes" if words[2] == "ENVIRONMENT" else words[2]
    found = [s for name, s in sessions.items() if (chosen == name if words[1] == "-s" else chosen in s.tags)]
    assert found, f"no session is called {chosen}"
    options = words[words.index("--") + 1 :] if "--" in words else []
    if chosen == "tests":
        assert all((ROOT / path).exists() for path in options)
        return
    # The parser takes what stands before --help, and refuses a value that cannot be; what it does not know goes to pytest.
    with pytest.raises(SystemExit) as ended:
        found[0](SimpleNamespace(name=chosen, posargs=[*options, "--help"], error=pytest.fail))
    assert ended.value.code == 0
    helped = capsys.readouterr().out
    assert [o for o in options if o.startswith("--") and o.split("=")[0] not in helped] == []
