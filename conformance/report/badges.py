"""A badge (SVG) for each linker that is to be removed: what the gate says of it."""

from __future__ import annotations

import jinja2

from conformance.report.collect import Report
from conformance.report.page import SYMBOLS, TEMPLATES

_COLOURS = {"removable": "#1a7f37", "blocked": "#c0271c", "not enough evidence": "#7d5a00"}
# Width of a letter of the badge's font on average, and the room at both sides of a text.
_LETTER, _ROOM = 6.6, 10


def badges(report: Report) -> dict[str, str]:
    """The badges by linker."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES, encoding="utf-8"), autoescape=True)
    template = environment.get_template("badge.svg.j2")
    return {d.linker: template.render(**_texts(d.linker, d.verdict)) for d in report.decisions}


def _texts(linker: str, verdict: str) -> dict:
    left, right = f"{linker} linker", f"{SYMBOLS[verdict]} {verdict}"
    widths = [round(len(text) * _LETTER + 2 * _ROOM) for text in (left, right)]
    # Several badges may stand in one document: ids are told apart.
    return {"id": f"badge-{linker}", "left": left, "right": right, "a": widths[0], "b": widths[1], "colour": _COLOURS[verdict]}
