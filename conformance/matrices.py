"""Loads and checks everything under `matrices/`, once, for the host.

All faults of all files are collected and reported together, each with its file and the place in it.
"""

from __future__ import annotations

import itertools
import json
import tomllib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import TypeAdapter, ValidationError

from conformance import model
from conformance.errors import SuiteError
from conformance.model import (
    AxisValue,
    Deviation,
    Environment,
    Failure,
    FailureOutcome,
    Impossible,
    Linker,
    Release,
    Rule,
    record,
)

FOLDER = Path(__file__).resolve().parent.parent / "matrices"


@record
class Common:
    """What every environment gets, whatever its axes."""

    settings: dict[str, str]
    packages: list[str]
    python: list[str]


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


@record
class _Failures:
    failures: dict[str, Failure]


@record
class _Deviations:
    deviation: list[Deviation] = field(default_factory=list)


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
    "selection.toml": _Selection,
    "failures.toml": _Failures,
    "deviations.toml": _Deviations,
    "toolchains.toml": dict[str, Toolchain],
}


def within(version: str, specifier: str) -> bool:
    """Whether a version satisfies a specifier; an empty specifier takes every version."""
    return SpecifierSet(specifier).contains(Version(version), prereleases=True)


def matches(axes: dict[str, str], when: dict[str, str | list[str]]) -> bool:
    """Whether axis values are among those that a `when` table names; absent axes are free."""
    return all(axes[axis] in ([v] if isinstance(v, str) else v) for axis, v in when.items())


@dataclass(frozen=True)
class Matrices:
    """Everything under `matrices/`, checked."""

    axes: dict[str, dict[str, AxisValue]]
    common: Common
    impossible: list[Impossible]
    releases: list[Release]
    linkers: dict[str, Linker]
    rules: list[Rule]
    failures: dict[str, Failure]
    deviations: list[Deviation]
    toolchains: dict[str, Toolchain]
    folder: Path = FOLDER

    @cached_property
    def combinations(self) -> list[tuple[Environment, Impossible | None]]:
        """Every combination of axis values, with the reason where it cannot exist at all."""
        names = list(self.axes)
        return [
            (self._environment(dict(zip(names, values))), self._refusal(dict(zip(names, values))))
            for values in itertools.product(*(self.axes[name] for name in names))
        ]

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

    def rule(self, axes: dict[str, str], release: str) -> Rule:
        """The one rule of selection.toml that covers a configuration."""
        covering = [r for r in self.rules if within(release, r.releases) and matches(axes, r.when)]
        if len(covering) != 1:
            what = ", ".join(r.id for r in covering) or "none"
            raise SuiteError(
                f"selection.toml: exactly one rule must cover {axes} at {release}, but: {what}"
            )
        return covering[0]

    def _refusal(self, axes: dict[str, str], release: str | None = None) -> Impossible | None:
        for entry in self.impossible:
            concerned = not entry.releases if release is None else within(release or "0", entry.releases)
            if concerned and matches(axes, entry.when):
                return entry
        return None

    def _environment(self, axes: dict[str, str]) -> Environment:
        values = [self.axes[axis][value] for axis, value in axes.items()]
        name = "-".join(v.suffix for v in values if v.suffix)
        cuda = self.axes["cuda"][axes["cuda"]]
        return Environment(
            name=name,
            title=", ".join(v.title for v in values if v.title),
            tags=[v.suffix for v in values if v.suffix],
            axes=axes,
            settings=_union(self.common.settings, *(v.settings for v in values)),
            packages=[p for v in values for p in v.packages],
            constraints=[c for v in values for c in v.constraints],
            lock="-".join(v.lock for v in values if v.lock),
            extra=cuda.extra,
            driver=cuda.driver,
            toolchain=cuda.toolchain,
            reports="".join(v.reports for v in values),
        )


def _union(*tables: dict[str, str]) -> dict[str, str]:
    return {key: value for table in tables for key, value in table.items()}


@lru_cache
def load(folder: Path = FOLDER) -> Matrices:
    """Read and check every file of the folder.

    Raises SuiteError that lists all faults of all files, each with file, table and key.
    """
    faults: list[str] = []
    parts = {name: _read(folder / name, shape, faults) for name, shape in _FILES.items()}
    if not faults:
        matrices = _assemble(folder, parts)
        faults += _cross_faults(matrices)
    if faults:
        raise SuiteError("the matrices have faults:\n  " + "\n  ".join(faults))
    return matrices


def _assemble(folder: Path, parts: dict) -> Matrices:
    environments = parts["environments.toml"]
    return Matrices(
        axes=environments.axes,
        common=environments.common,
        impossible=environments.impossible,
        releases=parts["releases.toml"].release,
        linkers=parts["linkers.toml"].linkers,
        rules=parts["selection.toml"].rule,
        failures=parts["failures.toml"].failures,
        deviations=parts["deviations.toml"].deviation,
        toolchains=parts["toolchains.toml"],
        folder=folder,
    )


def _read(path: Path, shape: type, faults: list[str]):
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        # As JSON: only there a strict dataclass takes a table, and still no number for a string.
        return TypeAdapter(shape).validate_json(json.dumps(document, default=str))
    except OSError as error:
        faults.append(f"{path.name}: cannot be read ({error.strerror})")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        faults.append(f"{path.name}: not TOML ({error})")
    except ValidationError as error:
        faults += [_fault(path.name, e) for e in error.errors()]
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


