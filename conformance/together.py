"""Runs many cells side by side on one machine (`nox -s all -- -j 2`).

    nox -s all -- cuda12 --release 0.20.1 -j 2 --driver recording

A process for each cell; what it prints goes to `results/logs/`. On a terminal one line shows how far it is; in a log
there is one line for each cell that is done. What is not known here goes to the cells (`--driver`, `-k`, ...).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from conformance import jobs, matrices
from conformance import run as run_cell
from conformance.candidate import PREFIX
from conformance.errors import SuiteError
from conformance.matrices import Matrices
from conformance.paths import RESULTS, ROOT

# Seconds between two looks at the records that grow.
_EACH = 0.5


@dataclass
class Job:
    """One cell. started and ended: seconds of the monotonic clock, 0 before that; since: of the epoch, as files have it."""

    environment: str
    release: str
    started: float = 0
    ended: float = 0
    since: float = 0
    code: int = 0

    @property
    def name(self) -> str:
        """The cell as people write it."""
        return f"{self.environment}@{self.release}"


@dataclass
class Progress:
    """What is known while cells run."""

    jobs: list[Job]
    at_once: int
    results: Path
    begun: float = field(default_factory=time.monotonic)

    def line(self, now: float) -> str:
        """How many cells are done, which run, how many scenarios these have recorded, how long it may still take."""
        done = [j for j in self.jobs if j.ended]
        running = [j for j in self.jobs if j.started and not j.ended]
        shown = ", ".join(f"{j.name} {self._recorded(j)} scenarios" for j in running)
        failed = sum(bool(j.code) for j in done)
        wrong = f", {failed} not as expected" if failed else ""
        return f"{len(done)} of {len(self.jobs)} cells done{wrong}; {self.left(now)}; running: {shown or 'none'}"

    def left(self, now: float) -> str:
        """The time that is left in words, from what the finished cells took."""
        done = [j for j in self.jobs if j.ended]
        if not done:
            return "time left not known yet"
        each = sum(j.ended - j.started for j in done) / len(done)
        spent = sum(min(now - j.started, each) for j in self.jobs if j.started and not j.ended)
        seconds = (each * (len(self.jobs) - len(done)) - spent) / self.at_once
        return f"about {_words(max(seconds, 0))} left"

    def _recorded(self, job: Job) -> int:
        """Scenarios in the record that a cell has written to since it began; without its header."""
        names = (f"{job.release}.", PREFIX)
        files = [p for p in (self.results / job.environment).glob("*.jsonl") if p.name.startswith(names)]
        grown = [p for p in files if p.stat().st_mtime >= job.since]
        return max(0, *(p.read_bytes().count(b"\n") - 1 for p in grown), 0)


def _words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def cells_of(m: Matrices, names: list[str], releases: list[str]) -> list[Job]:
    """The cells to run, in the order of the matrix."""
    found = jobs.jobs(m, names, releases, "release", {"recording": ""})
    return [Job(job["environment"], job["releases"].removeprefix("--release ")) for job in found]


def run(todo: list[Job], at_once: int, results: Path, arguments: list[str], tell=print) -> int:
    """Run the cells; how many are not as expected. tell: takes a line for each cell that is done."""
    progress = Progress(todo, at_once, results)
    logs = results / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with _shown(progress) as screen, ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(_run, job, logs, results, arguments) for job in todo]
        try:
            for k, future in enumerate(as_completed(waiting), 1):
                job = future.result()
                state = "as expected" if not job.code else f"not as expected: {logs.name}/{job.name}.log"
                screen.clear()
                tell(f"[{k} of {len(todo)}] {job.name}  {_words(job.ended - job.started)}  {state}")
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    return sum(bool(job.code) for job in todo)


def _run(job: Job, logs: Path, results: Path, arguments: list[str]) -> Job:
    job.since, job.started = time.time(), time.monotonic()
    command = [sys.executable, "-m", "conformance.run", job.environment, "--release", job.release, "--results", str(results)]
    with (logs / f"{job.name}.log").open("wb") as log:
        done = subprocess.run([*command, *arguments], check=False, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    job.code, job.ended = done.returncode, time.monotonic()
    return job


class _shown:
    """One line on the terminal that says how far it is; nothing where there is no terminal."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self.terminal = sys.stderr.isatty()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._draw, daemon=True)

    def __enter__(self) -> Self:
        if self.terminal:
            self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        if self.terminal:
            self.thread.join()
            self.clear()

    def clear(self) -> None:
        """Take the line away, so that another one can be printed in its place."""
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        while not self.over.wait(_EACH):
            # Some terminals do not know how wide they are, and say 0.
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            line = self.progress.line(time.monotonic())[: max(width - 1, 20)]
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


class _Forward(argparse.Action):
    """An option with a value that is the cells' own, kept as it was given."""

    def __call__(self, parser, namespace, values, option_string=None):
        namespace.forwarded = [*namespace.forwarded, f"{option_string}={values}" if option_string.startswith("--") else f"{option_string}{values}"]


def parser() -> argparse.ArgumentParser:
    """The options of `nox -s all`; those of a cell are known too, lest their values are taken for environments."""
    p = argparse.ArgumentParser(prog="nox -s all --", description=__doc__.split("\n")[0], epilog="Other options go to pytest, with `=` where they have a value.")
    p.add_argument("names", nargs="*", metavar="ENVIRONMENT", help="environments (a glob is fine) and tags (default: all)")
    p.add_argument("--release", action="append", default=[], help="a numba-cuda release, or `newest` (default: all)")
    p.add_argument("-j", "--jobs", type=int, default=1, help="cells at the same time (default: 1)")
    p.add_argument("--results", type=Path, default=RESULTS, help="where records go (default: results/)")
    p.add_argument("--list", action="store_true", help="print the cells, and run none")
    p.set_defaults(forwarded=[])
    known = {option for action in p._actions for option in action.option_strings}
    cell = p.add_argument_group("each cell's own")
    for action in run_cell.parser()._actions:
        if action.option_strings and not known & set(action.option_strings):
            cell.add_argument(*action.option_strings, action=_Forward, metavar=action.metavar or "...", help=action.help)
    for option in ("-k", "-m", "-n"):
        cell.add_argument(option, action=_Forward, metavar="...", help="pytest's")
    return p


def main(argv: list[str] | None = None) -> int:
    """Run the cells; 0 where all are as expected."""
    options, rest = parser().parse_known_intermixed_args(argv)
    if options.jobs < 1:
        raise SuiteError(f"-j {options.jobs}: at least one cell at a time")
    todo = cells_of(matrices.load(), options.names, options.release)
    if options.list:
        print("\n".join(job.name for job in todo))
        return 0
    arguments = [*options.forwarded, *rest]
    if options.jobs > 1 and not any(a.startswith(("-n", "--numprocesses")) for a in arguments):
        arguments.append("-n0")
    start = time.monotonic()
    failed = run(todo, options.jobs, options.results.resolve(), arguments, lambda line: print(line, flush=True))
    print(f"{len(todo)} cells in {_words(time.monotonic() - start)}, {failed} not as expected; nox -s report shows them")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
