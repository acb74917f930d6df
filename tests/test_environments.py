"""How environments are built, chosen and refused, without building one: a script stands in for uv."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import cells, environments, matrices, run
from conformance.errors import SuiteError
from conformance.model import Driver
from conformance.paths import ROOT

OWN = ".".join(map(str, sys.version_info[:2]))
M = matrices.load()


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """A uv that does what a shell line says; a cache of its own, and none of this machine's interpreters."""
    environments.interpreter_version.cache_clear()
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("CONFORMANCE_CACHE", str(tmp_path / "cache"))
    return Uv(tmp_path, monkeypatch)


# Writes down its arguments, and makes the folder that is asked for as uv does.
FAKE_UV = """#!/bin/sh
echo "$@" >> {calls}
for argument in "$@"; do
    [ "$previous" = --target ] && mkdir -p "$argument"
    previous=$argument
done
[ "$1" = venv ] && mkdir -p "$previous"
{line}
"""


class Uv:
    def __init__(self, folder: Path, monkeypatch):
        self.program, self._calls = folder / "uv", folder / "calls.txt"
        self.cache = folder / "cache"
        self.does("exit 0")
        monkeypatch.setattr(environments, "_uv_program", lambda: str(self.program))

    def does(self, line: str) -> None:
        self.program.write_text(FAKE_UV.format(calls=self._calls, line=line))
        self.program.chmod(0o755)

    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "1.0-cu12.txt"
    path.write_text("package==1.0 --hash=sha256:00\n")
    return path


# Choosing an interpreter


def _python(folder: Path, version: str) -> Path:
    """A program that says that it is that Python."""
    folder.mkdir(exist_ok=True)
    path = folder / f"python{version}"
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


def test_the_running_interpreter_is_taken_where_it_is_admitted(uv):
    assert environments.choose_python(["2.6", OWN]) == Path(sys.executable)
    assert environments.choose_python(["2.6", OWN], wanted=OWN) == Path(sys.executable)
    assert uv.calls() == []


