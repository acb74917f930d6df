"""Planted faults (`matrices/faults.toml`): what each is, and every fault of their file at once."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from conformance import decisions, matrices
from conformance.errors import SuiteError
from conformance.matrices import FOLDER, Matrices
from conformance.model import Environment, Release, record
from conformance.paths import ROOT
from conformance.scenario import ENVIRONMENT, catalogue

FILE = "faults.toml"
# Files with this beginning are the recording driver's; all others lie in an environment's site-packages.
DRIVER = "fixtures/driver/"
# The "environment" of cells in which the decision table is asked.
SELECTION = "selection"


@record
class Edit:
    """A text of a file, which must be there once, and what stands in its place."""

    file: str
    find: str
    replace: str


@record
class Planted:
    """A fault that a change of a linker could bring; the keys are explained in matrices/faults.toml."""

    name: str
    brings: str
    edit: list[Edit]
    cells: list[str]
    caught_by: list[str]
    scenarios: list[str] = field(default_factory=list)
    selection: list[str] = field(default_factory=list)
    needs: str = ""
    reason: str = ""

    @property
    def ids(self) -> list[str]:
        """The ids of the scenarios that are run."""
        return matching(catalogue(), self.scenarios)

    def names(self, scenario: str) -> bool:
        """Whether a scenario is one that should catch this fault: one that names the matter."""
        return bool(matching([scenario], self.caught_by))


@record
class _Faults:
    fault: list[Planted]


@dataclass(frozen=True)
class Spot:
    """Where a fault is planted: an environment at a release, or the decision table at one."""

    name: str
    release: Release
    environment: Environment | None

    @cached_property
    def is_selection(self) -> bool:
        """Whether the decision table is asked there, and not scenarios run."""
        return self.environment is None


def matching(known, patterns: list[str]) -> list[str]:
    """Those of the known names that one of the patterns takes, in the order of the known."""
    return [name for name in known if any(fnmatch.fnmatchcase(name, p) for p in patterns)]


def spot(m: Matrices, text: str) -> Spot:
    """The place that `ENVIRONMENT@RELEASE` or `selection@RELEASE` names; raises SuiteError for an unknown one."""
    name, _, version = text.partition("@")
    release = m.release(version)
    if name == SELECTION:
        return Spot(text, release, None)
    environment = m.environment(name)
    absent = m.absence(environment, release)
    if absent:
        raise SuiteError(f"{name} does not exist at {version}: {absent.reason}")
    return Spot(text, release, environment)


@lru_cache
def load(folder: Path = FOLDER) -> list[Planted]:
    """Read and check the planted faults; raises SuiteError that lists all faults of the file."""
    m = matrices.load()
    found: list[str] = []
    document = matrices._read(folder / FILE, _Faults, found)
    planted = document.fault if document else []
    names = [p.name for p in planted]
    found += [f"{FILE}: {name}: two faults have this name" for name in sorted({n for n in names if names.count(n) > 1})]
    found += [f"{FILE}: {p.name}: {what}" for p in planted for what in _wrong(m, p)]
    if found:
        raise SuiteError("the planted faults have faults:\n  " + "\n  ".join(found))
    return planted


def _wrong(m: Matrices, p: Planted) -> Iterator[str]:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", p.name):
        yield "name: give small letters and figures, joined by `-`"
    for key in ("edit", "cells", "caught_by"):
        if not getattr(p, key):
            yield f"{key}: missing"
    if p.needs not in ("", "device"):
        yield f"needs: no such word: {p.needs!r}; known: device"
    if bool(p.needs) != bool(p.reason):
        yield "reason: say what only a device shows, with `needs`, and only there"
    yield from _wrong_edits(p)
    yield from _wrong_cells(m, p)
    yield from _wrong_patterns(m, p)


def _wrong_edits(p: Planted) -> Iterator[str]:
    for i, edit in enumerate(p.edit):
        if not edit.find.strip():
            yield f"edit.{i}: find: there is nothing to find"
        elif edit.find == edit.replace:
            yield f"edit.{i}: replace: nothing is changed"
        if edit.file.startswith(DRIVER) and not (ROOT / edit.file).is_file():
            yield f"edit.{i}: file: the recording driver has no {edit.file}"
        if ".." in Path(edit.file).parts or Path(edit.file).is_absolute():
            yield f"edit.{i}: file: give a path within site-packages, or one of {DRIVER}"


def _wrong_cells(m: Matrices, p: Planted) -> Iterator[str]:
    asked = set()
    for cell in p.cells:
        try:
            asked.add(spot(m, cell).is_selection)
        except SuiteError as error:
            yield f"cells: {cell}: {error}"
    if True in asked and not p.selection:
        yield "selection: missing, though the decision table is among the cells"
    if False in asked and not p.scenarios:
        yield "scenarios: missing, though environments are among the cells"


def _wrong_patterns(m: Matrices, p: Planted) -> Iterator[str]:
    for pattern in p.scenarios:
        if not matching(catalogue(), [pattern]):
            yield f"scenarios: no scenario is called {pattern!r}"
    try:
        titles = [title(m, words) for words in p.selection]
    except SuiteError as error:
        yield f"selection: {error}"
        return
    run = [*p.ids, *titles, ENVIRONMENT]
    for pattern in p.caught_by:
        family, _, rest = pattern.partition("/")
        if not re.search("[a-z]", rest) or "*" in family:
            yield f"caught_by: {pattern!r} names no matter: give a family and the beginning of a name"
        elif not matching(run, [pattern]):
            yield f"caught_by: {pattern!r} is none of what is run"


def title(m: Matrices, words: str) -> str:
    """The decision table's name for a configuration, as its records have it."""
    return f"{SELECTION}/{decisions.title(m.decisions, decisions.parse(m.decisions, words))}"


def choose(faults: list[Planted], wanted: list[str]) -> list[Planted]:
    """The faults of those names (globs are fine), or all; an unknown name is an error that lists the known."""
    for name in wanted:
        if not matching([f.name for f in faults], [name]):
            raise SuiteError(f"no planted fault is called {name!r}; known: {', '.join(f.name for f in faults)}")
    return [f for f in faults if not wanted or matching([f.name], wanted)]
