"""docs/faults.md: the two tables that `nox -s faults -- --write` puts between its marks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conformance import matrices, released
from conformance.errors import SuiteError
from conformance.matrices import Matrices
from conformance.paths import ROOT
from conformance.planted import Planted

if TYPE_CHECKING:
    from conformance.catching import Outcome

PAGE = ROOT / "docs" / "faults.md"


def write(faults: list[Planted], outcomes: list[Outcome]) -> None:
    """Put both tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    text = _with(text, "planted", planted_table(faults, outcomes))
    text = _with(text, "released", released_table(matrices.load()))
    PAGE.write_text(text, encoding="utf-8")


def section(text: str, name: str) -> str:
    """What stands between the marks of that name."""
    return _marked(text, name)["table"]


def _with(text: str, name: str, table: str) -> str:
    begin, end = _marked(text, name).span("table")
    return text[:begin] + table + text[end:]


def _marked(text: str, name: str) -> re.Match:
    found = re.search(f"<!-- {name}: .*?-->\n(?P<table>.*?)<!-- end of {name} -->", text, re.DOTALL)
    if not found:
        raise SuiteError(f"{PAGE.name} has lost its marks for {name!r}: `<!-- {name}: ... -->`, `<!-- end of {name} -->`")
    return found


def _table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def planted_table(faults: list[Planted], outcomes: list[Outcome]) -> str:
    """Each planting with what caught it."""
    brings = {f.name: f.brings for f in faults}
    lines, last = [], ""
    for o in outcomes:
        fault = f"**{o.fault}**: {brings[o.fault]}" if o.fault != last else ""
        lines.append([fault, o.cell, _caught(o)])
        last = o.fault
    return _table(["fault", "planted in", "caught by"], lines)


def _caught(o: Outcome) -> str:
    if o.device:
        return f"needs a device: {o.device}"
    if not o.caught_by:
        return "**survives**"
    names = ", ".join(f"`{name}`" for name in o.caught_by[:2])
    return names + (f" and {len(o.caught_by) - 2} more" if len(o.caught_by) > 2 else "")


def released_table(m: Matrices) -> str:
    """Each fault of some releases: what shows it, where, and where it is not."""
    lines = [
        [
            row.reason + (f" ({', '.join(row.cases)})" if row.cases else ""),
            f"`{row.subject}`",
            row.found,
            f"{row.clean} ({'gone' if row.gone else 'not yet there'})",
            f"[{'finding' if row.upstream.startswith('findings/') else 'report'}]({row.upstream})",
        ]
        for row in released.rows(m)
    ]
    return _table(["fault", "shown by", "caught on", "not on", "told in"], lines)
