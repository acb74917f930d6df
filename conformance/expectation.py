"""What a scenario is expected to do in a cell, and how an observation compares with it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Optional

from conformance.errors import SuiteError
from conformance.model import Cell, Deviation, ExpectedError, ExpectedWarning
from conformance.scenario import Scenario

# cuda.core's words for its engines, in ours.
_ENGINES = {"nvjitlink": "nvjitlink", "driver": "driver"}


@dataclass(frozen=True)
class Expectation:
    """A value or an error, from which linker, with which warnings."""

    class_name: str
    engine: str
    error: Optional[ExpectedError] = None
    warnings: list[ExpectedWarning] = field(default_factory=list)
    failure: str = ""

    def to_json(self) -> dict:
        """The part of a record that says what was expected."""
        kind = {"kind": "error", **asdict(self.error)} if self.error else {"kind": "value"}
        return {
            **kind,
            "linker": self.class_name,
            **({"failure": self.failure} if self.failure else {}),
            **({"warnings": [asdict(w) for w in self.warnings]} if self.warnings else {}),
        }


def of(scenario: Scenario, cell: Cell) -> Expectation:
    """What the matrices say about a scenario in a cell.

    Raises SuiteError where they say nothing: a failure that no table documents for this linker.
    """
    linker = cell.expected
    failure = _failure(scenario, cell)
    warnings = list(scenario.warnings)
    error = None
    if failure:
        outcome = cell.failures.get(failure)
        if outcome is None:
            raise SuiteError(
                f"{scenario.id}: failures.toml says nothing on {failure!r} for {linker.linker}/"
                f"{linker.engine} at {cell.release}"
            )
        error = outcome.error
        warnings += outcome.warnings
    return Expectation(linker.class_name, linker.engine, error, warnings, failure)


def of_examination(cell: Cell) -> Expectation:
    """What the matrices say about the import and the first link in a cell (`ENVIRONMENT`)."""
    expected = cell.expected
    return Expectation(expected.class_name, expected.engine, expected.error, expected.warnings)


def _failure(scenario: Scenario, cell: Cell) -> str:
    """The failure to expect: that of the first need which the engine lacks, else the scenario's own."""
    lacking = [need for need in scenario.needs if need not in cell.expected.features]
    for feature, failure in cell.unmet.items():
        if feature in lacking:
            return failure
    if lacking:
        raise SuiteError(
            f"{scenario.id}: failures.toml has no failure for the lack of {lacking[0]!r}"
        )
    return scenario.fails


def judge(scenario: str, observation: dict, expected: Expectation, cell: Cell) -> tuple[str, str]:
    """Status (`conforms`, `deviates`, `differs`) and the reason where it is not `conforms`."""
    reasons = differences(observation, expected)
    wanted = "error" if expected.error else "value"
    known = [d for d in cell.deviations if d.concerns(scenario, wanted)]
    if not reasons:
        for deviation in known:
            if not deviation.sometimes:
                return "differs", (
                    f"conforms, although deviations.toml says of {deviation.scenario!r} that it does "
                    f"not ({deviation.reason}): strike it out or narrow it"
                )
        return "conforms", ""
    for deviation in known if excusable(observation, expected) else []:
        if covers(deviation, observation):
            return "deviates", f"{deviation.reason} ({deviation.upstream})"
    return "differs", "; ".join(reasons)


def excusable(observation: dict, expected: Expectation) -> bool:
    """Whether a deviation can excuse it: not where another linker speaks than the one that it would be about."""
    return bool(expected.error) or observation["linker"] in ("", expected.class_name)


def differences(observation: dict, expected: Expectation) -> list[str]:
    """Every way in which an observation is not what was expected, in words."""
    outcome = observation["outcome"]
    reasons = _outcome_differences(outcome, expected.error)
    reasons += _linker_differences(observation, expected)
    reasons += _warning_differences(observation["warnings"], expected.warnings)
    return reasons


def _outcome_differences(outcome: dict, error: ExpectedError | None) -> list[str]:
    if outcome["kind"] in ("crash", "timeout"):
        return [f"{outcome['kind']} in phase {outcome['phase']}: {outcome['message']}"]
    if error is None:
        if outcome["kind"] == "value":
            return []
        return [f"{outcome['type']} in phase {outcome['phase']}: {outcome['message']}"]
    if outcome["kind"] == "value":
        return [f"no error, where {error.type} is expected in phase {'/'.join(error.phase)}"]
    reasons = []
    if outcome["type"] != error.type:
        reasons.append(f"{outcome['type']} instead of {error.type}: {outcome['message']}")
    if outcome["phase"] not in error.phase:
        reasons.append(f"phase {outcome['phase']} instead of {'/'.join(error.phase)}")
    if not re.sub(r"(?m)^\w+:", "", outcome["message"]).strip():
        reasons.append("the error has no text")
    if not re.search(error.message, outcome["message"]):
        reasons.append(f"no {error.message!r} in the error: {outcome['message']}")
    return reasons


def _linker_differences(observation: dict, expected: Expectation) -> list[str]:
    seen, outcome = observation["linker"], observation["outcome"]
    # A deliberate error may come before any linker is made; everything else must show its linker.
    early = expected.error is not None and outcome["phase"] in ("import", "configure", "construct")
    if not seen and (early or outcome["kind"] in ("crash", "timeout")):
        return []
    if seen != expected.class_name:
        return [f"linked by {seen or 'no linker'} instead of {expected.class_name}"]
    engine = _ENGINES.get(observation["engine"].lower(), observation["engine"])
    if engine and engine != expected.engine:
        return [f"{seen} linked with {engine} instead of {expected.engine}"]
    return []


def _warning_differences(seen: list[dict], expected: list[ExpectedWarning]) -> list[str]:
    left = list(seen)
    reasons = []
    for warning in expected:
        fitting = [
            w
            for w in left
            if w["category"] == warning.category and re.search(warning.message, w["message"])
        ]
        if len(fitting) != warning.times:
            reasons.append(
                f"{warning.category} {warning.message!r} came {len(fitting)} times instead of "
                f"{warning.times}"
            )
        left = [w for w in left if w not in fitting]
    return reasons + [f"unexpected {w['category']}: {w['message']}" for w in left]


def covers(deviation: Deviation, observation: dict) -> bool:
    """Whether a known deviation describes what was seen: each key of its outcome must fit."""
    seen = observation["outcome"]
    wanted = dict(deviation.outcome)
    warning = wanted.pop("warning", None)
    if warning is not None and not any(re.search(warning, w["message"]) for w in observation["warnings"]):
        return False
    message = wanted.pop("message", "")
    return all(_among(seen.get(key), values) for key, values in wanted.items()) and bool(
        re.search(message, seen.get("message") or "")
    )


def _among(value: str | None, values: str | list[str]) -> bool:
    return value in ([values] if isinstance(values, str) else values)
