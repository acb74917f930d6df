"""What people write for a set of records, and the cells that it stands for.

    cuda12-ctypes            an environment, all its releases
    cuda12-ctypes@0.18.1     an environment at a release
    ctypes                   a linker: all cells that ran on it
    path/to/results          a results folder, say of another machine
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from conformance.errors import SuiteError
from conformance.matrices import Matrices
from conformance.records import Run, read


@dataclass(frozen=True)
class Place:
    """Where the records of one cell lie."""

    environment: str
    release: str
    path: Path

    @property
    def name(self) -> str:
        """The cell as people write it."""
        return f"{self.environment}@{self.release}"

    def read(self) -> Run:
        """The records; raises SuiteError where they are missing."""
        return read(self.path)


def places(folder: Path) -> list[Place]:
    """The cells that a results folder has, by environment, oldest release first."""
    if not folder.is_dir():
        raise SuiteError(f"{folder} is no folder of results: run an environment first (nox -l lists them)")
    found = [
        Place(path.parent.name, path.stem, path)
        for path in folder.glob("*/*.jsonl")
        # The decision table's records (`nox -s selection`) are of no environment.
        if path.parent.name != "selection"
        if not path.name.endswith(".partial.jsonl") and _is_version(path.stem)
    ]
    return sorted(found, key=lambda p: (p.environment, Version(p.release)))


def select(m: Matrices, text: str, results: Path) -> list[Place]:
    """The cells that a selector stands for; an unknown or empty one is an error that names the known."""
    if "/" in text or (Path(text).is_dir() and text not in m.environments):
        return places(Path(text))
    known = places(results)
    name, _, release = text.partition("@")
    if name in m.environments:
        found = [p for p in known if p.environment == name and release in ("", p.release)]
        missing = f"nox -s {name}" + (f" -- --release {release}" if release else "")
    elif name in m.linkers:
        found = [p for p in known if linker_of(m, p) == name and release in ("", p.release)]
        missing = "nox -s with an environment that has it"
    else:
        names = [*m.environments, *m.linkers]
        near = ", ".join(difflib.get_close_matches(name, names, 4, 0.4)) or ", ".join(names)
        raise SuiteError(f"{text!r} is neither an environment nor a linker nor a folder; near it: {near}")
    if not found:
        raise SuiteError(f"{results} has no records of {text}: run `{missing}`")
    return found


def linker_of(m: Matrices, place: Place) -> str:
    """The linker that a cell is expected to run on, by the rules; "" where the cell is unknown."""
    from conformance.cells import expected

    environment = m.environments.get(place.environment)
    return expected(m, environment, place.release).linker if environment else ""


def pairs(a: list[Place], b: list[Place], m: Matrices) -> list[tuple[Place, Place]]:
    """Which cell of A is compared with which of B.

    Where each side is one cell, these; where both sides have the same cells, these; else cells of the same
    release and CUDA major, and of several such in B the one that shares most axes with A's. Raises
    SuiteError where nothing can be paired.
    """
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    theirs = {p.name: p for p in b}
    same = [(p, theirs[p.name]) for p in a if p.name in theirs]
    if same:
        return same
    found, of_release = [], defaultdict(list)
    for place in b:
        of_release[place.release].append(place)
    for ours in a:
        fitting = [t for t in of_release[ours.release] if _axes_apart(m, ours, t) is not None]
        if fitting:
            found.append((ours, min(fitting, key=lambda t: _axes_apart(m, ours, t))))
    if not found:
        raise SuiteError(
            f"no release and CUDA major has both: A is {_names(a)}; B is {_names(b)}; "
            "name one cell on each side (ENVIRONMENT@RELEASE)"
        )
    return found


def _axes_apart(m: Matrices, a: Place, b: Place) -> int | None:
    """On how many axes two cells differ; None where they are of different CUDA majors or unknown."""
    if a.environment == b.environment:
        return 0
    mine, yours = m.environments.get(a.environment), m.environments.get(b.environment)
    if not mine or not yours or mine.axes["cuda"] != yours.axes["cuda"]:
        return None
    return sum(mine.axes[axis] != yours.axes[axis] for axis in mine.axes)


def _names(cells: list[Place]) -> str:
    return ", ".join(p.name for p in cells)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
