"""Which of upstream's test modules concern linking (`matrices/upstream.toml`)."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from conformance import matrices
from conformance.errors import SuiteError
from conformance.model import record

FILE = "upstream.toml"


@record
class Concern:
    """A matter of linking, and the pattern by which a test's source shows that it is about it."""

    what: str
    pattern: str


@record
class Rule:
    """packages: what upstream's tests import beside their environment."""

    packages: list[str]
    concern: list[Concern]


@lru_cache
def load(folder: Path = matrices.FOLDER) -> Rule:
    """Read and check the rule; raises SuiteError that lists all faults of the file."""
    found: list[str] = []
    rule = matrices._read(folder / FILE, Rule, found)
    for concern in rule.concern if rule else []:
        try:
            re.compile(concern.pattern)
        except re.error as error:
            found.append(f"{FILE}: {concern.what}: no pattern ({error})")
    if found:
        raise SuiteError("; ".join(found))
    return rule


def chosen(package: Path) -> dict[str, list[str]]:
    """The test modules of an installed numba-cuda that concern linking, and what each is about.

    Named by their paths: `cudadrv/test_linker`. Raises SuiteError where there is none.
    """
    tests = package / "numba" / "cuda" / "tests"
    found = {}
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        matters = [c.what for c in load().concern if re.search(c.pattern, text)]
        if matters:
            found[path.relative_to(tests).with_suffix("").as_posix()] = matters
    if not found:
        raise SuiteError(f"this numba-cuda has no tests that concern linking in {tests.relative_to(package)}")
    return found
