"""The commits of a checkout for `bisect`: a clone that shares its objects, so that nothing of it is touched."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import SuiteError

# What `git bisect log` says at the end.
_FIRST = re.compile(r"^# first bad commit: \[(\w+)\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[(\w+)\]", re.MULTILINE)


@dataclass(frozen=True)
class Commits:
    """A clone to take commits out of; origin: the checkout that the user named."""

    origin: Path
    folder: Path

    def find(self, revision: str) -> str:
        """The whole name of a commit that the user names; raises SuiteError for an unknown one."""
        done = _git(self.origin, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if done.returncode:
            raise SuiteError(f"{self.origin} has no commit {revision!r} (a shallow clone? `git fetch --tags --unshallow`)")
        return done.stdout.strip()

    def check_ancestry(self, good: str, bad: str) -> None:
        """Raise SuiteError unless the good commit lies before the bad one."""
        if good == bad or _git(self.origin, "merge-base", "--is-ancestor", good, bad).returncode:
            raise SuiteError(f"the good commit {good[:12]} is not before the bad one {bad[:12]}")

    def take(self, commit: str) -> tuple[str, str]:
        """Check a commit out: how people write it, and the folder."""
        self._git("checkout", "--quiet", "--force", "--detach", commit)
        return self.name(commit), str(self.folder)

    def name(self, commit: str) -> str:
        """A commit as people write it: from which tag, how many after it."""
        return self._git("describe", "--tags", "--always", "--abbrev=12", "--match", "v[0-9]*", commit)

    def bisect(self, good: str, bad: str, is_bad: Callable[[str, str], bool | None]) -> tuple[str, list[str]]:
        """The first bad commit, with its subject, and those that may be it as well since they could not be asked."""
        self._git("bisect", "start", bad, good)
        while not (ended := self._ended()):
            commit = self._git("rev-parse", "HEAD")
            answer = is_bad(self.name(commit), str(self.folder))
            word = {True: "bad", False: "good", None: "skip"}[answer]
            # Exit code 2: only skipped ones are left, as its log says then.
            self._git("bisect", word, admitted=(0, 2))
        first, *others = ended
        subject = self._git("log", "-1", "--format=%s", first)
        return f"{self.name(first)} ({first}) {subject}", [self.name(c) for c in others]

    def _ended(self) -> list[str]:
        """The first bad commit and those that may be it as well, once git knows them."""
        log = self._git("bisect", "log")
        possible = _POSSIBLE.findall(log)
        known_bad = self._git("rev-parse", "refs/bisect/bad")
        if possible:
            return [known_bad, *(c for c in possible if c != known_bad)]
        return _FIRST.findall(log)

    def _git(self, *arguments: str, admitted: tuple[int, ...] = (0,)) -> str:
        done = _git(self.folder, *arguments)
        if done.returncode not in admitted:
            raise SuiteError(f"git {' '.join(arguments[:2])}: {' '.join((done.stderr or done.stdout).split())[:400]}")
        return done.stdout.strip()


@contextmanager
def clone(checkout: Path) -> Iterator[Commits]:
    """A clone of a checkout for as long as it is wanted; raises SuiteError where there is none to make."""
    with tempfile.TemporaryDirectory(prefix="bisect-") as scratch:
        folder = Path(scratch, "checkout")
        done = _git(checkout, "clone", "--quiet", "--shared", "--no-checkout", ".", str(folder))
        if done.returncode:
            said = " ".join(done.stderr.split())[:300]
            raise SuiteError(f"--numba-cuda {checkout}: commits are looked for in a git checkout only ({said})")
        yield Commits(checkout, folder)


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments],
            check=False, capture_output=True, text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except FileNotFoundError as error:
        raise SuiteError("git is missing: install it") from error
