"""A summary of one screen for a CI job's page: the verdict, what differs, how to see it again."""

from __future__ import annotations

from conformance import gate
from conformance.report import findings
from conformance.report.collect import Column, Report
from conformance.report.page import SYMBOLS, driver_words, headline, reached

# Rows of each part; the page has all of them.
_ROWS = 12
_TEXT = 180


def as_markdown(report: Report) -> str:
    """The summary."""
    parts = [
        [f"## {SYMBOLS[report.verdict]} Linkers: {headline(report)}"],
        [f"{report.about()}. {len(report.missing)} cells of the matrix have no record."],
        _linkers(report),
        _different(report),
        _runs(report),
        _again(report),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _linkers(report: Report) -> list[str]:
    lines = ["| May it go? | verdict | first reason |", "|---|---|---|"]
    for d in report.decisions:
        groups = [
            group
            for weight in ("blocks", "missing")
            for group in gate.same_words([f for f in d.findings if f.weight == weight])
        ]
        first = f"{groups[0][0].kind}: {groups[0][0].text}" if groups else ""
        more = f" (and {len(groups) - 1} more)" if len(groups) > 1 else ""
        lines.append(f"| {d.linker} | {SYMBOLS[d.verdict]} **{d.verdict}** | {_cell(first)}{more} |")
    return lines


def _different(report: Report) -> list[str]:
    own = {c.name for c in report.own}
    unknown = [u for u in findings.unknown(report) if any(name in own for name, _ in u.places)]
    if not unknown:
        return ["Nothing differs that is not known."]
    lines = ["### What differs", "", "| how often | what | for example |", "|---:|---|---|"]
    for u in unknown[:_ROWS]:
        name, scenario = u.places[0]
        lines.append(f"| {len(u.places)} | {u.status}: {_cell(u.reason)} | `{scenario}` in {name} |")
    return [*lines, *_left(len(unknown))]


def _runs(report: Report) -> list[str]:
    lines = ["| run | verdict | evidence | driver |", "|---|---|---|---|"]
    ordered = sorted(report.own, key=lambda c: ("failure", "partial", "success").index(c.verdict.word))
    lines += [f"| {c.name} | {SYMBOLS[c.verdict.word]} {c.verdict.word} | {reached(c.verdict)} | {_cell(driver_words(c))} |" for c in ordered[:_ROWS]]  # fmt: skip
    return [*lines, *_left(len(ordered))]


def _left(n: int) -> list[str]:
    return ["", f"{n - _ROWS} more in the page."] if n > _ROWS else []


def _again(report: Report) -> list[str]:
    commands = [_command(c) for c in report.own if c.verdict.word == "failure"] or [
        _command(c) for c in report.own if c.verdict.word == "partial"
    ]
    return ["### To see it again", "", "```sh", *commands[:5], "nox -s report", "```"] if commands else []


def _command(c: Column) -> str:
    wrong = next((o["scenario"] for o in c.run.observations if o["status"] in ("differs", "unstable")), "")
    return c.reproduce + (f" --scenario {wrong}" if wrong else "")


def _cell(text: str) -> str:
    """A text that cannot leave its cell of a table, nor be taken for markup."""
    text = " ".join(text.split())
    text = text if len(text) <= _TEXT else text[:_TEXT] + " ..."
    for character, escaped in (("\\", "\\\\"), ("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("`", "\\`"), ("*", "\\*"), ("_", "\\_"), ("[", "\\["), ("@", "@\u200b")):
        text = text.replace(character, escaped)
    return text
