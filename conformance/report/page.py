"""The page: one HTML file with its style, script and data in it, that loads nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jinja2
import markupsafe

from conformance import cells, gate
from conformance.matrices import within
from conformance.report import findings, migration, pack, times
from conformance.report.collect import VERDICTS, Column, Decision, Report, Verdict

TEMPLATES = Path(__file__).parent / "templates"

SYMBOLS = {"success": "✓", "partial": "◐", "failure": "✗", "removable": "✓", "blocked": "✗", "not enough evidence": "◐"}
STATUS_SYMBOLS = {"conforms": "✓", "deviates": "≈", "differs": "✗", "unstable": "~", "skipped": "○"}
CLASSES = {"not enough evidence": "evidence-missing", "conforms": "success", "differs": "failure", "unstable": "failure"}
MEANINGS = [
    ("success", "everything ran and is as expected or a known difference"),
    ("partial", "something was skipped, is missing or stale"),
    ("failure", "something differs or changes between repetitions"),
]
STATUS_MEANINGS = [
    ("conforms", "as expected"),
    ("deviates", "a known difference"),
    ("differs", "any other difference"),
    ("unstable", "repetitions disagree"),
    ("skipped", "not asked; the reason says what to do"),
]
WEIGHTS = [
    ("blocks", "reason against it", "reasons against it"),
    ("missing", "kind of missing evidence", "kinds of missing evidence"),
    ("accepted", "accepted difference", "accepted differences"),
    ("note", "note that does not block", "notes that do not block"),
]
SECTIONS = [
    ("gate", "May a linker go?"),
    ("matrix", "Matrix"),
    ("linkers", "By linker"),
    ("families", "Families"),
    ("compare", "Side by side"),
    ("migration", "Migration"),
    ("findings", "Findings"),
    ("times", "Link times"),
    ("where", "What ran where"),
]
_CUT = 260


def page(report: Report) -> str:
    """The whole page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html.j2").render(**_context(report))


def headline(report: Report) -> str:
    """The verdict in a sentence: what of the report's runs is as expected."""
    words = [c.verdict.word for c in report.own]
    worst, *others = [(w, words.count(w)) for w in reversed(VERDICTS) if w in words]
    runs = "1 run" if len(words) == 1 else f"{len(words)} runs"
    return ", ".join([f"{worst[0]} in {worst[1]} of {runs}", *(f"{w} in {n}" for w, n in others)])


def linked(text: str) -> markupsafe.Markup:
    """A text with the reports that it names as links; nothing else in it becomes markup."""
    link = markupsafe.Markup('<a href="{}" rel="noreferrer">{}</a>')
    # An address that was cut leads elsewhere.
    parts = re.split(r"((?>https://github\.com/[\w./-]*[\w/-])(?! \.\.\.))", text)
    return markupsafe.Markup("").join(link.format(p, short_link(p)) if i % 2 else p for i, p in enumerate(parts))


def short_link(url: str) -> str:
    """What of an address tells it from others: numba-cuda/pull/479."""
    return "/".join(url.rstrip("/").split("/")[-3:])


