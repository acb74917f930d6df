"""Plants faults: copies of an environment or of the recording driver's sources, in which files are edited.

A copy of an environment is made of hard links, so that it costs next to nothing; a file that is edited is
written anew and put in the link's place, so that what it was linked to never changes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from conformance import driver as recording
from conformance.errors import SuiteError
from conformance.planted import DRIVER, FILE, Edit, Planted


def copy(interpreter: Path, folder: Path) -> Path:
    """Copy a virtual environment by hard links into a folder that is not there yet; the copy's interpreter."""
    source = interpreter.parents[1]
    shutil.copytree(source, folder, symlinks=True, copy_function=os.link)
    return folder / interpreter.relative_to(source)


def faults_of(fault: Planted, interpreter: Path, where: str) -> list[str]:
    """Why a fault cannot be planted in an environment, each with its mend; empty where it can.

    where: the cell, for the message.
    """
    found = []
    texts: dict[Path, str] = {}
    for one in fault.edit:
        path = _path(one, interpreter)
        try:
            text = texts.get(path) or path.read_text(encoding="utf-8")
            texts[path] = _edited(text, one)
        except OSError as error:
            found.append(f"{fault.name}: {where}: {one.file} cannot be read ({error.strerror}): give today's file in {FILE}")
        except SuiteError as error:
            found.append(f"{fault.name}: {where}: {one.file} {error}")
    return found


def in_environment(fault: Planted, interpreter: Path) -> None:
    """Plant a fault's edits of packages in a copy of an environment."""
    for one in fault.edit:
        if not one.file.startswith(DRIVER):
            _edit(_path(one, interpreter), one)


def in_driver(fault: Planted, folder: Path) -> Path | None:
    """Build the recording driver with a fault's edits of it; None where it has none.

    folder: one that is not there yet, for the sources and the library. Returns the folder with `libcuda.so.1`.
    """
    edits = [one for one in fault.edit if one.file.startswith(DRIVER)]
    if not edits:
        return None
    sources = folder / "sources"
    shutil.copytree(recording.SOURCES, sources)
    for one in edits:
        _edit(sources / one.file.removeprefix(DRIVER), one)
    return recording.build(folder / "built", sources)


def _path(edit: Edit, interpreter: Path) -> Path:
    if edit.file.startswith(DRIVER):
        return recording.SOURCES / edit.file.removeprefix(DRIVER)
    return next(interpreter.parents[1].glob("lib/*/site-packages")) / edit.file


def _edited(text: str, edit: Edit) -> str:
    """The text with its replacement; raises SuiteError where what is replaced is not there exactly once."""
    times = text.count(edit.find)
    if times != 1:
        mend = "give more of the text" if times else "the package has moved on, give its text of today"
        raise SuiteError(f"has {edit.find.strip()!r} {times} times and not once: {mend} in {FILE}")
    return text.replace(edit.find, edit.replace)


def _edit(path: Path, edit: Edit) -> None:
    """Put a text in another's place, without a trace in whatever else the file is linked to."""
    fresh = path.with_name(f"{path.name}.planted")
    fresh.write_text(_edited(path.read_text(encoding="utf-8"), edit), encoding="utf-8")
    os.replace(fresh, path)
    # What Python compiled of the file before might be of the same age and size.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
