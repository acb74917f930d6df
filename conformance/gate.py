"""May a linker be removed? (`nox -s gate -- --remove LINKER`)

    python -m conformance.gate --remove ctypes; echo $?
    python -m conformance.gate --remove ctypes --candidate ../numba-cuda      run what is missing, with your own first

Exit codes: 0 removable, 1 blocked, 2 not enough evidence.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conformance import cells, environments, matrices
from conformance.candidate import Candidate
from conformance.differences import differences
from conformance.errors import SuiteError
from conformance.evidence import find
from conformance.matrices import Matrices, within
from conformance.model import Accepted, Environment
from conformance.paths import RESULTS
from conformance.records import Run, read

VERDICTS = ("removable", "blocked", "not enough evidence")


@dataclass
class Finding:
    """One thing that speaks against the removal, or would.

    weight: `blocks`, `missing` (evidence), `accepted` (by maintainers), `note` (does not block).
    scenarios: whom it concerns. command: what gives the evidence that is missing.
    """

    weight: str
    cell: str
    kind: str
    text: str
    scenarios: list[str] = field(default_factory=list)
    command: str = ""


@dataclass(frozen=True)
class Pair:
    """An environment that has the old linker, and the one that replaces it.

    new_release: a release, or a candidate's name where `candidate` is there.
    """

    old: Environment
    old_release: str
    new: Environment
    new_release: str
    candidate: Candidate | None = None

    @property
    def known_release(self) -> str:
        """The release whose rules hold for the new side."""
        return self.candidate.base.version if self.candidate else self.new_release

    @property
    def name(self) -> str:
        """Both cells, as people write them."""
        return f"{self.old.name}@{self.old_release} -> {self.new.name}@{self.new_release}"


def verdict(findings: list[Finding]) -> str:
    """The decision: what blocks outweighs what is missing."""
    weights = {f.weight for f in findings}
    return VERDICTS[1] if "blocks" in weights else VERDICTS[2] if "missing" in weights else VERDICTS[0]


def gate(
    m: Matrices, linker: str, results: Path, strict: bool = False, found_pairs: list[Pair] | None = None
) -> tuple[list[Pair], list[Finding]]:
    """Everything that speaks for or against removing a linker, from the records in a folder.

    found_pairs: those to look at, where it is not all that the matrices have.
    """
    if linker not in m.linkers:
        raise SuiteError(f"no linker is called {linker!r}; known: {', '.join(m.linkers)}")
    if not m.linkers[linker].replaced_by:
        raise SuiteError(f"{linker} is not to be removed: linkers.toml names nothing that replaces it")
    found_pairs = pairs(m, linker) if found_pairs is None else found_pairs
    findings = [f for pair in found_pairs for f in _judge(m, pair, results)]
    accepted = [] if strict else [a for a in m.accepted if a.linker == linker]
    return found_pairs, _accept(findings, accepted, found_pairs)


def pairs(m: Matrices, linker: str) -> list[Pair]:
    """For each environment that has the linker: the last release that does, and the newest of what replaces it."""
    found = []
    for environment in m.environments.values():
        has = [
            r.version
            for r in m.releases_of(environment)
            if cells.expected(m, environment, r.version).linker == linker
        ]
        if has:
            new = _replacement(m, linker, environment)
            found.append(Pair(environment, has[-1], new, m.releases_of(new)[-1].version))
    return found


def _replacement(m: Matrices, linker: str, environment: Environment) -> Environment:
    axes = {**environment.axes, **m.linkers[linker].replacement}
    return next(e for e in m.environments.values() if e.axes == axes)


# -- the evidence ----------------------------------------------------------------------------------


def _judge(m: Matrices, pair: Pair, results: Path) -> list[Finding]:
    sides = [(pair.old, pair.old_release), (pair.new, pair.new_release)]
    runs, findings = [], _untold(m, pair)
    for environment, release in sides:
        run, lacks = _evidence(m, pair, environment, release, results)
        runs.append(run)
        findings += lacks
    if all(runs):
        findings += _same_device(pair, *runs)
        findings += _scenarios(pair, *runs)
    return findings


def _untold(m: Matrices, pair: Pair) -> list[Finding]:
    """Settings of the old environment's users that the new release ignores without telling them.

    The decision table knows: what the rules ask for, and in whose place the release puts something else.
    """
    configuration = m.configuration({**pair.old.axes, "cuda": pair.new.axes["cuda"]})
    meant, release = m.meant(configuration), pair.known_release
    agreed = m.rule(configuration, release)
    ignored = [d for d in m.selection_deviations if d.instead and m.covers(d, meant, release)]
    untold = [d for d in ignored if m.rule(configuration, release, d.instead).warnings != agreed.warnings]
    return [Finding("blocks", pair.name, "settings", f"{d.reason} ({d.upstream})") for d in untold]


def _evidence(m: Matrices, pair: Pair, environment: Environment, release: str, results: Path):
    """The records of one side, and what is wrong with them as evidence, or where they are kept."""

    def missing(text: str) -> Finding:
        name = f"{environment.name}@{release}"
        return Finding("missing", name, "records", text, command=_command(environment.name, release, subject))

    subject = pair.candidate if release == pair.new_release else None

    path = find(environment.name, release, results)
    if path is None:
        return None, [missing("was never run")]
    run = read(path)
    return run, [*_kept(path, environment, release, results), *(missing(text) for text in unfit(m, environment, release, run, subject))]


def _kept(path: Path, environment: Environment, release: str, results: Path) -> list[Finding]:
    """A note where the record is a kept one: whoever asks has not seen it happen."""
    if path.is_relative_to(results):
        return []
    text = f"kept in evidence/{path.parent.parent.name}, for {results.name}/ has no device's record"
    return [Finding("note", f"{environment.name}@{release}", "records", text)]


def unfit(
    m: Matrices, environment: Environment, release: str, run: Run, candidate: Candidate | None = None
) -> list[str]:
    """Why a record is no evidence of what an environment does at a release today; empty where it is."""
    lock = environments.digest(candidate.lock if candidate else m.lock(environment, m.release(release)))
    faults = {
        f"is damaged: {run.fault}": bool(run.fault),
        "did not run to its end (no footer)": not run.complete and not run.fault,
        "ran on a recording driver: nothing was launched": (run.header.get("driver") or {}).get("kind") != "device",
        "is stale: its packages are of another lock": not str(run.header.get("lock")).endswith(f"@{lock}"),
        "is stale: it was recorded with other scenarios": run.header.get("suite") != cells.suite_digest(),
    }
    return [text for text, holds in faults.items() if holds]


def _command(environment: str, release: str, candidate: Candidate | None = None) -> str:
    what = candidate.words if candidate else f"--release {release}"
    return f"nox -s {environment} -- {what} --driver device"


def _same_device(pair: Pair, old: Run, new: Run) -> list[Finding]:
    devices = [run.header.get("device") for run in (old, new)]
    if devices[0] == devices[1]:
        return []
    text = f"two kinds of device: {devices[0]} and {devices[1]}"
    return [Finding("missing", pair.name, "device", text, command=_command(pair.new.name, pair.new_release, pair.candidate))]


def _scenarios(pair: Pair, old: Run, new: Run) -> list[Finding]:
    """What the new linker does with every scenario that the old one passes; the same words once."""
    theirs = {o["scenario"]: o for o in new.observations}
    where: dict[tuple, list[str]] = defaultdict(list)
    for mine in old.observations:
        if mine["status"] == "conforms":
            for weight, kind, text in _against(mine, theirs.get(mine["scenario"])):
                weight = weight if mine["profile"] == "core" else "note"
                where[weight, kind, text].append(mine["scenario"])
    command = _command(pair.new.name, pair.new_release, pair.candidate)
    return [
        Finding(weight, pair.name, kind, text, scenarios, command if weight == "missing" else "")
        for (weight, kind, text), scenarios in where.items()
    ]


def _against(mine: dict, yours: dict | None) -> list[tuple[str, str, str]]:
    """What speaks against the new linker in one scenario: weight, kind, text."""
    if yours is None:
        return [("missing", "scenario", "not run with the new linker")]
    if yours["status"] == "skipped":
        return [("missing", "scenario", f"skipped with the new linker: {yours['reason']}")]
    if yours["status"] != "conforms":
        return [("blocks", yours["status"], f"{yours['status']} with the new linker: {yours['reason']}")]
    found = [
        ("blocks", d.kind, d.text)
        for d in differences(mine, yours)
        if d.weight == "breaking" or (d.kind == "warning" and d.text.startswith("new "))
    ]
    for name, o in (("old", mine), ("new", yours)):
        if o["outcome"]["kind"] == "value" and o["evidence"] != "launched":
            found.append(("missing", "evidence", f"only {o['evidence']} with the {name} linker, not launched"))
    return found


# -- what maintainers have accepted ----------------------------------------------------------------


def _accept(findings: list[Finding], accepted: list[Accepted], found_pairs: list[Pair]) -> list[Finding]:
    used: set[int] = set()
    result = [part for finding in findings for part in _split(finding, accepted, used, found_pairs)]
    for i, entry in enumerate(accepted):
        if i not in used:
            text = f"accepted.toml: {entry.scenario} ({entry.reason}) no longer occurs: strike it out"
            result.append(Finding("blocks", "accepted.toml", "accepted", text))
    return result


def _split(finding: Finding, accepted: list[Accepted], used: set[int], found_pairs: list[Pair]) -> list[Finding]:
    """A finding in two: the scenarios for which it is accepted, and the rest.

    What concerns no single scenario (a setting) is accepted by an entry for all of them, `*`.
    """
    if finding.weight != "blocks":
        return [finding]
    left, parts = finding.scenarios or [""], []
    for i, entry in enumerate(accepted):
        if entry.kind != finding.kind or not re.search(entry.text, finding.text):
            continue
        taken = [s for s in left if fnmatch.fnmatchcase(s, entry.scenario)]
        if not taken:
            continue
        used.add(i)
        release = next(p.known_release for p in found_pairs if p.name == finding.cell)
        expired = entry.until and not within(release, f"<{entry.until}")
        reason = f"accepted until {entry.until}, which has come" if expired else f"{entry.reason} ({entry.link})"
        weight = "blocks" if expired else "accepted"
        text = f"{finding.text} -- {reason}"
        parts.append(Finding(weight, finding.cell, finding.kind, text, list(filter(None, taken))))
        left = [s for s in left if s not in taken]
    if left:
        parts.append(Finding("blocks", finding.cell, finding.kind, finding.text, list(filter(None, left))))
    return parts


# -- what is printed -------------------------------------------------------------------------------


def as_text(linker: str, found_pairs: list[Pair], findings: list[Finding]) -> str:
    """The decision and its reasons for a terminal, what decides first."""
    lines = [f"{linker}: {verdict(findings)}", ""]
    lines += [f"  {pair.name}" for pair in found_pairs]
    for weight in ("blocks", "missing", "accepted", "note"):
        for group in same_words([f for f in findings if f.weight == weight]):
            lines += ["", f"{weight}: {group[0].kind}: {group[0].text}", *_where(group)]
    return "\n".join(lines)


def same_words(findings: list[Finding]) -> list[list[Finding]]:
    """Findings of the same words together."""
    groups: dict[tuple, list[Finding]] = defaultdict(list)
    for f in findings:
        groups[f.kind, f.text].append(f)
    return list(groups.values())


def _where(group: list[Finding]) -> list[str]:
    """The cells and scenarios that findings of the same words concern, and the commands that mend them."""
    scenarios = sorted({s for f in group for s in f.scenarios})
    lines = [f"  in {', '.join(dict.fromkeys(f.cell for f in group))}"]
    if scenarios:
        shown = f"{', '.join(scenarios[:4])}{' ...' if len(scenarios) > 4 else ''}"
        lines.append(f"  {len(scenarios)} scenarios: {shown}")
    return lines + [f"  {c}" for c in dict.fromkeys(f.command for f in group) if c]


def as_json(linker: str, found_pairs: list[Pair], findings: list[Finding]) -> str:
    """The decision and its reasons as JSON."""
    document = {"linker": linker, "verdict": verdict(findings), "pairs": [p.name for p in found_pairs]}
    return json.dumps({**document, "findings": [asdict(f) for f in findings]}, indent=1, ensure_ascii=False)


def decide_from_records(m: Matrices, options: argparse.Namespace) -> tuple[list[Pair], list[Finding]]:
    """The pairs and findings of what there is already, in the environments that were asked for."""
    from conformance import candidate_gate

    wanted = candidate_gate.chosen(m, pairs(m, options.remove), options.environment) if options.environment else None
    return gate(m, options.remove, options.results, options.strict, wanted)


def main(argv: list[str] | None = None) -> int:
    """Decide, print why, and say it with the exit code as well."""
    from conformance import candidate_gate

    parser = argparse.ArgumentParser(prog="nox -s gate --", description=__doc__.split("\n")[0])
    parser.add_argument("--remove", required=True, metavar="LINKER")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of records (default: results/, and evidence/ for what it lacks)")
    parser.add_argument("--strict", action="store_true", help="take nothing as accepted")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    candidate_gate.add_options(parser)
    options = parser.parse_args(argv)
    decide = candidate_gate.decide if options.candidate else decide_from_records
    found_pairs, findings = decide(matrices.load(), options)
    render = as_json if options.format == "json" else as_text
    print(render(options.remove, found_pairs, findings))
    return VERDICTS.index(verdict(findings))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        print(f"conformance: {error}", file=sys.stderr)
        sys.exit(2)
