"""What a report says of findings: known differences with their reports, and the pages of docs/findings/."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

from conformance.matrices import matches, within
from conformance.model import Deviation
from conformance.paths import ROOT
from conformance.report.collect import Column, Report

PAGES = ROOT / "docs" / "findings"


@dataclass(frozen=True)
class Known:
    """A known difference. where: releases and settings in words. seen: observations that showed it."""

    file: str
    what: str
    where: str
    reason: str
    upstream: str
    finding: str
    seen: int = 0
    columns: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Unknown:
    """A difference that nobody has explained yet."""

    status: str
    reason: str
    places: list[tuple[str, str]]


@dataclass(frozen=True)
class Page:
    """A page of docs/findings; title and body are HTML."""

    name: str
    title: str
    body: str


def known(report: Report) -> list[Known]:
    """Every entry of deviations.toml and selection-deviations.toml, those most often seen first."""
    deviating = [
        (c, o) for c in report.columns for o in c.run.observations if o["status"] == "deviates"
    ]
    found = []
    for d in report.matrices.deviations:
        hits = Counter(
            c.name
            for c, o in deviating
            if o["reason"] == f"{d.reason} ({d.upstream})" and _concerns(d, c, o)
        )
        where = _where(d.releases, d.when)
        found.append(Known("deviations.toml", d.scenario, where, d.reason, d.upstream, d.finding, hits.total(), list(hits)))
    found.sort(key=lambda k: -k.seen)
    return found + [
        Known("selection-deviations.toml", "which linker is selected", _where(d.releases, d.when), d.reason, d.upstream, d.finding)
        for d in report.matrices.selection_deviations
    ]


def _concerns(d: Deviation, c: Column, o: dict) -> bool:
    """Whether an entry of deviations.toml is about an observation; another one may have the same reason."""
    wanted = (o["expected"] or {}).get("kind")
    return (
        d.concerns(o["scenario"], wanted)
        and matches(c.environment.axes, d.when)
        and within(c.base, d.releases)
    )


def _where(releases: str, when: dict) -> str:
    settings = [f"{axis} {v if isinstance(v, str) else '/'.join(v)}" for axis, v in when.items()]
    return ", ".join([f"numba-cuda {releases or 'of every release'}", *settings])


def unknown(report: Report) -> list[Unknown]:
    """What differs or is unstable in any run, the same words once, the most frequent first."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for c in report.columns:
        for o in c.run.observations:
            if o["status"] in ("differs", "unstable"):
                groups[o["status"], o["reason"]].append((c.name, o["scenario"]))
    found = [Unknown(status, reason, places) for (status, reason), places in groups.items()]
    return sorted(found, key=lambda u: -len(u.places))


def pages(folder: Path = PAGES) -> list[Page]:
    """The pages of findings; links between them stay within the report."""
    # Without HTML in Markdown: nothing of a page is ever taken for markup of the report.
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    found = []
    for path in sorted(folder.glob("*.md")):
        if path.name != "README.md":
            text = path.read_text(encoding="utf-8")
            title = text.partition("\n")[0].removeprefix("# ").strip()
            body = markdown.render(text.partition("\n")[2])
            found.append(Page(path.stem, markdown.renderInline(title), body))
    names = {p.name for p in found}
    return [Page(p.name, p.title, _within(p.body, names)) for p in found]


def _within(body: str, names: set[str]) -> str:
    """Links to other findings as links within the report; other relative ones as their words alone."""

    def link(match: re.Match) -> str:
        address, words = match.groups()
        name = address.removesuffix(".md")
        if name in names:
            return f'<a href="#finding-{name}">{words}</a>'
        return match[0] if re.match(r"https?:|#", address) else words

    return re.sub(r'<a href="([^"]*)">(.*?)</a>', link, body, flags=re.DOTALL)


