"""Which versions of a package the registry has, asked through uv, so from where installations come too."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from conformance.environments import _advice, _uv_program
from conformance.errors import SuiteError

# What uv says where a requirement has no version that fits; anything else is a fault to tell.
_NONE_FITS = ("no solution found", "there is no version of", "there are no versions of", "no versions of")


def newest(requirement: str, python: Path, prereleases: bool = False) -> str | None:
    """The newest version that a requirement admits for an interpreter; None where there is none."""
    name = canonicalize_name(_parsed(requirement).name)
    return _resolve(requirement, python, "allow" if prereleases else "if-necessary").get(name)


def versions(package: str, python: Path, above: str = "", below: str = "") -> list[str]:
    """All published versions of a package that the interpreter can have, oldest first, both bounds left out.

    One question for each version, so bounds are worth their while.
    """
    found: list[str] = []
    while True:
        bounds = [f">{above}" if above else "", f"<{found[-1] if found else below}" if found or below else ""]
        version = newest(package + ",".join(filter(None, bounds)), python)
        if version is None:
            return found[::-1]
        found.append(version)


def _parsed(requirement: str) -> Requirement:
    try:
        return Requirement(requirement)
    except InvalidRequirement as error:
        raise SuiteError(f"{requirement!r} is no requirement ({str(error).splitlines()[0]})") from error


def _resolve(requirement: str, python: Path, prerelease: str) -> dict[str, str]:
    """The packages that uv takes for a requirement alone, without what it depends on."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.in")
        wanted.write_text(requirement + "\n", encoding="utf-8")
        done = subprocess.run(
            [
                _uv_program(), "pip", "compile", "--quiet", "--no-deps", "--no-annotate", "--no-header",
                "--prerelease", prerelease, "--python", str(python), str(wanted),
            ],
            capture_output=True, text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
    if done.returncode:
        said = " ".join(done.stderr.split())
        if any(sign in said.lower() for sign in _NONE_FITS) and not _advice(said):
            return {}
        raise SuiteError(f"the registry does not say which {requirement} there is: {said[:400]}{_advice(said)}")
    return dict(pinned(done.stdout))


def pinned(lock: str) -> list[tuple[str, str]]:
    """Name and version of every package that a lock file's text pins; several of one name where markers tell."""
    found = []
    for line in lock.splitlines():
        name, equals, rest = line.partition("==")
        if equals and name and not name[0].isspace() and not name.startswith("#"):
            found.append((canonicalize_name(name.partition("[")[0].strip()), rest.split()[0]))
    return found
