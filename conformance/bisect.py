"""Which release, or which commit, was the first to do something else? (`nox -s bisect`)

    nox -s bisect -- --environment cuda12-nvidia --scenario ID --good 0.16.0 --bad 0.22.2
    nox -s bisect -- --environment cuda12-nvidia --scenario ID --good v0.28.2 --bad main --numba-cuda ../numba-cuda

Looks at all published releases between the two, known to the matrices or not, or with a checkout at all commits (in a
clone of its own, driven by `git bisect`). What cannot be installed or built is skipped. Whatever differs from the good
one in more than texts and sizes is bad.

Exit codes: 0 the first is known, 2 it may be one of those that were skipped right before it.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from conformance import bisect_commits, candidate, environments, history, matrices, registry, trial
from conformance.candidate import NUMBA_CUDA, Asked
from conformance.differences import differences
from conformance.errors import SuiteError
from conformance.matrices import Matrices
from conformance.model import Environment, Release
from conformance.paths import RESULTS
from conformance.planted import Spot
from conformance.scenario import select as select_scenarios
from conformance.selectors import Place


@dataclass
class Question:
    """What is asked of each release or commit: what one scenario does in one environment.

    folder: for the records, laid out as results are. good: what the good one did, once it was asked.
    """

    m: Matrices
    environment: Environment
    scenario: str
    python: Path
    driver: str
    folder: Path
    good: dict | None = None

    def is_bad(self, name: str, what: str = "") -> bool:
        """Whether it differs from the good one, which is asked first; raises SuiteError where it cannot be asked.

        what: a version or a folder, where that is not its name.
        """
        seen = self._observe(name, what or name)
        self.good = self.good or seen
        changed = [d for d in differences(self.good, seen) if d.weight != "cosmetic"]
        line = history.line(Place(self.environment.name, name, Path()), seen, changed)
        print(f"{'bad ' if changed else 'good'}{line}", flush=True)
        return bool(changed)

    def is_bad_if_known(self, name: str, what: str = "") -> bool | None:
        """The same; None, and a word on it, where it cannot be asked."""
        try:
            return self.is_bad(name, what)
        except SuiteError as error:
            print(f"skip  {name:<8} {error}", flush=True)
            return None

    def settle_ends(self, is_bad: Callable[[str], bool], good: str, bad: str) -> None:
        """Ask both ends; raises SuiteError where there is nothing between them to find."""
        is_bad(good)
        if not is_bad(bad):
            why = f" (skipped: {self.good['reason']})" if self.good["status"] == "skipped" else ""
            raise SuiteError(f"{self.scenario} in {self.environment.name}: {bad} does what {good} does{why}, nothing is to be found")

    def _observe(self, name: str, what: str) -> dict:
        part = candidate.find(Asked(NUMBA_CUDA, what), self.python)
        known = candidate.base(self.m, [part])
        # What a release between two known ones is expected to do goes by its own version.
        release = known if part.kind == "checkout" else dataclasses.replace(known, version=part.version)
        self._check_existence(release)
        words = candidate.words([Asked(NUMBA_CUDA, what)])
        subject = candidate.settle(self.m, self.environment, known, [part], words, self.python)
        interpreter = environments.environment(subject.lock, self.python)
        spot = Spot(f"{self.environment.name}@{name}", release, self.environment)
        path = self.folder / self.environment.name / f"{name}.jsonl"
        return trial.kept(self.m, spot, interpreter, [self.scenario], path, kind=self.driver, subject=subject)[self.scenario]

    def _check_existence(self, release: Release) -> None:
        refusal = self.m.absence(self.environment, release)
        if refusal:
            raise SuiteError(f"{self.environment.name} does not exist at {release.version}: {refusal.reason} ({refusal.source})")


@dataclass(frozen=True)
class Answer:
    """The first that differs, and those right before it that could not be asked."""

    first: str
    skipped: list[str]


def between(good: str, bad: str, python: Path) -> list[str]:
    """The published releases from the good to the bad one, oldest first, both included."""
    for option, value in (("--good", good), ("--bad", bad)):
        try:
            Version(value)
        except InvalidVersion:
            raise SuiteError(f"{option} {value!r} is no version (0.16.0); commits are for --numba-cuda CHECKOUT") from None
    if Version(good) >= Version(bad):
        raise SuiteError(f"--good {good} is not older than --bad {bad}")
    return [good, *registry.versions(NUMBA_CUDA, python, above=good, below=bad), bad]


def search(names: list[str], is_bad: Callable[[str], bool | None]) -> Answer:
    """The first bad one of names whose first is good and whose last is bad; what answers None is left out."""
    low, high = 0, len(names) - 1
    skipped: set[int] = set()
    while left := [i for i in range(low + 1, high) if i not in skipped]:
        middle = min(left, key=lambda i: abs(2 * i - low - high))
        answer = is_bad(names[middle])
        if answer is None:
            skipped.add(middle)
        elif answer:
            high = middle
        else:
            low = middle
    return Answer(names[high], names[low + 1 : high])


def of_releases(question: Question, good: str, bad: str) -> Answer:
    """The first published release that differs."""
    names = between(good, bad, question.python)
    print(f"{len(names) - 2} releases are published between {good} and {bad}", flush=True)
    question.settle_ends(question.is_bad, good, bad)
    return search(names, question.is_bad_if_known)


def of_commits(question: Question, checkout: Path, good: str, bad: str) -> Answer:
    """The first commit of a checkout that differs."""
    with bisect_commits.clone(checkout) as commits:
        ends = [commits.find(rev) for rev in (good, bad)]
        commits.check_ancestry(*ends)
        question.settle_ends(lambda commit: question.is_bad(*commits.take(commit)), *ends)
        return Answer(*commits.bisect(*ends, question.is_bad_if_known))


def parser() -> argparse.ArgumentParser:
    """The options of `nox -s bisect`."""
    p = argparse.ArgumentParser(prog="nox -s bisect --", description=__doc__.split("\n")[0])
    p.add_argument("--environment", required=True, metavar="NAME", help="where the scenario runs")
    p.add_argument("--scenario", required=True, metavar="ID", help="a scenario's whole id")
    p.add_argument("--good", required=True, metavar="RELEASE", help="a release, or a commit, before the change")
    p.add_argument("--bad", required=True, metavar="RELEASE", help="one after it")
    p.add_argument("--numba-cuda", type=Path, metavar="CHECKOUT", help="look at its commits, not at published releases")
    p.add_argument("--driver", choices=("auto", "device", "recording"), default="auto")
    p.add_argument("--python", default="", help="the Python version to use, e.g. 3.12")
    p.add_argument("--results", type=Path, default=RESULTS, help="where records go, into bisect/ (default: results/)")
    return p


def main(argv: list[str] | None = None) -> int:
    """Find the first, printing every step."""
    options = parser().parse_args(argv)
    select_scenarios([options.scenario])
    m = matrices.load()
    folder = options.results.resolve() / "bisect" / options.scenario.replace("/", "-")
    question = Question(
        m, m.environment(options.environment), options.scenario,
        environments.choose_python(m.common.python, options.python), options.driver, folder,
    )  # fmt: skip
    if options.numba_cuda:
        answer = of_commits(question, options.numba_cuda, options.good, options.bad)
    else:
        answer = of_releases(question, options.good, options.bad)
    print(f"\nfirst bad: {answer.first}")
    if answer.skipped:
        print(f"or one of those before it that were skipped: {', '.join(answer.skipped)}")
    print(f"records: {folder}")
    return 2 if answer.skipped else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
