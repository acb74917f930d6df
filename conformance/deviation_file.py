"""`matrices/deviations.toml` as a text: its entries in their order, each with its comments, and back.

There is one way to write the file down: what stands before the first entry, then the entries sorted by
scenario and releases, with a heading for each family. So a change of one entry is a change of its lines.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from pydantic import TypeAdapter

from conformance.errors import SuiteError
from conformance.model import Deviation

_START = "[[deviation]]"
_HEADING = re.compile(r"# -- (.*?) -+")
_WIDTH = 100
# The keys in the order in which they are written.
ORDER = (
    "scenario", "apart_from", "expected", "releases", "when", "drivers", "sometimes",
    "outcome", "reason", "upstream", "finding",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One entry: its lines, comments included, and what they say."""

    text: str
    deviation: Deviation

    @property
    def key(self) -> tuple[str, str]:
        """By what the file is sorted."""
        return self.deviation.scenario, self.deviation.releases

    @property
    def family(self) -> str:
        """The heading under which it stands."""
        family = self.deviation.scenario.split("/")[0]
        return "every scenario" if "*" in family else family

    def changed(self, **values) -> Entry:
        """The entry with other values; an empty one takes the key out. Comments stay where they are."""
        lead, start, table = self.text.partition(_START)
        return entry(lead + start + _rewritten(table, values))


@dataclass(frozen=True)
class DeviationFile:
    """The whole file. head: what stands before the first entry; tail: comments after the last."""

    head: str
    entries: list[Entry]
    tail: str = ""

    @property
    def text(self) -> str:
        """The file as it should be."""
        parts, family = [self.head], None
        for one in sorted(self.entries, key=lambda e: e.key):
            if one.family != family:
                family = one.family
                parts.append(f"# -- {family} ".ljust(_WIDTH, "-"))
            parts.append(one.text)
        return "\n\n".join(filter(None, [*parts, self.tail])) + "\n"


def entry(text: str) -> Entry:
    """An entry from its lines; raises SuiteError where they are not one."""
    try:
        [table] = tomllib.loads(text)["deviation"]
        return Entry(text, TypeAdapter(Deviation).validate_json(_json(table)))
    except ValueError as error:  # TOML's and pydantic's
        raise SuiteError(f"deviations.toml: an entry cannot be read ({error}):\n{text}") from error


def _json(table: dict) -> bytes:
    return json.dumps(table, default=str).encode()


def made(**values) -> Entry:
    """A new entry with these values."""
    return entry(_START + _rewritten("\n", values))


def parse(text: str) -> DeviationFile:
    """The file from its text."""
    head, blocks, lead = "", [], []
    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith(_START):
            if not blocks:
                head, lead = _parted(lead)
            comments, block = _without_headings(lead), _block(line, lines)
            blocks.append("\n".join(filter(None, [comments, block])))
            lead = []
        else:
            lead.append(line)
    tail = _without_headings(lead)
    return DeviationFile(head, [entry(b) for b in blocks], tail) if blocks else DeviationFile(tail, [])


def _parted(lines: list[str]) -> tuple[str, list[str]]:
    """The file's own comments, and those right above its first entry."""
    at = len(lines)
    while at and lines[at - 1].strip():
        at -= 1
    return _without_headings(lines[:at]), lines[at:]


def _block(first: str, lines) -> str:
    """An entry's lines: up to an empty one, unless that stands inside a value."""
    block = first
    for line in lines:
        if not line.strip() and _is_toml(block):
            break
        block += "\n" + line
    return block.rstrip()


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _without_headings(lines: list[str]) -> str:
    return "\n".join(line for line in lines if not _HEADING.fullmatch(line)).strip("\n")


def _rewritten(table: str, values: dict) -> str:
    """The lines of a table with some of its values changed, added in their place or taken out."""
    old = tomlkit.parse(table)
    new = tomlkit.document()
    left = {key: value for key, value in values.items() if value}
    for key, item in old.body:
        name = key.key if key else ""
        for other in [o for o in left if name and ORDER.index(o) < ORDER.index(name)]:
            new.add(other, _item(left.pop(other)))
        if name in left:
            new.add(name, _item(left.pop(name)))
        elif name not in values:
            new.add(key, item) if key else new.add(item)
    for other in sorted(left, key=ORDER.index):
        new.add(other, _item(left[other]))
    # tomlkit puts an empty line before a comment that it is given.
    return "\n" + re.sub(r"\n\n+(?=#|\w+ =)", "\n", tomlkit.dumps(new).strip("\n"))


def _item(value):
    """A value as the file writes it: tables on one line, with a space inside their braces; patterns as they are."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{key} = {_item(v).as_string()}" for key, v in value.items())
        return tomlkit.value(f"{{ {pairs} }}")
    if isinstance(value, str) and "\\" in value and not {"'", "\n"} & set(value):
        return tomlkit.string(value, literal=True)
    return tomlkit.item(value)


def read(path: Path) -> DeviationFile:
    """The file at a path; raises SuiteError where there is none."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteError(f"{path} cannot be read ({error.strerror})") from error
