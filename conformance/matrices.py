"""Loads and checks everything under `matrices/`, once, for the host.

All faults of all files are collected and reported together, each with its file and the place in it.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import tomllib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import TypeAdapter, ValidationError

from conformance import faults
from conformance.errors import SuiteError
from conformance.model import (
    Accepted,
    AxisValue,
    Decisions,
    Deviation,
    Environment,
    Failure,
    FailureOutcome,
    Impossible,
    Linker,
    Notice,
    Release,
    Rule,
    SelectionDeviation,
    record,
)

FOLDER = Path(__file__).resolve().parent.parent / "matrices"


@record
class Newer:
    """A Python that no lock admits: the packages to take instead, and the releases that exist for it then."""

    packages: list[str]
    releases: list[str]
    reason: str


@record
class Common:
    """What every environment gets, whatever its axes."""

    settings: dict[str, str]
    packages: list[str]
    python: list[str]
    newer: dict[str, Newer] = field(default_factory=dict)


@record
class _Environments:
    axes: dict[str, dict[str, AxisValue]]
    common: Common
    impossible: list[Impossible] = field(default_factory=list)


@record
class _Releases:
    release: list[Release]


@record
class _Linkers:
    linkers: dict[str, Linker]


@record
class _Selection:
    rule: list[Rule]
    notice: list[Notice] = field(default_factory=list)


@record
class _SelectionDeviations:
    deviation: list[SelectionDeviation] = field(default_factory=list)


@record
class _Failures:
    failures: dict[str, Failure]


@record
class _Deviations:
    deviation: list[Deviation] = field(default_factory=list)


@record
class _Accepted:
    accepted: list[Accepted] = field(default_factory=list)


@record
class Toolchain:
    """The compiler libraries of one CUDA major: packages to lock, compute capabilities they serve."""

    version: str
    packages: list[str]
    compute_capabilities: list[str]


_FILES = {
    "environments.toml": _Environments,
    "releases.toml": _Releases,
    "linkers.toml": _Linkers,
    "decisions.toml": Decisions,
    "selection.toml": _Selection,
    "selection-deviations.toml": _SelectionDeviations,
    "failures.toml": _Failures,
    "deviations.toml": _Deviations,
    "accepted.toml": _Accepted,
    "toolchains.toml": dict[str, Toolchain],
}


@lru_cache(maxsize=4096)
def within(version: str, specifier: str) -> bool:
    """Whether a version satisfies a specifier; an empty specifier takes every version."""
    return SpecifierSet(specifier).contains(Version(version), prereleases=True)


def matches(axes: dict[str, str], when: dict[str, str | list[str]]) -> bool:
    """Whether axis values are among those that a `when` table names; absent axes are free."""
    return all(axes.get(axis) in ([v] if isinstance(v, str) else v) for axis, v in when.items())


@dataclass(frozen=True, eq=False)
class Matrices:
    """Everything under `matrices/`, checked. Equal to itself only, so that what follows from it can be cached."""

    axes: dict[str, dict[str, AxisValue]]
    common: Common
    impossible: list[Impossible]
    releases: list[Release]
    linkers: dict[str, Linker]
    rules: list[Rule]
    failures: dict[str, Failure]
    deviations: list[Deviation]
    accepted: list[Accepted]
    toolchains: dict[str, Toolchain]
    decisions: Decisions
    notices: list[Notice]
    selection_deviations: list[SelectionDeviation]
    folder: Path = FOLDER

    @cached_property
    def combinations(self) -> list[tuple[Environment, Impossible | None]]:
        """Every combination of axis values, with the reason where it cannot exist at all."""
        products = itertools.product(*self.axes.values())
        combined = [dict(zip(self.axes, values, strict=True)) for values in products]
        return [(self._environment(axes), self._refusal(axes)) for axes in combined]

    @cached_property
    def environments(self) -> dict[str, Environment]:
        """The environments that exist, by name."""
        return {e.name: e for e, refusal in self.combinations if refusal is None}

    def environment(self, name: str) -> Environment:
        """The environment of that name; an unknown one is an error that lists the known."""
        if name not in self.environments:
            raise SuiteError(
                f"no environment is called {name!r}; known: {', '.join(self.environments)}"
            )
        return self.environments[name]

    def release(self, version: str) -> Release:
        """The release of that version; an unknown one is an error that lists the known."""
        for release in self.releases:
            if release.version == version:
                return release
        known = ", ".join(r.version for r in self.releases)
        raise SuiteError(f"no release is called {version!r}; known: {known}")

    def releases_of(self, environment: Environment) -> list[Release]:
        """The releases in which an environment exists, oldest first."""
        return [r for r in self.releases if self.absence(environment, r) is None]

    def absence(self, environment: Environment, release: Release) -> Impossible | None:
        """Why an environment does not exist in a release, or None where it does."""
        return self._refusal(environment.axes, release.version)

    def lock(self, environment: Environment, release: Release) -> Path:
        """The lock file of an environment at a release; shared by all with the same packages."""
        return self.folder / "locks" / f"{release.version}-{environment.lock}.txt"

    def configuration(self, environment: dict[str, str]) -> dict[str, str]:
        """Where the axis values of an environment lie on the axes of decisions.toml."""
        values = [self.axes[axis][value] for axis, value in environment.items()]
        return _union(self.decisions.usual, *(v.decides for v in values))

    def rule(self, axes: dict[str, str], release: str, instead: dict[str, str] | None = None) -> Rule:
        """The one rule of selection.toml that covers a configuration, with the warnings of all notices.

        axes: values on the axes of decisions.toml, or those of an environment. instead: values that a
        release is known to put in their place.
        """
        literal = self.configuration(axes) if axes.keys() == self.axes.keys() else axes
        meant = self.meant(literal) | (instead or {})
        covering = [r for r in self.rules if self.covers(r, meant, release)]
        if len(covering) != 1:
            what = ", ".join(r.id for r in covering) or "none"
            words = " ".join(f"{axis}={value}" for axis, value in axes.items())
            raise SuiteError(
                f"selection.toml: exactly one rule must cover {words} at {release}, but: {what}"
            )
        notices = [n for n in self.notices if self.covers(n, literal if n.literally else meant, release)]
        warnings = [*(n.warning for n in notices), *covering[0].warnings]
        return dataclasses.replace(covering[0], warnings=warnings)

    def meant(self, configuration: dict[str, str]) -> dict[str, str]:
        """A configuration with its settings as they are understood (`same` in decisions.toml)."""
        same = (s.instead for s in self.decisions.same if matches(configuration, s.when))
        return _union(configuration, *same)

    def covers(
        self, table: Rule | Notice | SelectionDeviation, configuration: dict[str, str], release: str
    ) -> bool:
        """Whether a table's `when`, `releases` and `unless` take a configuration."""
        return (
            within(release, table.releases)
            and matches(configuration, table.when)
            and not any(self.covers(r, configuration, release) for r in self.rules if r.id in table.unless)
        )

    def _refusal(self, axes: dict[str, str], release: str | None = None) -> Impossible | None:
        for entry in self.impossible:
            concerned = not entry.releases if release is None else within(release or "0", entry.releases)
            if concerned and matches(axes, entry.when):
                return entry
        return None

    def _environment(self, axes: dict[str, str]) -> Environment:
        values = [self.axes[axis][value] for axis, value in axes.items()]
        name = "-".join(v.suffix for v in values if v.suffix)
        return Environment(
            name=name,
            title=", ".join(v.title for v in values if v.title),
            tags=[v.suffix for v in values if v.suffix],
            axes=axes,
            settings=_union(self.common.settings, *(v.settings for v in values)),
            packages=[p for v in values for p in v.packages],
            constraints=[c for v in values for c in v.constraints],
            lock="-".join(v.lock for v in values if v.lock),
            extra="".join(v.extra for v in values),
            driver="".join(v.driver for v in values),
            toolchain="".join(v.toolchain for v in values),
            reports="".join(v.reports for v in values),
        )


