"""Workflow commands that GitHub shows as annotations of a job."""

from __future__ import annotations

from conformance.report import findings
from conformance.report.collect import Report
from conformance.report.page import headline

# GitHub shows ten of a kind for each step, and drops the rest without a word.
_MOST = 10


def as_annotations(report: Report) -> str:
    """An error for what differs, a warning for what did not finish, a notice for each verdict of the gate."""
    errors = [_command("error", *words) for words in _errors(report)]
    if len(errors) > _MOST:
        left = len(errors) - _MOST + 1
        errors[_MOST - 1 :] = [_command("error", "more", f"{left} more kinds of difference: see the summary of this job")]
    unfinished = [c for c in report.own if not c.run.complete]
    warnings = [
        _command("warning", c.name, f"{c.run.fault or 'the run did not finish (no footer)'}; again: {c.reproduce}")
        for c in unfinished[:_MOST]
    ]
    notices = [_command("notice", f"{d.linker} linker", f"{d.verdict}; nox -s gate -- --remove {d.linker}") for d in report.decisions]
    return "\n".join([*errors, *warnings, *notices, _command("notice", "linkers", headline(report))])


def _errors(report: Report) -> list[tuple[str, str]]:
    runs = {c.name: c for c in report.own}
    found = []
    for u in findings.unknown(report):
        places = [(name, scenario) for name, scenario in u.places if name in runs]
        if places:
            name, scenario = places[0]
            times = f" ({len(places)} times)" if len(places) > 1 else ""
            again = f"{runs[name].reproduce} --scenario {scenario}"
            found.append((f"{scenario} in {name}", f"{u.status}{times}: {u.reason}\nagain: {again}"))
    return found


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escaped(title, property=True)}::{_escaped(message)}"


def _escaped(text: str, property: bool = False) -> str:
    """A text as workflow commands take it: no line end, and in a property neither `:` nor `,`."""
    characters = "%\r\n:," if property else "%\r\n"
    return "".join(f"%{ord(c):02X}" if c in characters else c for c in text)
