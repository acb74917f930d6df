"""The decision table on real packages: which linker, which warning, which error (`nox -s selection`).

    python -m conformance.decide --release 0.18.1                       run, judge, record, summarise
    python -m conformance.decide --from 0.15.2 --to 0.16.0              what a user with given settings gets
    python -m conformance.decide --names --from 0.15.2 --to 0.16.0      names that downstream projects import

How it is read and corrected: docs/selection.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from conformance import cells, decisions, environments, matrices, overlay, tables
from conformance import driver as recording
from conformance.decisions import Configuration
from conformance.errors import SuiteError
from conformance.expectation import Expectation, differences
from conformance.matrices import Matrices
from conformance.model import Environment, Release, Rule, SelectionDeviation
from conformance.paths import RESULTS, ROOT, cache
from conformance.records import Recorder, read
from conformance.toolchain import find_library

_COMPUTE_CAPABILITY = "9.0"
# What configurations of one server have in common: the packages, and what the loader finds.
_PLACES = ("cuda", "nvjitlink")


@dataclass(frozen=True)
class Judgement:
    """What the rules make of an answer: a status, why, and what was expected."""

    status: str
    reason: str
    expected: Expectation
    effective: tuple[int, ...]


# -- what is expected ------------------------------------------------------------------------------


def deviating(m: Matrices, configuration: Configuration, release: str) -> tuple[Rule, list[int]]:
    """The rule as a release is known to follow it, and the numbers of the deviations that concern it."""
    meant = m.meant(configuration)
    known = [i for i, d in enumerate(m.selection_deviations) if m.covers(d, meant, release)]
    entries = [m.selection_deviations[i] for i in known]
    rule = m.rule(configuration, release, {axis: value for d in entries for axis, value in d.instead.items()})
    for d in entries:
        rule = _overridden(m, rule, d)
    return rule, known


def _overridden(m: Matrices, rule: Rule, d: SelectionDeviation) -> Rule:
    if d.error:
        # Warnings of the linking itself are the rule's own, and come too late.
        own = next(r for r in m.rules if r.id == rule.id).warnings
        early = [w for w in rule.warnings if w not in own]
        rule = replace(rule, linker="", engine="", error=d.error, warnings=early)
    return replace(rule, warnings=[*rule.warnings, *d.warnings])


def judge(m: Matrices, configuration: Configuration, release: str, answer: dict) -> Judgement:
    """Compare an answer with the rules, and with what the release is known to do otherwise."""
    agreed = _expectation(m, m.rule(configuration, release), answer)
    rule, known = deviating(m, configuration, release)
    otherwise = _expectation(m, rule, answer)
    entries = [m.selection_deviations[i] for i in known]
    if agreed == otherwise:
        reasons = differences(answer, agreed)
        return Judgement("differs" if reasons else "conforms", "; ".join(reasons), agreed, ())
    because = "; ".join(f"{d.reason} ({d.upstream})" for d in entries)
    if not differences(answer, otherwise):
        return Judgement("deviates", because, agreed, tuple(known))
    if not differences(answer, agreed):
        stale = f"conforms, although selection-deviations.toml says that it does not ({because})"
        return Judgement("differs", f"{stale}: strike it out or narrow it", agreed, ())
    return Judgement("differs", "; ".join(differences(answer, otherwise)), agreed, ())


def _expectation(m: Matrices, rule: Rule, answer: dict) -> Expectation:
    if rule.error:
        # An error may come before its linker is made or from it: both are this rule's error.
        return Expectation(answer["linker"], "", rule.error, rule.warnings)
    return Expectation(m.linkers[rule.linker].class_name, rule.engine, None, rule.warnings)


# -- asking ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a group of configurations is asked: packages, with or without a driver."""

    release: str
    cuda: str
    nvjitlink: str
    driver: bool

    def environment(self, m: Matrices) -> Environment:
        """The environment with most packages of this CUDA major; what is too much gets hidden."""
        fitting = [e for e in m.environments.values() if e.axes["cuda"] == self.cuda]
        fitting = [e for e in fitting if m.absence(e, m.release(self.release)) is None]
        return max(fitting, key=lambda e: len(e.packages))


def place_of(configuration: Configuration, release: str) -> Place:
    """The place that a configuration is asked at."""
    cuda, nvjitlink = (configuration[axis] for axis in _PLACES)
    return Place(release, cuda, nvjitlink, configuration["driver"] != "none")


