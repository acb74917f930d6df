"""Records: one file of JSON lines for each environment and release (docs/records.md).

Lines are appended as things happen, so a killed run loses at most the scenario in flight. A file
without a footer comes from a run that did not finish; `read` says so and gives what there is.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from conformance.errors import SuiteError

SCHEMA = 1


class Recorder:
    """Appends records to one file; every line is on its way to the disk before the next scenario."""

    def __init__(self, path: Path, resume: bool = False):
        self.path = path
        self.counts: Counter[str] = Counter()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if resume:
                _cut_unfinished_line(path)
                self.counts.update(o["status"] for o in read(path).observations)
            # Without a buffer: what a full disk refuses must not be tried again when the file is closed.
            self._file = path.open("ab" if resume else "wb", buffering=0)
        except OSError as error:
            raise self._fault(error) from error

    def header(self, **facts) -> None:
        """The first line: where, when and with what the observations are made."""
        self._write({"kind": "header", "schema": SCHEMA, **facts})

    def observation(self, facts: dict) -> None:
        """One scenario's line."""
        self.counts[facts["status"]] += 1
        self._write({"kind": "observation", **facts})

    def footer(self) -> None:
        """The last line: the run is complete."""
        self._write({"kind": "footer", "counts": dict(sorted(self.counts.items()))})
        self._file.close()

    def _write(self, record: dict) -> None:
        # Half a surrogate, which UTF-8 cannot hold, is written as JSON's escape for it.
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise self._fault(error) from error

    def _fault(self, error: OSError) -> SuiteError:
        return SuiteError(
            f"{self.path} cannot be written ({error.strerror}); what it holds already is kept: "
            "make room or choose another folder with --results"
        )


@dataclass(frozen=True)
class Run:
    """What a record file holds. `complete` is false where the footer is missing; `fault` says why a
    line could not be read."""

    path: Path
    header: dict = field(default_factory=dict)
    observations: list[dict] = field(default_factory=list)
    footer: dict | None = None
    fault: str = ""

    @property
    def complete(self) -> bool:
        """Whether the run that wrote the file came to its end."""
        return self.footer is not None and not self.fault


# What a kept record leaves out where it is empty (`evidence.py`).
_EMPTY = {"outcome": None, "expected": None, "evidence": None, "linker": "", "engine": "", "image": None, "reason": ""}


def read(path: Path) -> Run:
    """Read a record file, also one that was cut off; raises SuiteError where there is no file."""
    times = _times(path)
    try:
        # Not splitlines: a message may hold characters that Unicode takes for line ends.
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise SuiteError(f"{path} cannot be read ({error.strerror})") from error
    if not lines[-1]:
        lines.pop()
    header, observations, footer, fault = {}, [], None, ""
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            kind = record["kind"]
        except (ValueError, KeyError, TypeError):
            fault = f"line {number} is not a record; the file was cut off or edited"
            break
        if kind == "header":
            header = record
        elif kind == "observation":
            observations.append(_complete(record, times))
        elif kind == "footer":
            footer = record
    if footer and footer.get("counts") != Counter(o.get("status") for o in observations):
        fault = fault or "the footer counts other observations; the file was edited"
    if header and header.get("schema") != SCHEMA:
        fault = f"schema {header.get('schema')} is not {SCHEMA}: run this environment again"
    return Run(path, header, observations, footer, fault)


def _complete(record: dict, times: dict) -> dict:
    """An observation with every key, whether it is fresh or kept."""
    record = {**_EMPTY, "warnings": [], "milliseconds": times.get(record.get("scenario"), {}), **record}
    if record["outcome"] is not None:
        record["outcome"] = {"type": None, "message": None, "digest": None, **record["outcome"]}
    return record


def _times(path: Path) -> dict:
    """The times of a kept record, by scenario; a fresh one holds its own."""
    try:
        return json.loads(path.with_suffix(".times.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _cut_unfinished_line(path: Path) -> None:
    """Drop a last line without its end, so that what is appended starts on a line of its own."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end != len(data):
        with path.open("r+b") as file:
            file.truncate(end)