def _cross_faults(m: Matrices) -> list[str]:
    """Faults that only show between tables: unknown names, bad versions, doubled or uncovered cells."""
    return [
        *_name_faults(m),
        *_version_faults(m),
        *_when_faults(m),
        *_linker_faults(m),
        *_rule_faults(m),
    ]


def _name_faults(m: Matrices) -> list[str]:
    names = [e.name for e, refusal in m.combinations if refusal is None]
    versions = [r.version for r in m.releases]
    return [f"environments.toml: two environments are called {n}" for n in _twice(names)] + [
        f"releases.toml: {v} stands there twice" for v in _twice(versions)
    ]


def _twice(items: list[str]) -> list[str]:
    return sorted({i for i in items if items.count(i) > 1})


def _version_faults(m: Matrices) -> list[str]:
    faults = []
    for release in m.releases:
        try:
            Version(release.version)
        except InvalidVersion:
            faults.append(f"releases.toml: release.version: {release.version!r} is not a version")
    for place, specifier in _specifiers(m):
        try:
            SpecifierSet(specifier)
        except InvalidSpecifier:
            faults.append(f"{place}: releases: {specifier!r} is not a version specifier")
    return faults


def _specifiers(m: Matrices):
    yield from (("environments.toml: impossible", i.releases) for i in m.impossible)
    yield from ((f"linkers.toml: {name}", linker.releases) for name, linker in m.linkers.items())
    yield from ((f"selection.toml: {r.id}", r.releases) for r in m.rules)
    yield from ((f"deviations.toml: {d.scenario}", d.releases) for d in m.deviations)
    for name, failure in m.failures.items():
        yield from ((f"failures.toml: {name}", o.releases) for o in failure.outcomes)


def _when_faults(m: Matrices) -> list[str]:
    tables = [("environments.toml: impossible", i.when) for i in m.impossible]
    tables += [(f"selection.toml: {r.id}", r.when) for r in m.rules]
    tables += [(f"deviations.toml: {d.scenario}", d.when) for d in m.deviations]
    tables += [(f"failures.toml: {n}", o.when) for n, f in m.failures.items() for o in f.outcomes]
    return [fault for place, when in tables for fault in _unknown_axes(m, place, when)]


def _unknown_axes(m: Matrices, place: str, when: dict) -> list[str]:
    faults = []
    for axis, values in when.items():
        if axis not in m.axes:
            faults.append(f"{place}: when.{axis}: no such axis; known: {', '.join(m.axes)}")
            continue
        for value in [values] if isinstance(values, str) else values:
            if value not in m.axes[axis]:
                known = ", ".join(m.axes[axis])
                faults.append(f"{place}: when.{axis}: no value {value!r}; known: {known}")
    return faults


def _linker_faults(m: Matrices) -> list[str]:
    faults = []
    for name, linker in m.linkers.items():
        if linker.replaced_by and linker.replaced_by not in m.linkers:
            faults.append(f"linkers.toml: {name}.replaced_by: no linker {linker.replaced_by!r}")
        for engine, spec in linker.engines.items():
            bad = {k for kinds in spec.inputs.values() for k in kinds} - set(model.KINDS)
            faults += [f"linkers.toml: {name}.engines.{engine}.inputs: no kind {k!r}" for k in bad]
    known = {f"{name}/{engine}" for name, linker in m.linkers.items() for engine in linker.engines}
    known |= set(m.linkers)
    for name, failure in m.failures.items():
        for outcome in failure.outcomes:
            unknown = set(outcome.linkers) - known
            faults += [f"failures.toml: {name}: no linker {u!r}" for u in sorted(unknown)]
    return faults


def _rule_faults(m: Matrices) -> list[str]:
    faults = [f"selection.toml: two rules are called {i}" for i in _twice([r.id for r in m.rules])]
    for rule in m.rules:
        if bool(rule.linker) == bool(rule.error):
            faults.append(f"selection.toml: {rule.id}: give either a linker or an error")
        elif rule.linker and rule.linker not in m.linkers:
            faults.append(f"selection.toml: {rule.id}.linker: no linker {rule.linker!r}")
        elif rule.linker and rule.engine and rule.engine not in m.linkers[rule.linker].engines:
            faults.append(f"selection.toml: {rule.id}.engine: no engine {rule.engine!r}")
    if faults:
        return faults
    for environment in m.environments.values():
        for release in m.releases_of(environment):
            try:
                m.rule(environment.axes, release.version)
            except SuiteError as error:
                faults.append(str(error))
    return faults


def failure_outcome(
    m: Matrices, name: str, linker: str, engine: str, release: str, axes: dict[str, str]
) -> FailureOutcome | None:
    """How a failure shows on a linker's engine in a configuration; None where nothing is documented."""
    for outcome in m.failures[name].outcomes:
        concerned = {linker, f"{linker}/{engine}"} & set(outcome.linkers)
        if concerned and within(release, outcome.releases) and matches(axes, outcome.when):
            return outcome
    return None