def question(m: Matrices, configuration: Configuration, lto: list[str], ltoir: str = "") -> dict:
    """What the probe is asked about a configuration (conformance/probe.py)."""
    d, driver = m.decisions, configuration["driver"]
    version = {} if driver == "none" else {"RECORDING_DRIVER_VERSION": driver}
    return {
        "driver": driver,
        "variables": version | decisions.variables(d, configuration),
        "config": decisions.config(d, configuration),
        "hidden": decisions.hidden(d, configuration),
        "linkers": [linker.class_name for linker in m.linkers.values()],
        "ltoir": ltoir,
        "lto": lto,
    }


def ask(
    m: Matrices, place: Place, configurations: list[Configuration], python: Path, separate: bool
) -> list[dict]:
    """The answers for configurations of one place, in their order."""
    return ask_in(m, prepared(m, place, python), configurations, separate)


def ask_in(
    m: Matrices, where: tuple[Path, dict[str, str], str], configurations: list[Configuration], separate: bool
) -> list[dict]:
    """The same where interpreter, variables and LTO-IR are at hand (`prepared`)."""
    interpreter, variables, ltoir = where
    # One process imports for both values of `lto`, unless each shall have its own from the beginning.
    groups: dict[str, list[Configuration]] = {}
    for c in configurations:
        groups.setdefault(json.dumps(c if separate else c | {"lto": ""}), []).append(c)
    questions = [question(m, group[0], [c["lto"] for c in group], ltoir) for group in groups.values()]
    said = (_separately if separate else _served)(interpreter, variables, questions)
    answers = {
        json.dumps(c): one if "outcome" in one else one[c["lto"]]
        for one, group in zip(said, groups.values(), strict=True)
        for c in group
    }
    return [answers[json.dumps(c)] for c in configurations]


