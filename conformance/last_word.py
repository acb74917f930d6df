"""Which scenario runs and in which phase, on disk, for the case that the process does not live to tell.

A scenario tells each of its phases, so the file stays open and is written over in place: a file made anew each time took
as long as a twelfth of the run.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path


class LastWord:
    """The word that a process leaves. Where it cannot be written the record cannot be either, and that one tells."""

    def __init__(self, path: Path):
        self.path = path
        self._file: int | None = None
        self._width = 0

    def leave(self, scenario: str, phase: str, since: float) -> None:
        """Say that a scenario, which runs since a moment, is in a phase."""
        word = json.dumps({"scenario": scenario, "phase": phase, "since": since}).encode()
        # Spaces over what is left of a longer word.
        self._width = max(self._width, len(word))
        with suppress(OSError):
            os.pwrite(self._opened(), word.ljust(self._width), 0)

    def take_back(self) -> None:
        """Nothing runs any more."""
        if self._file is not None:
            with suppress(OSError):
                os.ftruncate(self._file, 0)

    def end(self) -> None:
        """Nothing will run any more: the file goes."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        return self._file