def _context(report: Report) -> dict:
    numbers = {c.name: i for i, c in enumerate(report.columns)}
    pages = findings.pages()
    return {
        "report": report,
        "headline": headline(report),
        "source": cells.source_revision(),
        "css": _markup("page.css"),
        "js": _markup("page.js"),
        "data": _markup_of(_data(report)),
        "sections": SECTIONS,
        "filters": filters(report),
        "symbols": SYMBOLS,
        "status_symbols": STATUS_SYMBOLS,
        "classes": CLASSES,
        "meanings": MEANINGS,
        "status_meanings": STATUS_MEANINGS,
        "weights": WEIGHTS,
        "numbers": numbers,
        "unknown": findings.unknown(report),
        "known": findings.known(report),
        "pages": pages,
        "page_names": {p.name for p in pages},
        "charts": [(t, times.chart(t)) for t in times.times(report)],
        "missing": [(e, f"nox -s {e.name} -- --release {release}") for e, release in report.missing],
        "reached": reached,
        "grouped": grouped,
        "cells_of": lambda group: list(dict.fromkeys(f.cell for f in group)),
        "scenarios_of": lambda group: sorted({s for f in group for s in f.scenarios}),
        "commands_of": lambda group: list(dict.fromkeys(f.command for f in group if f.command)),
        "runs_of": lambda name, release: [c for c in report.columns if (c.environment.name, c.release) == (name, release)],
        "absence": lambda e, release: _absence(report, e, release),
        "has": lambda linker, release: _has(report, linker, release),
        "count": lambda n, one, many: f"{n} {one if n == 1 else many}",
        "driver_words": driver_words,
        "ms": lambda value: f"{value:.3g} ms" if value < 100 else f"{value:.0f} ms",
        "cut": lambda text: text if len(text) <= _CUT else text[:_CUT] + " ...",
        "short_link": short_link,
        "linked": linked,
    }


def filters(report: Report) -> list[dict]:
    """The filters above the tables: each axis of the matrix, and what else tells runs and scenarios apart."""
    m = report.matrices
    axes = [
        (axis, axis, [(name, value.title or name) for name, value in values.items()]) for axis, values in m.axes.items()
    ]
    others = [
        ("linker", "linker", [(name, name) for name in m.linkers]),
        ("release", "release", [(r, r) for r in report.releases]),
        ("driver", "driver", [(d, d) for d in sorted({c.driver for c in report.columns if c.driver})]),
        ("source", "records", [(s, s) for s in sorted({c.source for c in report.columns})]),
        ("verdict", "verdict", [(word, f"{SYMBOLS[word]} {word}") for word, _ in MEANINGS]),
        ("profile", "profile", [("core", "core only")]),
        ("status", "status", [(s, f"{STATUS_SYMBOLS[s]} {s}") for s in STATUS_SYMBOLS]),
    ]
    return [{"name": name, "title": title, "values": values} for name, title, values in [*axes, *others]]


def _data(report: Report) -> dict:
    return {
        **pack.pack(report),
        "migration": migration.migration(report.matrices, report.folder),
        "symbols": SYMBOLS | STATUS_SYMBOLS,
        "usual": _usual(report),
    }


def _usual(report: Report) -> dict[str, str]:
    """What the side-by-side shows first: a run of an old linker and one of what replaces it."""
    found = times.times(report)
    if found:
        return {"a": found[0].old.name, "b": found[0].new.name}
    return {"a": report.columns[0].name, "b": report.columns[-1].name}


def reached(v: Verdict) -> str:
    """How far a run was seen: the strongest evidence, how many observations reached it, known differences."""
    words = f"{v.evidence[v.reached]} {v.reached}" if v.reached else "nothing observed"
    return words + (f", {v.counts['deviates']} deviate" if v.counts.get("deviates") else "")


def driver_words(c: Column) -> str:
    """Device, driver and its version, as a record's header has them."""
    header = c.run.header
    driver = header.get("driver") or {}
    device = header.get("device") or "no device"
    return f"{driver.get('kind', 'unknown')} driver {driver.get('version', '')}, {device}, compute capability {header.get('compute_capability')}"


def grouped(decision: Decision, weight: str) -> list[list[gate.Finding]]:
    """The gate's findings of a weight, the same words together."""
    return gate.same_words([f for f in decision.findings if f.weight == weight])


def _absence(report: Report, environment, release: str) -> str:
    known = next((r for r in report.matrices.releases if r.version == release), None)
    refusal = known and report.matrices.absence(environment, known)
    return refusal.reason if refusal else ""


def _has(report: Report, linker, release: str) -> bool:
    return all(release != r.version for r in report.matrices.releases) or within(release, linker.releases)


def _markup(name: str):
    return markupsafe.Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def _markup_of(document: dict):
    """JSON within a script element: nothing in a record can end it."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return markupsafe.Markup(text)
