"""Builds virtual environments and toolchain folders from lock files, with uv.

Each is built once for a lock's content and an interpreter, so environments whose packages are the
same share one, and a changed lock gives a new one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from conformance.errors import SuiteError
from conformance.paths import cache

_COMPLETE = "complete"


def digest(lock: Path) -> str:
    """The first 12 hexadecimal digits of a lock's SHA-256: what a record names it by."""
    try:
        return hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise SuiteError(f"{lock.name} is missing: make it with `nox -s lock`") from error


def environment(lock: Path, python: Path) -> Path:
    """The interpreter of a virtual environment that holds exactly what the lock says."""
    version = interpreter_version(python)
    folder = cache("environments", f"{lock.stem}-{digest(lock)}-py{version}")

    def make() -> None:
        _uv("venv", "--quiet", "--python", str(python), str(folder), doing="create an environment")
        interpreter = str(folder / "bin" / "python")
        _uv(
            "pip", "sync", "--quiet", "--require-hashes", "--python", interpreter, str(lock),
            doing=f"install {lock.name}",
        )

    _once(folder, make)
    return folder / "bin" / "python"


def toolchain(lock: Path) -> Path:
    """A folder with the compiler libraries that the lock names (`nvidia/...` and so on)."""
    folder = cache("toolchains", f"{lock.stem}-{digest(lock)}")

    def make() -> None:
        _uv(
            "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", sys.executable,
            "--target", str(folder), "--requirements", str(lock),
            doing=f"install {lock.name}",
        )

    _once(folder, make)
    return folder


def _once(folder: Path, make) -> None:
    """Make a folder unless it is complete; whoever comes second waits for the first."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if (folder / _COMPLETE).exists():
                return
            shutil.rmtree(folder, ignore_errors=True)
            make()
            (folder / _COMPLETE).touch()
    except OSError as error:
        raise SuiteError(
            f"{folder} cannot be made ({error.strerror}): "
            "make room, or set CONFORMANCE_CACHE to another folder"
        ) from error


def _uv(*arguments: str, doing: str) -> None:
    """Run uv; a failure is one sentence with the last line of what uv said."""
    done = subprocess.run(
        [_uv_program(), *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        # An interpreter that is not there is an error to mend, not a download to begin.
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never", "VIRTUAL_ENV": ""},
    )
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise SuiteError(f"uv could not {doing}: {said[:600]}{_advice(said)}")


def _advice(said: str) -> str:
    if any(sign in said for sign in ("dns error", "Connect", "Failed to fetch", "timed out")):
        return " (is the package registry reachable?)"
    if "No space left" in said:
        return " (make room, or set CONFORMANCE_CACHE to a larger disk)"
    return ""


def _uv_program() -> str:
    try:
        from uv import find_uv_bin

        return find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
        if found is None:
            raise SuiteError("uv is missing: pip install uv") from None
        return found


@lru_cache
def interpreter_version(python: Path) -> str:
    """`3.12` for an interpreter; raises SuiteError where it does not run."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", question], capture_output=True, encoding="utf-8", errors="replace", timeout=60)
    except OSError as error:
        raise SuiteError(f"{python} does not run ({error.strerror})") from error
    if done.returncode:
        raise SuiteError(f"{python} does not run: {done.stderr.strip()[:200]}")
    return done.stdout.strip()


def choose_python(admitted: list[str], wanted: str = "") -> Path:
    """An interpreter for an environment: the running one if admitted, else another that is found.

    wanted: a version (`3.12`) that must be taken. Raises SuiteError that names what was looked for.
    """
    if wanted and wanted not in admitted:
        raise SuiteError(f"the locks do not admit Python {wanted}; they admit {', '.join(admitted)}")
    own = ".".join(map(str, sys.version_info[:2]))
    if own in ([wanted] if wanted else admitted):
        return Path(sys.executable)
    for version in [wanted] if wanted else reversed(admitted):
        found = _find_python(version)
        if found:
            return found
    raise SuiteError(
        f"no Python {wanted or ' or '.join(admitted)} is found (nox runs on {own}): install one of them"
    )


def _of_pyenv(version: str) -> list[str]:
    """The interpreters that pyenv has installed: its shims on PATH answer for the chosen ones only."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [str(p) for p in sorted(root.glob(f"versions/{version}.*/bin/python{version}"))]


def _find_python(version: str) -> Path | None:
    done = subprocess.run(
        [_uv_program(), "python", "find", "--no-python-downloads", version],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    candidates = [done.stdout.strip(), shutil.which(f"python{version}"), *_of_pyenv(version)]
    for candidate in filter(None, candidates):
        try:
            if interpreter_version(Path(candidate)) == version:
                return Path(candidate)
        except SuiteError:
            continue
    return None
