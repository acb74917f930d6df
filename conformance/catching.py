"""Planted faults: does the suite catch what a change of a linker could bring? (`nox -s faults`)

    python -m conformance.catching                        plant all, and say which scenario caught each
    python -m conformance.catching max-registers-dropped  one, or those that a glob names
    python -m conformance.catching --list                 what is planted
    python -m conformance.catching --released             faults of released versions, where they are and where not
    python -m conformance.catching --write                all of it, into docs/faults.md

Each fault is planted in a copy of an environment, and what concerns it runs on the recording driver. It is
caught where something that names the matter differs, and nothing does in the same environment without it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conformance import decide, decisions, environments, faultpage, matrices, planted, planting, released, trial
from conformance.errors import SuiteError
from conformance.matrices import Matrices
from conformance.paths import cache
from conformance.planted import Planted, Spot

_WRONG = ("differs", "unstable")


@dataclass(frozen=True)
class Outcome:
    """What became of a fault in one cell.

    caught_by: ids of what differed and names the matter; others: of what differed beside it; device: why
    only a device could show it, which no run here is asked for.
    """

    fault: str
    cell: str
    caught_by: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    device: str = ""

    @property
    def survives(self) -> bool:
        """Whether nothing that names the matter noticed the fault."""
        return not self.caught_by and not self.device


@dataclass(frozen=True)
class Workshop:
    """What all runs share: the matrices, the interpreter to build environments with, a folder of copies."""

    m: Matrices
    python: Path
    folder: Path


@contextmanager
def workshop(m: Matrices, python: Path) -> Iterator[Workshop]:
    """A workshop whose folder is gone in the end; beside the environments, since hard links need one disk."""
    parent = cache("planted")
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield Workshop(m, python, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- running -----------------------------------------------------------------------------------------


class Bench:
    """One spot: its copy of the environment as it is, in which the same runs must be clean."""

    def __init__(self, shop: Workshop, spot: Spot):
        self.shop = shop
        self.spot = spot
        self.folder = shop.folder / spot.name

    def unfit(self, faults: list[Planted]) -> list[str]:
        """Which faults cannot be planted here, and why: whose text is not in the package."""
        m, spot = self.shop.m, self.spot
        of = spot.environment or decide.place_of(m.decisions.usual, spot.release.version).environment(m)
        built = environments.environment(m.lock(of, spot.release), self.shop.python)
        return [what for f in faults for what in planting.faults_of(f, built, spot.name)]

    def control(self, faults: list[Planted]) -> list[str]:
        """Run all that concerns the faults without any; what is wrong already, with the reason."""
        seen = self._observe(self.folder / "control", faults, None)
        return [f"{name}: {o['reason']}" for name, o in seen.items() if o["status"] in _WRONG]

    def plant(self, fault: Planted) -> Outcome:
        """Plant one fault and run what concerns it."""
        folder = self.folder / fault.name
        try:
            seen = self._observe(folder, [fault], fault)
        except SuiteError as error:
            raise SuiteError(f"{fault.name}: {error}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        wrong = [name for name, o in seen.items() if o["status"] in _WRONG]
        caught = tuple(name for name in wrong if fault.names(name))
        return Outcome(fault.name, self.spot.name, caught, tuple(name for name in wrong if name not in caught))

    def _observe(self, folder: Path, faults: list[Planted], fault: Planted | None) -> dict[str, dict]:
        folder.mkdir(parents=True)
        if self.spot.is_selection:
            words = dict.fromkeys(w for f in faults for w in f.selection)
            return self._ask(folder, list(words), fault)
        return self._run(folder, list(dict.fromkeys(i for f in faults for i in f.ids)), fault)

    def _copy(self, interpreter: Path, folder: Path, name: str, fault: Planted | None) -> Path:
        """A copy of an environment with the fault in it, made of the control's: that has compiled its modules."""
        clean = self.folder / "control" / name
        if fault and clean.exists():
            interpreter = clean / "bin" / "python"
        made = planting.copy(interpreter, folder / name)
        if fault:
            planting.in_environment(fault, made)
        return made

    def _run(self, folder: Path, ids: list[str], fault: Planted | None) -> dict[str, dict]:
        m, spot = self.shop.m, self.spot
        built = environments.environment(m.lock(spot.environment, spot.release), self.shop.python)
        interpreter = self._copy(built, folder, "environment", fault)
        driver = planting.in_driver(fault, folder / "driver") if fault else None
        return trial.scenarios(m, spot, interpreter, ids, folder, driver)

    def _ask(self, folder: Path, words: list[str], fault: Planted | None) -> dict[str, dict]:
        m, version = self.shop.m, self.spot.release.version
        wanted = [decisions.parse(m.decisions, w) for w in words]
        seen = {}
        for place, configurations in trial.places(m, self.spot, wanted).items():
            interpreter, *rest = decide.prepared(m, place, self.shop.python)
            name = f"{place.cuda}-{place.nvjitlink}-{'driver' if place.driver else 'none'}"
            interpreter = self._copy(interpreter, folder, name, fault)
            seen |= trial.table(m, version, (interpreter, *rest), configurations)
        return seen


