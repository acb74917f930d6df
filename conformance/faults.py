"""Faults of the matrices that the shape of a file does not show: unknown names and words, bad versions
and patterns, doubled names, cells without a rule. The shapes are `matrices.py`'s to check.

Every fault reads `FILE: TABLE: KEY: what is wrong`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from conformance.errors import SuiteError
from conformance.model import KINDS, OUTCOMES, PHASES

if TYPE_CHECKING:
    from conformance.matrices import Matrices

_PLACES = ("path", "memory")
_FEATURE = re.compile(rf"input:({'|'.join(KINDS)}):({'|'.join(_PLACES)})|option:[a-z-]+")
# What a deviation may say of an outcome.
_OUTCOME = ("kind", "phase", "type", "message", "warning")


def between(m: Matrices, unreadable: Collection[str]) -> list[str]:
    """All faults of all files; what refers to a file that could not be read is not looked at."""
    faults = [
        *_version_faults(m),
        *_requirement_faults(m),
        *_pattern_faults(m),
        *_word_faults(m),
        *_doubled_faults(m),
        *_rule_faults(m),
        *_deviation_faults(m),
    ]
    if "environments.toml" not in unreadable:
        faults += _axis_faults(m)
        faults += _when_faults(_conditions(m), {axis: list(values) for axis, values in m.axes.items()})
    if "decisions.toml" not in unreadable:
        faults += _when_faults(_decision_conditions(m), m.decisions.axes)
        faults += _decision_faults(m)
    if "selection.toml" not in unreadable:
        faults += _unless_faults(m)
    if "linkers.toml" not in unreadable:
        faults += _linker_faults(m)
    involved = ("environments.toml", "releases.toml", "linkers.toml", "decisions.toml", "selection.toml")
    if not any(f.startswith(involved) for f in faults) and not set(involved) & set(unreadable):
        faults += _cover_faults(m)
    return faults


# What there is to check, each with its place


def _conditions(m: Matrices) -> Iterator[tuple[str, object]]:
    """Every table that says where it holds on the axes of environments, by `when` and `releases`."""
    yield from ((f"environments.toml: impossible.{i}", entry) for i, entry in enumerate(m.impossible))
    yield from _failure_outcomes(m)
    yield from ((f"deviations.toml: {d.scenario}", d) for d in m.deviations)


def _decision_conditions(m: Matrices) -> Iterator[tuple[str, object]]:
    """Every table that says where it holds on the axes of decisions."""
    yield from ((f"decisions.toml: impossible.{i}", entry) for i, entry in enumerate(m.decisions.impossible))
    yield from ((f"decisions.toml: same.{i}", entry) for i, entry in enumerate(m.decisions.same))
    yield from ((f"selection.toml: {table.id}", table) for table in [*m.rules, *m.notices])
    yield from ((f"selection-deviations.toml: {d.reason}", d) for d in m.selection_deviations)


def _outcomes(m: Matrices) -> Iterator[tuple[str, object]]:
    """Every table that says which error and warnings come."""
    yield from ((f"selection.toml: {rule.id}", rule) for rule in m.rules)
    yield from ((f"selection-deviations.toml: {d.reason}", d) for d in m.selection_deviations)
    yield from _failure_outcomes(m)


def _failure_outcomes(m: Matrices) -> Iterator[tuple[str, object]]:
    for name, failure in m.failures.items():
        yield from ((f"failures.toml: {name}.outcomes.{i}", o) for i, o in enumerate(failure.outcomes))


def _requirements(m: Matrices) -> Iterator[tuple[str, str]]:
    for axis, values in m.axes.items():
        for name, value in values.items():
            place = f"environments.toml: axes.{axis}.{name}"
            yield from ((f"{place}: packages", text) for text in value.packages)
            yield from ((f"{place}: constraints", text) for text in value.constraints)
    yield from (("environments.toml: common: packages", text) for text in m.common.packages)
    yield from ((f"releases.toml: {r.version}: pins", text) for r in m.releases for text in r.pins)
    for name, packages in m.decisions.packages.items():
        yield from ((f"decisions.toml: packages.{name}", text) for text in packages)
    for name, toolchain in m.toolchains.items():
        yield from ((f"toolchains.toml: {name}: packages", text) for text in toolchain.packages)


def _patterns(m: Matrices) -> Iterator[tuple[str, str]]:
    for place, table in _outcomes(m):
        if table.error:
            yield f"{place}: error.message", table.error.message
        yield from ((f"{place}: warnings.message", w.message) for w in table.warnings)
    yield from ((f"selection.toml: {n.id}: warning.message", n.warning.message) for n in m.notices)
    for d in m.deviations:
        for key in ("message", "warning"):
            yield from ((f"deviations.toml: {d.scenario}: outcome.{key}", p) for p in _list(d.outcome, key))


def _words(m: Matrices) -> Iterator[tuple[str, str, Collection[str]]]:
    """Every word of a fixed vocabulary: its place, itself, and the vocabulary."""
    for name, linker in m.linkers.items():
        for engine, facts in linker.engines.items():
            place = f"linkers.toml: {name}: engines.{engine}.inputs"
            yield from ((place, word, _PLACES) for word in facts.inputs)
            yield from ((f"{place}.{p}", kind, KINDS) for p, kinds in facts.inputs.items() for kind in kinds)
    for place, table in _outcomes(m):
        phases = table.error.phase if table.error else []
        yield from ((f"{place}: error.phase", phase, PHASES) for phase in phases)
    for d in m.deviations:
        place = f"deviations.toml: {d.scenario}"
        yield from ((f"{place}: outcome", key, _OUTCOME) for key in d.outcome)
        yield from ((f"{place}: outcome.kind", kind, OUTCOMES) for kind in _list(d.outcome, "kind"))
        yield from ((f"{place}: outcome.phase", phase, PHASES) for phase in _list(d.outcome, "phase"))
        yield from ((f"{place}: drivers", kind, ("device", "recording")) for kind in d.drivers)
        yield f"{place}: expected", d.expected, ("", "value", "error")


def _list(table: dict[str, str | list[str]], key: str) -> list[str]:
    value = table.get(key, [])
    return [value] if isinstance(value, str) else value


# The checks


def _refused(by: Callable[[str], object], text: str) -> bool:
    try:
        by(text)
    except (ValueError, re.error):  # packaging's exceptions are ValueErrors
        return True
    return False


def _version_faults(m: Matrices) -> list[str]:
    linkers = [(f"linkers.toml: {name}", linker) for name, linker in m.linkers.items()]
    return [
        f"releases.toml: release.{i}: version: {r.version!r} is not a version"
        for i, r in enumerate(m.releases)
        if _refused(Version, r.version)
    ] + [
        f"{place}: releases: {table.releases!r} is not a version specifier"
        for place, table in [*_conditions(m), *_decision_conditions(m), *linkers]
        if hasattr(table, "releases") and _refused(SpecifierSet, table.releases)
    ]


def _requirement_faults(m: Matrices) -> list[str]:
    return [
        f"{place}: {text!r} is not a requirement"
        for place, text in _requirements(m)
        if _refused(Requirement, text)
    ]


def _pattern_faults(m: Matrices) -> list[str]:
    return [
        f"{place}: {pattern!r} is not a regular expression"
        for place, pattern in _patterns(m)
        if _refused(re.compile, pattern)
    ]


def _word_faults(m: Matrices) -> list[str]:
    faults = [
        f"{place}: no such word: {word!r}; known: {', '.join(filter(None, known))}"
        for place, word, known in _words(m)
        if word not in known
    ]
    return faults + [
        f"failures.toml: {name}: features: no such feature: {feature!r}"
        for name, failure in m.failures.items()
        for feature in failure.features
        if not _FEATURE.fullmatch(feature)
    ]


def _doubled_faults(m: Matrices) -> list[str]:
    names = [environment.name for environment, refusal in m.combinations if refusal is None]
    return (
        [f"environments.toml: axes: two environments are called {n}" for n in _twice(names)]
        + [f"releases.toml: release: {v} stands there twice" for v in _twice(r.version for r in m.releases)]
        + [f"selection.toml: rule: two rules are called {i}" for i in _twice(r.id for r in m.rules)]
    )


def _twice(items: Iterator[str]) -> list[str]:
    items = list(items)
    return sorted({i for i in items if items.count(i) > 1})


def _rule_faults(m: Matrices) -> list[str]:
    return [
        f"selection.toml: {rule.id}: give either a linker with its engine or an error"
        for rule in m.rules
        if bool(rule.linker) == bool(rule.error) or bool(rule.linker) != bool(rule.engine)
    ]


def _deviation_faults(m: Matrices) -> list[str]:
    faults = []
    deviations = [(f"deviations.toml: {d.scenario}", d) for d in m.deviations]
    deviations += [(f"selection-deviations.toml: {d.reason}", d) for d in m.selection_deviations]
    for place, d in deviations:
        if d.upstream != "unreported" and not d.upstream.startswith("https://"):
            faults.append(f"{place}: upstream: give a link, or `unreported`")
        if d.upstream == "unreported" and not d.finding:
            faults.append(f"{place}: finding: missing for what is unreported")
    return faults


def _axis_faults(m: Matrices) -> list[str]:
    faults = [] if m.axes.get("cuda") else ["environments.toml: axes: there is no axis cuda"]
    for name, value in m.axes.get("cuda", {}).items():
        place = f"environments.toml: axes.cuda.{name}"
        if not re.fullmatch(r"cuda\d+", name):
            faults.append(f"{place}: a value of this axis is called cuda and a number")
        if not re.fullmatch(r"\d+\.\d", value.driver):
            faults.append(f"{place}: driver: {value.driver!r} is not of the form 12.9")
        if m.toolchains and value.toolchain not in m.toolchains:
            known = ", ".join(m.toolchains)
            faults.append(f"{place}: toolchain: no toolchain {value.toolchain!r}; known: {known}")
    return faults


def _when_faults(conditions: Iterator[tuple[str, object]], axes: dict[str, list[str]]) -> list[str]:
    faults = []
    for place, table in conditions:
        for key in ("when", "instead"):
            faults += _value_faults(f"{place}: {key}", getattr(table, key, {}), axes)
    return faults


def _value_faults(place: str, values: dict[str, str | list[str]], axes: dict[str, list[str]]) -> list[str]:
    """Axes and values of a table that do not exist."""
    faults = []
    for axis in values:
        if axis not in axes:
            faults.append(f"{place}.{axis}: no such axis; known: {', '.join(axes)}")
            continue
        for value in _list(values, axis):
            if value not in axes[axis]:
                faults.append(f"{place}.{axis}: no value {value!r}; known: {', '.join(axes[axis])}")
    return faults


def _decision_faults(m: Matrices) -> list[str]:
    axes = m.decisions.axes
    faults = [f"decisions.toml: axes.{axis}: there are no values" for axis, v in axes.items() if not v]
    for named in m.decisions.named:
        faults += _value_faults(f"decisions.toml: {named.case}: values", named.values, axes)
    for axis, values in m.axes.items():
        for name, value in values.items():
            faults += _value_faults(f"environments.toml: axes.{axis}.{name}: decides", value.decides, axes)
    return faults


def _unless_faults(m: Matrices) -> list[str]:
    ids = {rule.id for rule in m.rules}
    tables = [(f"selection.toml: {t.id}", t) for t in [*m.rules, *m.notices]]
    tables += [(f"selection-deviations.toml: {d.reason}", d) for d in m.selection_deviations]
    return [
        f"{place}: unless: no rule {other!r}" for place, t in tables for other in t.unless if other not in ids
    ]


def _linker_faults(m: Matrices) -> list[str]:
    engines = {f"{name}/{engine}" for name, linker in m.linkers.items() for engine in linker.engines}
    faults = [
        f"linkers.toml: {name}: replaced_by: no linker {linker.replaced_by!r}"
        for name, linker in m.linkers.items()
        if linker.replaced_by and linker.replaced_by not in m.linkers
    ]
    for rule in m.rules:
        if rule.linker and rule.linker not in m.linkers:
            faults.append(f"selection.toml: {rule.id}: linker: no linker {rule.linker!r}")
        elif rule.engine and f"{rule.linker}/{rule.engine}" not in engines:
            faults.append(f"selection.toml: {rule.id}: engine: {rule.linker} has no engine {rule.engine!r}")
    return faults + [
        f"failures.toml: {name}.outcomes.{i}: linkers: no linker {linker!r}"
        for name, failure in m.failures.items()
        for i, outcome in enumerate(failure.outcomes)
        for linker in outcome.linkers
        if linker not in engines and linker not in m.linkers
    ]


def _cover_faults(m: Matrices) -> list[str]:
    """Cells that no rule or several cover, or whose rule gives a linker that the release lacks."""
    faults = []
    for environment in m.environments.values():
        for release in m.releases_of(environment):
            try:
                rule = m.rule(environment.axes, release.version)
            except SuiteError as error:
                faults.append(str(error))
                continue
            if rule.linker and not SpecifierSet(m.linkers[rule.linker].releases).contains(release.version):
                faults.append(
                    f"selection.toml: {rule.id}: linker: {rule.linker} is not in {release.version}, "
                    f"which {environment.name} has (linkers.toml)"
                )
    return faults
