"""Observations as they lie in a file, opened only where somebody looks.

Most observations of two runs are the same but for their times. To see that, their facts are compared as the bytes that
they are, which is an order of magnitude faster than making objects of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from conformance import records
from conformance.records import Run

_NOTHING = msgspec.Raw(b"null")
# With these there may be a difference to tell although both are the same.
_TELLING = ("skipped", "unstable")


class _Facts(msgspec.Struct, gc=False):
    """What `differences.py` looks at, undecoded, and what is needed to find and to time it."""

    kind: str
    scenario: str = ""
    status: str = ""
    outcome: msgspec.Raw = _NOTHING
    expected: msgspec.Raw = _NOTHING
    warnings: msgspec.Raw = _NOTHING
    image: msgspec.Raw = _NOTHING
    reason: msgspec.Raw = _NOTHING
    milliseconds: dict[str, float] | None = None


_decode = msgspec.json.Decoder(_Facts).decode


@dataclass(slots=True)
class Sealed:
    """One observation. facts: None where it must be opened to see anything. known: the times of a kept record."""

    scenario: str
    line: bytes
    facts: _Facts | None
    known: dict

    def open(self) -> dict:
        """The observation, as `records.read` gives it."""
        return records.complete(records.decode(self.line), self.known)

    def same(self, other: Sealed) -> bool:
        """Whether no difference can be told from the other; not where that has to be looked at closely."""
        a, b = self.facts, other.facts
        if a is None or b is None or a.status != b.status or a.status in _TELLING or a.outcome == _NOTHING:
            return False
        alike = a.outcome == b.outcome and a.image == b.image and a.warnings == b.warnings
        return alike and a.expected == b.expected and a.reason == b.reason

    def timed(self) -> dict:
        """The observation's times, and whether it has an image, under the names that an open one has."""
        facts = self.facts
        if facts is None:
            return self.open()
        ms = self.known.get(self.scenario, {}) if facts.milliseconds is None else facts.milliseconds
        return {"milliseconds": ms, "image": facts.image != _NOTHING}


def read(path: Path) -> Run:
    """A record file like `records.read`, with the same checks; its observations are sealed."""
    known = records.times(path)

    def parse(line: bytes) -> tuple[str, object, object]:
        try:
            facts = _decode(line)
        except ValueError:  # not as a run writes it; it may be a record all the same
            facts = None
        if facts is not None and facts.kind == "observation" and facts.scenario and facts.status:
            return facts.kind, facts.status, Sealed(facts.scenario, line, facts, known)
        record = records.decode(line)
        if record["kind"] != "observation":
            return record["kind"], None, record
        return record["kind"], record.get("status"), Sealed(record["scenario"], line, None, known)

    return records.gather(path, parse)