def test_the_newest_other_that_is_found_is_taken(uv, tmp_path, monkeypatch):
    uv.does("exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    wanted = [_python(tmp_path / "bin", version) for version in ("2.5", "2.6")]
    assert environments.choose_python(["2.5", "2.6", "2.7"]) == wanted[1]
    assert environments.choose_python(["2.5", "2.6", "2.7"], wanted="2.5") == wanted[0]


def test_what_uv_finds_is_taken(uv, tmp_path):
    python = _python(tmp_path / "elsewhere", "2.6")
    uv.does(f"echo {python}")
    assert environments.choose_python(["2.6"]) == python
    assert uv.calls() == ["python find --no-python-downloads 2.6"]


def test_what_is_another_version_than_its_name_is_not_taken(uv, tmp_path):
    uv.does(f"echo {_python(tmp_path / 'elsewhere', '2.5')}")
    with pytest.raises(SuiteError, match="no Python 2.6 is found"):
        environments.choose_python(["2.6"])


@pytest.mark.parametrize("wanted, looked_for", [("", "2.5 or 2.6"), ("2.5", "2.5")])
def test_none_found_is_one_error_that_says_what_was_looked_for(uv, wanted, looked_for):
    uv.does("exit 1")
    said = f"no Python {looked_for} is found (nox runs on {OWN}): install one of them"
    with pytest.raises(SuiteError) as caught:
        environments.choose_python(["2.5", "2.6"], wanted)
    assert str(caught.value) == said


@pytest.mark.parametrize("wanted", ["3.9", "3", "newest"])
def test_a_version_that_no_lock_admits_lists_those_that_are(uv, wanted):
    with pytest.raises(SuiteError, match=f"do not admit Python {wanted}; they admit 3.10, 3.11, 3.12"):
        environments.choose_python(M.common.python, wanted)


@pytest.mark.parametrize(
    "content, why",
    [
        (None, r"No such file or directory"),
        ("#!/bin/sh\necho broken >&2; exit 3\n", "broken"),
        ("not a program", "Exec format error"),
    ],
)
def test_an_interpreter_that_does_not_run(tmp_path, content, why):
    path = tmp_path / "python"
    if content:
        path.write_text(content)
        path.chmod(0o755)
    with pytest.raises(SuiteError, match=rf"python does not run.*{why}"):
        environments.interpreter_version(path)


# Building


def test_a_missing_lock_names_the_mend(tmp_path):
    with pytest.raises(SuiteError) as caught:
        environments.digest(tmp_path / "1.0-cu12.txt")
    assert str(caught.value) == "1.0-cu12.txt is missing: make it with `nox -s lock`"


def test_a_digest_follows_the_content(lock):
    before = environments.digest(lock)
    assert len(before) == 12 and int(before, 16)
    lock.write_text(lock.read_text() + "\n")
    assert environments.digest(lock) != before


def test_an_environment_is_made_and_filled_once(uv, lock):
    python = environments.environment(lock, Path(sys.executable))
    assert environments.environment(lock, Path(sys.executable)) == python
    folder = uv.cache / "environments" / f"1.0-cu12-{environments.digest(lock)}-py{OWN}"
    assert python == folder / "bin" / "python"
    made, filled = uv.calls()
    assert made == f"venv --quiet --python {sys.executable} {folder}"
    assert filled == f"pip sync --quiet --require-hashes --python {python} {lock}"


def test_a_changed_lock_or_interpreter_gives_another_environment(uv, lock, tmp_path):
    pythons = {environments.environment(lock, Path(sys.executable))}
    pythons.add(environments.environment(lock, _python(tmp_path / "other", "2.6")))
    lock.write_text("package==1.1 --hash=sha256:00\n")
    pythons.add(environments.environment(lock, Path(sys.executable)))
    assert len(pythons) == 3


def test_a_toolchain_is_a_folder_with_the_packages_of_its_lock(uv, lock):
    folder = environments.toolchain(lock)
    assert environments.toolchain(lock) == folder
    [call] = uv.calls()
    assert "--no-deps --require-hashes" in call
    assert call.endswith(f"--target {folder} --requirements {lock}")


def test_an_interrupted_build_is_done_again(uv, lock):
    """What was half made is thrown away first."""
    folder = environments.toolchain(lock)
    (folder / "complete").unlink()
    (folder / "half").mkdir()
    environments.toolchain(lock)
    assert [path.name for path in folder.iterdir()] == ["complete"]
    assert len(uv.calls()) == 2


def test_a_build_that_failed_is_done_again(uv, lock):
    uv.does("exit 1")
    with pytest.raises(SuiteError):
        environments.toolchain(lock)
    uv.does("exit 0")
    assert (environments.toolchain(lock) / "complete").exists()


@pytest.mark.parametrize(
    "said, advice",
    [
        ("error: No solution found", ""),
        ("error: Failed to fetch: `https://registry/simple`", " (is the package registry reachable?)"),
        ("  Caused by: dns error: Name or service not known", " (is the package registry reachable?)"),
        ("  Caused by: Connection refused (os error 111)", " (is the package registry reachable?)"),
        ("error: operation timed out", " (is the package registry reachable?)"),
        (
            "error: failed to write: No space left on device (os error 28)",
            " (make room, or set CONFORMANCE_CACHE to a larger disk)",
        ),
    ],
)
def test_a_failure_of_uv_is_one_sentence_with_a_hint(uv, lock, said, advice):
    uv.does(f"printf 'warning: one\\n%s\\n' '{said}' >&2; exit 2")
    with pytest.raises(SuiteError) as caught:
        environments.toolchain(lock)
    text = " ".join(said.split())
    assert str(caught.value) == f"uv could not install 1.0-cu12.txt: warning: one {text}{advice}"


def test_a_failure_of_uv_that_says_nothing(uv, lock):
    uv.does("exit 3")
    with pytest.raises(SuiteError) as caught:
        environments.environment(lock, Path(sys.executable))
    assert str(caught.value) == "uv could not create an environment: exit code 3"


def test_uv_never_downloads_an_interpreter(uv, lock, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", "/somewhere")
    uv.does('echo "$UV_PYTHON_DOWNLOADS,$VIRTUAL_ENV" >&2; exit 1')
    with pytest.raises(SuiteError, match=r"toolchain|: never,$"):
        environments.toolchain(lock)


def test_without_uv_the_error_names_the_mend(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SuiteError, match="uv is missing: pip install uv"):
        environments._uv_program()


@pytest.mark.parametrize("what", ["toolchain(lock)", "environment(lock, pathlib.Path(sys.executable))"])
def test_processes_at_once_build_once(uv, lock, what):
    uv.does("sleep 0.3")
    script = f"""
import pathlib, sys
from conformance import environments
environments._uv_program = lambda: {str(uv.program)!r}
lock = pathlib.Path({str(lock)!r})
environments.{what}
"""
    processes = [subprocess.Popen([sys.executable, "-c", script], cwd=ROOT) for _ in range(3)]
    assert [p.wait(60) for p in processes] == [0] * 3
    assert len(uv.calls()) == (1 if what.startswith("toolchain") else 2)


def test_a_cache_that_cannot_be_made(uv, lock, monkeypatch):
    monkeypatch.setenv("CONFORMANCE_CACHE", "/dev/null/cache")
    with pytest.raises(SuiteError, match="/dev/null/cache.* cannot be made .*CONFORMANCE_CACHE"):
        environments.toolchain(lock)


# What `nox -s ENVIRONMENT` refuses before it builds anything


@pytest.fixture
def nothing_is_built(monkeypatch):
    def refuse(*_):
        raise AssertionError("an environment was about to be built")

    monkeypatch.setattr(environments, "environment", refuse)
    monkeypatch.setattr(environments, "toolchain", refuse)


def _refusal(*arguments: str) -> str:
    with pytest.raises(SuiteError) as caught:
        run.main([*arguments])
    return str(caught.value)


@pytest.mark.usefixtures("nothing_is_built")
class TestRefusals:
    def test_an_unknown_environment(self):
        said = _refusal("cuda12-cypes")
        assert said == f"no environment is called 'cuda12-cypes'; known: {', '.join(M.environments)}"

    def test_an_unknown_release(self):
        said = _refusal("cuda12-ctypes", "--release", "9.9.9")
        assert said == f"no release is called '9.9.9'; known: {', '.join(r.version for r in M.releases)}"

    def test_an_unknown_release_beside_a_known_one(self):
        assert "9.9.9" in _refusal("cuda12-ctypes", "--release", "0.18.1", "--release", "9.9.9")

    @pytest.mark.parametrize(
        "name, release, reason, has",
        [
            ("cuda11-nvidia", "0.19.2", "numba-cuda 0.19.0 dropped CUDA 11", "0.15.2, 0.16.0, 0.18.1"),
            ("cuda13-nvidia", "0.18.1", "the first with CUDA 13 packages", "0.19.2, 0.20.1, 0.22.2, 0.30.4"),
            ("cuda12-ctypes", "0.30.4", "a hard dependency", "0.15.2, 0.16.0, 0.18.1, 0.19.2, 0.20.1"),
        ],
    )
    def test_a_release_without_the_environment(self, name, release, reason, has):
        said = _refusal(name, "--release", release)
        assert said.startswith(f"{name} does not exist at {release}: ")
        assert reason in said and "(https://" in said
        assert said.endswith(f"; it exists at {has}")

    def test_a_python_that_the_locks_do_not_admit(self):
        assert "they admit 3.10, 3.11, 3.12" in _refusal("cuda12-ctypes", "--python", "3.9")

    @pytest.mark.parametrize(
        "arguments, said",
        [(["--driver", "fast"], "invalid choice: 'fast'"), (["--seconds", "x"], "invalid float value: 'x'")],
    )
    def test_bad_options(self, arguments, said, capsys):
        with pytest.raises(SystemExit) as caught:
            run.main(["cuda12-ctypes", *arguments])
        assert caught.value.code == 2
        assert said in capsys.readouterr().err

    def test_another_system(self, monkeypatch):
        monkeypatch.setattr(sys, "platform", "win32")
        assert "on Linux only" in _refusal("cuda12-ctypes")


# Drivers


@pytest.fixture
def machine(monkeypatch):
    """What answers on this machine: a driver with a device, or None."""

    def has(driver):
        monkeypatch.setattr(cells, "device", lambda python: driver)

    return has


DEVICE = Driver("device", "13.0", "9.0", "NVIDIA H200")
ENVIRONMENT = M.environment("cuda12-ctypes")
RECORDING = Driver("recording", "12.9", "9.0")


@pytest.mark.parametrize(
    "kind, found, chosen",
    [
        ("auto", DEVICE, DEVICE),
        ("auto", None, RECORDING),
        ("device", DEVICE, DEVICE),
        ("recording", DEVICE, RECORDING),
        ("recording", None, RECORDING),
    ],
)
def test_the_driver_that_is_chosen(machine, kind, found, chosen):
    machine(found)
    assert cells.choose_driver(kind, ENVIRONMENT, Path("python")) == chosen


def test_a_device_that_is_not_there_names_the_mend(machine):
    machine(None)
    with pytest.raises(SuiteError, match="no CUDA device answers on this machine; use --driver recording"):
        cells.choose_driver("device", ENVIRONMENT, Path("python"))


@pytest.mark.parametrize("answer, found", [('["13.0", "9.0", "NVIDIA H200"]', DEVICE), (None, None)])
def test_the_machines_device_is_asked_by_the_environments_own_python(tmp_path, answer, found):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n" + (f"echo '{answer}'\n" if answer else "exit 1\n"))
    python.chmod(0o755)
    assert cells.device(python) == found


def test_no_run_asks_for_a_device_in_vain(machine, monkeypatch):
    """The environment has to be built to ask; nothing else is."""
    machine(None)
    monkeypatch.setattr(environments, "environment", lambda lock, python: Path(sys.executable))
    monkeypatch.setattr(environments, "toolchain", lambda lock: pytest.fail("a toolchain was installed"))
    assert "--driver recording" in _refusal("cuda12-ctypes", "--release", "0.18.1", "--driver", "device")


# Through nox


def _nox(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), *arguments]
    changed = {"CONFORMANCE_CACHE": str(tmp_path / "cache"), "NO_COLOR": "1"}
    return subprocess.run(command, env={**os.environ, **changed}, capture_output=True, text=True, timeout=60)


def test_nox_says_which_releases_are_known_and_builds_nothing(tmp_path):
    done = _nox(tmp_path, "-s", "cuda12-ctypes", "--", "--release", "9.9.9")
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert (
        "no release is called '9.9.9'; known: 0.15.2, 0.16.0, 0.18.1, 0.19.2, 0.20.1, 0.22.2, 0.30.4" in said
    )
    assert "Traceback" not in said
    assert not (tmp_path / "cache").exists()


def test_nox_says_why_an_environment_does_not_exist(tmp_path):
    done = _nox(tmp_path, "-s", "cuda11-ctypes-mvc", "--", "--release", "0.30.4")
    assert done.returncode == 1
    assert "numba-cuda 0.19.0 dropped CUDA 11" in done.stdout + done.stderr
    assert not (tmp_path / "cache").exists()


def test_nox_shows_the_options_of_a_session(tmp_path):
    done = _nox(tmp_path, "-s", "cuda12-ctypes", "--", "--help")
    for option in ("--release", "--driver", "--scenario", "--python", "--results"):
        assert option in done.stdout
    assert done.returncode == 0


def test_nox_shows_every_combination(tmp_path):
    done = _nox(tmp_path, "-s", "environments")
    assert done.returncode == 0
    for environment, _ in M.combinations:
        assert f"\n{environment.name} " in "\n" + done.stdout


# A cell, ready to run


def test_a_cell_survives_its_way_into_the_environment(tmp_path):
    release = M.release("0.18.1")
    cell = cells.describe(M, M.environment("cuda11-nvidia-mvc"), release, DEVICE, tmp_path / "records.jsonl")
    assert type(cell).from_json(json.loads(json.dumps(cell.to_json()))) == cell
    assert cell.notes == ["numba-cuda is told that the driver is 11.8"]


def test_a_cells_processes_get_nothing_of_the_callers_that_changes_numba(monkeypatch, tmp_path):
    for name in ("NUMBA_DISABLE_JIT", "CUDA_HOME", "PYTHONPATH", "LD_LIBRARY_PATH", "RECORDING_DRIVER_CC"):
        monkeypatch.setenv(name, "the caller's")
    monkeypatch.setenv("HOME", "/home/someone")
    cell = cells.describe(M, ENVIRONMENT, M.release("0.18.1"), DEVICE, tmp_path / "records.jsonl")
    variables = cells.process_environment(cell)
    assert "the caller's" not in variables.values()
    assert variables["HOME"] == "/home/someone"
    assert variables["NUMBA_CUDA_USE_NVIDIA_BINDING"] == "0"
