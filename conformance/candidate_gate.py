"""The gate for your own numba-cuda: runs what no usable record tells, compares with the release before, decides.

    nox -s gate -- --remove ctypes --candidate ../numba-cuda

Three cells for each pair: the old linker at its last release, what replaces it in the candidate, and the same
environment in the release that the candidate descends from (what a pull request changed shows against that one).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections import defaultdict
from pathlib import Path

from conformance import candidate, cells, environments, gate, run
from conformance.candidate import Asked, Candidate
from conformance.differences import differences
from conformance.errors import SuiteError
from conformance.evidence import find
from conformance.gate import Finding, Pair
from conformance.matrices import Matrices
from conformance.model import Environment
from conformance.records import read

# How `gate.unfit` says that a record is of a recording driver; without a device there is nothing better.
_RECORDING = "recording driver"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a gate that runs."""
    parser.add_argument("--environment", action="append", default=[], metavar="NAME", help="only pairs with this environment on a side")
    group = parser.add_argument_group("your own numba-cuda", "run what is missing, then decide")
    group.add_argument("--candidate", metavar="WHAT", help="a checkout, a wheel or a version of numba-cuda")
    group.add_argument("--driver", choices=("auto", "device", "recording"), default="auto")
    group.add_argument("--python", default="", help="the Python version to use, e.g. 3.12")


def chosen(m: Matrices, pairs: list[Pair], names: list[str]) -> list[Pair]:
    """The pairs that have one of the environments on a side; all where no name is given."""
    for name in names:
        m.environment(name)
    found = [p for p in pairs if not names or {p.old.name, p.new.name} & set(names)]
    if not found:
        raise SuiteError(f"no pair has {', '.join(names)}; there are {', '.join(p.name for p in pairs)}")
    return found


def decide(m: Matrices, options: argparse.Namespace) -> tuple[list[Pair], list[Finding]]:
    """Run what is missing, then all that speaks for or against the removal, in the candidate."""
    python = environments.choose_python(m.common.python, options.python)
    asked = [Asked(candidate.NUMBA_CUDA, options.candidate)]
    parts = [candidate.find(one, python) for one in asked]
    base = candidate.base(m, parts)
    known = chosen(m, gate.pairs(m, options.remove), options.environment)
    there = [p for p in known if m.absence(p.new, base) is None]
    if not there:
        why = "; ".join(f"{p.new.name}: {m.absence(p.new, base).reason}" for p in known)
        raise SuiteError(f"nothing that replaces {options.remove} exists at {base.version}: {why}")
    words = candidate.words(asked, options.python)
    subjects = {p.new.name: candidate.settle(m, p.new, base, parts, words, python) for p in there}
    pairs = [dataclasses.replace(p, new_release=subjects[p.new.name].name, candidate=subjects[p.new.name]) for p in there]
    start = time.monotonic()
    ran = _run_missing(m, pairs, options)
    pairs, findings = gate.gate(m, options.remove, options.results, options.strict, pairs)
    findings += [f for pair in pairs for f in since(m, pair, options.results)]
    findings += [_left_out(m, p, base) for p in known if p not in there]
    print(f"{ran} cells run in {time.monotonic() - start:.0f} s\n", file=sys.stderr, flush=True)
    return pairs, findings


def _left_out(m: Matrices, pair: Pair, base) -> Finding:
    text = f"not in the candidate, which is expected to behave as {base.version}: {m.absence(pair.new, base).reason}"
    return Finding("note", pair.name, "pair", text)


# -- what is missing -------------------------------------------------------------------------------


def _run_missing(m: Matrices, pairs: list[Pair], options: argparse.Namespace) -> int:
    """Run every cell without a usable record, each once; how many that were."""
    wanted: dict[tuple[str, str], tuple[Environment, Candidate | None]] = {}
    for pair in pairs:
        wanted[pair.old.name, pair.old_release] = (pair.old, None)
        wanted[pair.new.name, pair.known_release] = (pair.new, None)
        wanted[pair.new.name, pair.new_release] = (pair.new, pair.candidate)
    missing = [
        (environment, release, subject)
        for (_, release), (environment, subject) in wanted.items()
        if not _usable(m, environment, release, subject, options)
    ]
    for environment, release, subject in missing:
        words = ["--numba-cuda", options.candidate] if subject else ["--release", release]
        words += ["--python", options.python] if options.python else []
        # Its exit code says whether it is as expected; that is for the gate to weigh.
        run.main([environment.name, *words, "--driver", options.driver, "--results", str(options.results)])
    return len(missing)


def _usable(m: Matrices, environment: Environment, release: str, subject: Candidate | None, options) -> bool:
    """Whether a record tells what the cell does now, on a device where there is one."""
    path = find(environment.name, release, options.results)
    if path is None:
        return False
    faults = gate.unfit(m, environment, release, read(path), subject)
    if not _has_device(options):
        faults = [f for f in faults if _RECORDING not in f]
    return not faults


def _has_device(options) -> bool:
    return options.driver != "recording" and cells.device(Path(sys.executable)) is not None


# -- what changed since the release before ---------------------------------------------------------


def since(m: Matrices, pair: Pair, results: Path) -> list[Finding]:
    """What the candidate does otherwise than the release that it descends from, in the same environment."""
    paths = [find(pair.new.name, release, results) for release in (pair.known_release, pair.new_release)]
    name = f"{pair.new.name}@{pair.known_release} -> {pair.new.name}@{pair.new_release}"
    if None in paths:
        return [Finding("missing", name, "records", "no records to compare the candidate with")]
    before, now = (read(path) for path in paths)
    if before.header.get("driver") != now.header.get("driver"):
        text = "the candidate and the release before it ran on two drivers: what changed between them is not known"
        return [Finding("missing", name, "driver", text)]
    theirs = {o["scenario"]: o for o in now.observations}
    where: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for mine in before.observations:
        for weight, kind, text in _changes(mine, theirs.get(mine["scenario"])):
            where[weight, kind, text].append(mine["scenario"])
    return [Finding(weight, name, kind, text, scenarios) for (weight, kind, text), scenarios in where.items()]


def _changes(mine: dict, yours: dict | None) -> list[tuple[str, str, str]]:
    """Weight, kind and text of what changed in one scenario; texts and sizes that nobody should depend on are left out."""
    if yours is None:
        return [("missing", "scenario", "not run with the candidate")]
    breaks = "blocks" if mine["profile"] == "core" else "note"
    found = [
        (breaks if d.weight == "breaking" else "note", f"since the release: {d.kind}", d.text)
        for d in differences(mine, yours)
        if d.weight != "cosmetic"
    ]
    if mine["status"] != yours["status"]:
        weight = breaks if yours["status"] in ("differs", "unstable") else "note"
        text = f"{mine['status']} before, {yours['status']} now{': ' + yours['reason'] if yours['reason'] else ''}"
        found.append((weight, "since the release: status", text))
    return found