# -- all faults --------------------------------------------------------------------------------------


def catch_all(shop: Workshop, faults: list[Planted], told=print) -> list[Outcome]:
    """Plant the faults, cell by cell; their outcomes, in the faults' order.

    Raises SuiteError where a text to replace is not there, or where a cell is not clean without any fault.
    """
    benches = {name: Bench(shop, planted.spot(shop.m, name)) for f in faults for name in f.cells}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        unfit = pool.map(lambda b: b.unfit([f for f in faults if b.spot.name in f.cells]), benches.values())
        _refuse("these faults cannot be planted", unfit)
        wrong = pool.map(lambda b: _control(b, _in(faults, b.spot.name)), benches.values())
        _refuse("without any fault these differ, so nothing can be said", wrong)
        jobs = [pool.submit(_outcome, benches[cell], f, told) for f in faults for cell in f.cells]
        return [job.result() for job in jobs]


def _refuse(why: str, found: Iterable[list[str]]) -> None:
    lines = [line for one in found for line in one]
    if lines:
        raise SuiteError(f"{why}:\n  " + "\n  ".join(lines))


def _in(faults: list[Planted], cell: str) -> list[Planted]:
    return [f for f in faults if cell in f.cells and not f.needs]


def _control(bench: Bench, faults: list[Planted]) -> list[str]:
    return [f"{bench.spot.name}: {line}" for line in bench.control(faults)] if faults else []


def _outcome(bench: Bench, fault: Planted, told) -> Outcome:
    if fault.needs:
        return Outcome(fault.name, bench.spot.name, device=fault.reason)
    start = time.monotonic()
    outcome = bench.plant(fault)
    told(f"{'SURVIVES' if outcome.survives else 'caught'}  {time.monotonic() - start:4.1f} s  {line(outcome)}")
    return outcome


def line(o: Outcome) -> str:
    """An outcome in a line."""
    if o.device:
        what = f"needs a device: {o.device}"
    elif o.caught_by:
        what = f"{o.caught_by[0]}{f' and {len(o.caught_by) - 1} more' if len(o.caught_by) > 1 else ''}"
    else:
        what = f"nothing that names it; differs: {', '.join(o.others[:3]) or 'nothing'}"
    return f"{o.fault}  {o.cell}  {what}"


# -- the command -------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The options of `nox -s faults`."""
    p = argparse.ArgumentParser(prog="nox -s faults --", description=__doc__.split("\n")[0])
    p.add_argument("names", nargs="*", help="planted faults, globs allowed (default: all)")
    p.add_argument("--list", action="store_true", help="say what is planted, and run nothing")
    p.add_argument("--released", action="store_true", help="faults of released versions instead, in cells with and without")
    p.add_argument("--write", action="store_true", help="plant all and check all released ones, and write docs/faults.md")
    p.add_argument("--python", default="", help="the Python version to use, e.g. 3.12")
    return p


def main(argv: list[str] | None = None) -> int:
    """0 where every fault is caught, 1 where one survives."""
    options = parser().parse_args(argv)
    if options.write and (options.names or options.released):
        raise SuiteError("--write is about all faults: give no names, and no --released")
    m = matrices.load()
    faults = planted.choose(planted.load(), options.names)
    if options.list:
        for f in faults:
            print(f"{f.name}\n    {f.brings}\n    {', '.join(f.cells)}")
        return 0
    python = environments.choose_python(m.common.python, options.python)
    start = time.monotonic()
    survivors: list[str] = []
    with workshop(m, python) as shop:
        outcomes = [] if options.released else catch_all(shop, faults, lambda text: print(text, flush=True))
        if options.released or options.write:
            survivors += released.check(m, python, shop.folder / "released", lambda text: print(text, flush=True))
    survivors += [line(o) for o in outcomes if o.survives]
    if options.write:
        faultpage.write(faults, outcomes)
    _sum_up(outcomes, time.monotonic() - start)
    return 1 if survivors else 0


def _sum_up(outcomes: list[Outcome], seconds: float) -> None:
    survivors = [o for o in outcomes if o.survives]
    waiting = [o for o in outcomes if o.device]
    if outcomes:
        faults = len({o.fault for o in outcomes})
        counts = f"{len(outcomes) - len(survivors) - len(waiting)} caught, {len(survivors)} survive"
        print(f"{faults} faults in {len(outcomes)} plantings: {counts}, {len(waiting)} need a device; {seconds:.0f} s")
    for o in survivors:
        print(f"survives: {line(o)}: a scenario is missing, or `caught_by` in {planted.FILE} names another matter")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