def prepared(m: Matrices, place: Place, python: Path) -> tuple[Path, dict[str, str], str]:
    """Interpreter, environment variables and an LTO-IR file for the processes of a place."""
    environment = place.environment(m)
    interpreter = environments.environment(m.lock(environment, m.release(place.release)), python)
    toolchain = cells.toolchain_folder(environment)
    nvjitlink = find_library(toolchain, "libnvJitLink.so.*")
    interpreter = overlay.with_nvjitlink(interpreter, place.nvjitlink, nvjitlink)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(cells._FOREIGN)}
    clean |= {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    if place.driver:
        clean |= recording.environment(
            recording.build(cache("driver")),
            version=environment.driver, compute_capability=_COMPUTE_CAPABILITY, nvjitlink=nvjitlink,
        )  # fmt: skip
    else:
        clean |= overlay.without_driver()
    return interpreter, clean, str(overlay.ltoir(toolchain, environment.cuda_major, _COMPUTE_CAPABILITY))


def _served(interpreter: Path, variables: dict[str, str], questions: list[dict]) -> list[dict]:
    """One server that forks for each question."""
    lines = "".join(json.dumps(q) + "\n" for q in questions)
    said = _run([interpreter, "-m", "conformance.probe"], lines, variables).splitlines()
    if len(said) != len(questions):
        where = interpreter.parents[1].name
        raise SuiteError(f"the probe in {where} gave {len(said)} of {len(questions)} answers")
    return [json.loads(line) for line in said]


def _separately(interpreter: Path, variables: dict[str, str], questions: list[dict]) -> list[dict]:
    """A process for each question, from its beginning to its end."""
    command = [interpreter, "-m", "conformance.probe", "--separate"]
    return [json.loads(_run(command, json.dumps(q), variables | q["variables"])) for q in questions]


def _run(command: list, given: str, variables: dict[str, str]) -> str:
    done = subprocess.run(command, input=given, env=variables, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SuiteError(f"{' '.join(map(str, command[1:]))} failed: {' '.join(done.stderr.split())[-600:]}")
    return done.stdout


# -- a run -----------------------------------------------------------------------------------------


def run(m: Matrices, releases: list[Release], python: Path, separate: bool, results: Path) -> Counter:
    """Ask and record every configuration of some releases; the statuses' counts."""
    tried = decisions.configurations(m)
    places: dict[Place, list[Configuration]] = {}
    for release in releases:
        for c in tried[release.version]:
            m.rule(c, release.version)  # a fault of the table is told before anything is asked
            places.setdefault(place_of(c, release.version), []).append(c)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {place: pool.submit(ask, m, place, cs, python, separate) for place, cs in places.items()}
        names = {r.version: pool.submit(_names, m, r, python) for r in releases}
        answers = {
            (place.release, json.dumps(c)): answer
            for place, cs in places.items()
            for c, answer in zip(cs, jobs[place].result(), strict=True)
        }
    total: Counter = Counter()
    for release in releases:
        said = {key: answers[release.version, key] for key in map(json.dumps, tried[release.version])}
        total += _record(m, release, said, names[release.version].result(), results)
    return total


def _names(m: Matrices, release: Release, python: Path) -> dict[str, str]:
    """The names that a release's driver module has, with the NVIDIA binding."""
    usual = m.decisions.usual
    interpreter, variables, _ = prepared(m, place_of(usual, release.version), python)
    [said] = _served(interpreter, variables, [question(m, usual, []) | {"names": True}])
    return said["names"]


def _record(
    m: Matrices, release: Release, answers: dict[str, dict], names: dict[str, str], results: Path
) -> Counter:
    """Judge and write down the answers of a release; the statuses' counts, and `_stale` deviations."""
    recorder = Recorder(file_of(results, release.version))
    recorder.header(
        environment="selection", release=release.version, driver={"kind": "recording", "version": ""},
        device=None, names=names, source=cells.source_revision(),
    )  # fmt: skip
    effective = set()
    for key, answer in answers.items():
        configuration = json.loads(key)
        judged = judge(m, configuration, release.version, answer)
        effective |= set(judged.effective)
        title = decisions.title(m.decisions, configuration)
        recorder.observation({
            "scenario": f"selection/{title}", "profile": "core", "status": judged.status, **answer,
            "evidence": "selected", "expected": judged.expected.to_json(), "reason": judged.reason,
            "configuration": configuration, "image": None, "milliseconds": {},
        })  # fmt: skip
        if judged.status == "differs":
            print(f"{release.version}  {title}\n    {judged.reason}")
    recorder.footer()
    whole = sum(recorder.counts.values())
    print(f"{release.version}  {whole} configurations: {tables.counts(recorder.counts)}", flush=True)
    return recorder.counts + Counter(_stale=_report_idle(m, release, effective))


def _report_idle(m: Matrices, release: Release, effective: set[int]) -> int:
    """Deviations that claim a release and that none of its configurations shows."""
    idle = [
        d
        for i, d in enumerate(m.selection_deviations)
        if matrices.within(release.version, d.releases) and i not in effective
    ]
    for d in idle:
        where = f"{release.version}  selection-deviations.toml"
        print(f"{where}: no configuration shows {d.reason!r}: strike it out or narrow it")
    return len(idle)


def file_of(results: Path, release: str) -> Path:
    """The record of a release."""
    return results / "selection" / f"{release}.jsonl"


# -- the command -----------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The options of `nox -s selection`."""
    p = argparse.ArgumentParser(prog="nox -s selection --", description=__doc__.split("\n")[0])
    p.add_argument("--release", action="append", default=[], help="a numba-cuda release (default: all)")
    p.add_argument("--table", action="store_true", help="print what every configuration gets, too")
    p.add_argument("--from", dest="before", default="", help="with --to: what changed between two releases")
    p.add_argument("--to", dest="after", default="")
    p.add_argument("--names", action="store_true", help="with --from and --to: names of the driver module")
    p.add_argument("--format", choices=("terminal", "markdown"), default="terminal")
    p.add_argument("--separate", action="store_true", help="a whole process for each configuration (slow)")
    p.add_argument("--python", default="", help="the Python version to use, e.g. 3.12")
    p.add_argument("--results", type=Path, default=RESULTS, help="where records go (default: results/)")
    return p


def main(argv: list[str] | None = None) -> int:
    """0 where all is as expected; with --from and --to, once the table is printed."""
    options = parser().parse_args(argv)
    m = matrices.load()
    if bool(options.before) != bool(options.after):
        raise SuiteError("--from and --to belong together")
    if options.names and not options.before:
        raise SuiteError("--names wants --from and --to")
    python = environments.choose_python(m.common.python, options.python)
    if options.before:
        return _compare(m, options, python)
    start = time.monotonic()
    releases = [m.release(v) for v in options.release] or m.releases
    counts = run(m, releases, python, options.separate, options.results)
    print(f"all  {tables.counts(counts)}, {time.monotonic() - start:.0f} s")
    if options.table:
        for release in releases:
            print(tables.table(m, _records(options, release.version), options.format))
    return 1 if counts["differs"] or counts["_stale"] else 0


def _compare(m: Matrices, options: argparse.Namespace, python: Path) -> int:
    """Print what changed between two releases; what was not run yet is run first."""
    versions = [m.release(v).version for v in (options.before, options.after)]
    for version in versions:
        path = file_of(options.results, version)
        if not path.exists() or not read(path).complete:
            run(m, [m.release(version)], python, options.separate, options.results)
    before, after = (_records(options, version) for version in versions)
    show = tables.names if options.names else tables.changes
    print(show(m, before, after, options.format))
    return 0


def _records(options: argparse.Namespace, version: str):
    return read(file_of(options.results, version))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