def _union(*tables: dict[str, str]) -> dict[str, str]:
    return {key: value for table in tables for key, value in table.items()}


@lru_cache
def load(folder: Path = FOLDER) -> Matrices:
    """Read and check every file of the folder.

    Raises SuiteError that lists all faults of all files, each with file, table and key.
    """
    found: list[str] = []
    parts = {name: _read(folder / name, shape, found) for name, shape in _FILES.items()}
    matrices = _assemble(folder, parts)
    found += faults.between(matrices, [name for name, part in parts.items() if part is None])
    if found:
        raise SuiteError("the matrices have faults:\n  " + "\n  ".join(found))
    return matrices


def _assemble(folder: Path, parts: dict) -> Matrices:
    """The matrices of what could be read; a file that could not counts as one without tables."""
    environments = parts["environments.toml"] or _Environments({}, Common({}, [], []))
    return Matrices(
        axes=environments.axes,
        common=environments.common,
        impossible=environments.impossible,
        releases=_of(parts["releases.toml"], "release", []),
        linkers=_of(parts["linkers.toml"], "linkers", {}),
        rules=_of(parts["selection.toml"], "rule", []),
        failures=_of(parts["failures.toml"], "failures", {}),
        deviations=_of(parts["deviations.toml"], "deviation", []),
        accepted=parts["accepted.toml"].accepted,
        toolchains=parts["toolchains.toml"] or {},
        decisions=parts["decisions.toml"] or Decisions({}),
        notices=_of(parts["selection.toml"], "notice", []),
        selection_deviations=_of(parts["selection-deviations.toml"], "deviation", []),
        folder=folder,
    )


def _of(part: object, name: str, otherwise):
    return otherwise if part is None else getattr(part, name)


def _read(path: Path, shape: type, found: list[str]):
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        # As JSON: only there a strict dataclass takes a table, and still no number for a string.
        return TypeAdapter(shape).validate_json(json.dumps(document, default=str))
    except OSError as error:
        found.append(f"{path.name}: cannot be read ({error.strerror})")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        found.append(f"{path.name}: not TOML ({error})")
    except ValidationError as error:
        found += [_fault(path.name, e) for e in error.errors()]
    return None


def _fault(file: str, error: dict) -> str:
    """One pydantic error as `file: table.key: what is wrong`."""
    places = [p for p in error["loc"] if not (isinstance(p, str) and "[" in p)]
    where = ".".join(str(p) for p in places)
    value = "" if isinstance(error["input"], dict | list) else f" (got {error['input']!r})"
    message = {
        "unexpected_keyword_argument": "no such key",
        "missing": "missing",
        "missing_argument": "missing",
    }.get(error["type"], error["msg"])
    return f"{file}: {where}: {message}{value}"


def failure_outcome(
    m: Matrices, name: str, linker: str, engine: str, release: str, axes: dict[str, str]
) -> FailureOutcome | None:
    """How a failure shows on a linker's engine in a configuration; None where nothing is documented."""
    for outcome in m.failures[name].outcomes:
        concerned = {linker, f"{linker}/{engine}"} & set(outcome.linkers)
        if concerned and within(release, outcome.releases) and matches(axes, outcome.when):
            return outcome
    return None
