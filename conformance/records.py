"""Records: one file of JSON lines for each environment and release (docs/records.md).

Lines are appended as things happen, so a killed run loses at most the scenario in flight. A file
without a footer comes from a run that did not finish; `read` says so and gives what there is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from conformance.errors import SuiteError

try:  # what reads records has it, three times as fast; the environments of cells need not
    from msgspec.json import decode as _decode
except ImportError:
    _decode = json.loads

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
    known = times(path)

    def parse(line: bytes) -> tuple[str, object, dict]:
        record = decode(line)
        kind = record["kind"]
        return kind, record.get("status"), complete(record, known) if kind == "observation" else record

    return gather(path, parse)


def header(path: Path) -> dict:
    """The header alone; empty where the first line is none."""
    with _opened(path) as file:
        try:
            record = decode(file.readline())
            return record if record["kind"] == "header" else {}
        except (ValueError, KeyError, TypeError):
            return {}


def gather(path: Path, parse: Callable[[bytes], tuple[str, object, object]]) -> Run:
    """What a record file holds, line by line.

    parse: gives a line's kind, its status and what is kept of it; raises ValueError, KeyError or TypeError.
    """
    ends, observations, counts, fault = {}, [], Counter(), ""
    with _opened(path) as file:
        # Lines of bytes end at line feeds only: a message may hold characters that Unicode takes for line ends.
        for number, line in enumerate(file, 1):
            try:
                kind, status, record = parse(line)
                if kind == "observation":
                    counts[status] += 1
                    observations.append(record)
                else:
                    ends[kind] = record
            except (ValueError, KeyError, TypeError):
                fault = f"line {number} is not a record; the file was cut off or edited"
                break
    first, last = ends.get("header", {}), ends.get("footer")
    if last and last.get("counts") != counts:
        fault = fault or "the footer counts other observations; the file was edited"
    if first and first.get("schema") != SCHEMA:
        fault = f"schema {first.get('schema')} is not {SCHEMA}: run this environment again"
    return Run(path, first, observations, last, fault)


@contextmanager
def _opened(path: Path):
    try:
        with path.open("rb", buffering=1 << 20) as file:
            yield file
    except OSError as error:
        raise SuiteError(f"{path} cannot be read ({error.strerror})") from error


def decode(line: bytes) -> dict:
    """A line as it was written; raises ValueError where it is no JSON."""
    try:
        return _decode(line)
    except ValueError:  # half a surrogate or a damaged character: Python's own decoder takes more
        return json.loads(line.decode("utf-8", "replace"))


def complete(record: dict, known: dict) -> dict:
    """An observation with every key, whether it is fresh or kept. known: the times of kept ones."""
    record = {**_EMPTY, "warnings": [], "milliseconds": known.get(record.get("scenario"), {}), **record}
    if record["outcome"] is not None:
        record["outcome"] = {"type": None, "message": None, "digest": None, **record["outcome"]}
    return record


def times(path: Path) -> dict:
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
