"""Proposes what `matrices/deviations.toml` should say, from what was recorded (`nox -s deviations`).

    python -m conformance.proposal --results results --output proposal.toml

What differs and is not covered gets an entry; an entry whose outcome or range does not fit is fixed; what no
longer happens is trimmed or struck out. Nothing is taken from an entry for what was not run: an environment, a
release, a driver or a scenario without an observation is left as it stands. The proposal is written to a file of
its own and never put in place: why something differs is for people to find out.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conformance import described, matrices
from conformance.deviation_file import DeviationFile, Entry, entry, made, read
from conformance.errors import SuiteError
from conformance.evidence import folders as kept_folders
from conformance.expectation import covers
from conformance.judged import Evidence, Judged, gather
from conformance.matrices import Matrices
from conformance.model import Deviation
from conformance.paths import RESULTS
from conformance.spots import Spot, conditions, everywhere, takes

# A scenario at a spot.
Point = tuple[str, Spot]


@dataclass
class Proposal:
    """The file as it should be. changes: what is done to it and why; remarks: what nobody but people can settle."""

    entries: list[Entry] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def change(self, what: str, scenario: str, why: str) -> None:
        """Note a change."""
        self.changes.append(f"{what:<8}{scenario}: {why}")


def propose(file: DeviationFile, evidence: Evidence) -> tuple[DeviationFile, Proposal]:
    """What the file should say, given the evidence."""
    proposal = Proposal(remarks=list(evidence.remarks))
    unexplained = _unexplained(evidence, [one.deviation for one in file.entries])
    for one in file.entries:
        proposal.entries += _revised(one, evidence, unexplained, proposal)
    proposal.entries += _created(evidence, unexplained, proposal)
    return DeviationFile(file.head, proposal.entries, file.tail), proposal


def _unexplained(evidence: Evidence, deviations: list[Deviation]) -> dict[Point, Judged]:
    """What differs and is covered by none."""
    return {
        (j.scenario, j.spot): j
        for j in evidence.judged
        if j.reasons and not any(_covers(evidence.matrices, d, j) for d in deviations)
    }


def _covers(m: Matrices, d: Deviation, j: Judged) -> bool:
    return d.concerns(j.scenario, j.expected) and _takes(m, d, j.spot) and covers(d, j.observation)


def _takes(m: Matrices, d: Deviation, spot: Spot) -> bool:
    return takes(m, spot, d.releases, d.when, d.drivers)


# -- an entry that is there --------------------------------------------------------------------------------


@dataclass
class _Claim:
    """An entry beside the evidence.

    here: all that it is about. covered: what is as it says. conforming, otherwise: what is not. unseen: what was not
    run. outside: what its scenarios did where it is not about them; beyond: those of them that are as it says, and
    that nothing explains.
    """

    here: set[Point]
    covered: set[Point]
    conforming: set[Point]
    otherwise: dict[Point, Judged]
    unseen: set[Point]
    outside: set[Point]
    beyond: set[Point]


def _claim(one: Entry, evidence: Evidence, unexplained: dict[Point, Judged]) -> _Claim:
    m, d = evidence.matrices, one.deviation
    concerned = {key: spots for key, spots in evidence.expected.items() if d.concerns(*key)}
    here = {(scenario, s) for (scenario, _), spots in concerned.items() for s in spots if _takes(m, d, s)}
    seen = {(j.scenario, j.spot): j for j in evidence.judged if d.concerns(j.scenario, j.expected)}
    covered = {p for p in seen if p in here and seen[p].reasons and covers(d, seen[p].observation)}
    return _Claim(
        here,
        covered,
        conforming={p for p in seen if p in here and not seen[p].reasons},
        otherwise={p: j for p, j in unexplained.items() if p in here and p not in covered},
        unseen=here - seen.keys(),
        outside=seen.keys() - here,
        beyond={p for p, j in unexplained.items() if p in seen.keys() - here and covers(d, j.observation)},
    )


def _revised(one: Entry, evidence: Evidence, unexplained: dict[Point, Judged], proposal: Proposal) -> list[Entry]:
    """An entry as the evidence wants it: unchanged, changed, as several, or not at all."""
    scenario, claim = one.deviation.scenario, _claim(one, evidence, unexplained)
    if not claim.here:
        proposal.change("strike", scenario, "it is about no scenario in any environment and release")
        return []
    refitted = _refitted(one, claim)
    if refitted is not one:
        proposal.change("fix", scenario, f"the outcome is now {json.dumps(refitted.deviation.outcome)}")
        for point in claim.otherwise:
            del unexplained[point]
        one, claim = refitted, _claim(refitted, evidence, unexplained)
    if one.deviation.sometimes:
        return _of_what_happens_sometimes(one, claim, evidence, unexplained, proposal)
    wrong = claim.conforming | claim.otherwise.keys()
    keep = claim.covered | claim.unseen
    if not keep:
        proposal.change("strike", scenario, _why(claim) or "other entries say it all")
        return []
    return _in_range(one, claim, keep, wrong, evidence, unexplained, proposal)


def _of_what_happens_sometimes(one: Entry, claim: _Claim, evidence, unexplained, proposal) -> list[Entry]:
    """Its range may grow, but not shrink: that it did not happen says nothing."""
    if not claim.covered | claim.unseen:
        proposal.remarks.append(f"{one.deviation.scenario}: never seen here ({one.deviation.reason}; {one.deviation.sometimes})")
    return _in_range(one, claim, claim.here, set(), evidence, unexplained, proposal)


def _in_range(one: Entry, claim: _Claim, keep: set[Point], wrong: set[Point], evidence, unexplained, proposal) -> list[Entry]:
    """An entry with the range that takes what it must keep and not what is wrong."""
    others = wrong | (claim.outside - claim.beyond)
    beyond = {(scenario, spot) for scenario, spot in claim.beyond if spot not in {s for _, s in others}}
    if not wrong and not beyond:
        return [one]
    for point in beyond:
        del unexplained[point]
    reasons = [_why(claim), f"it happens in {_cells(beyond)} as well" if beyond else ""]
    what = "fix" if beyond or claim.otherwise else "trim"
    proposal.change(what, one.deviation.scenario, "; ".join(filter(None, reasons)))
    return _reshaped(evidence, one, _by_scenario(keep | beyond), _by_scenario(others))


def _why(claim: _Claim) -> str:
    parts = {"conforms in": claim.conforming, "differs otherwise in": claim.otherwise}
    return ", ".join(f"{words} {_cells(points)}" for words, points in parts.items() if points)


def _cells(points: Iterable[Point]) -> str:
    """Where something is so, shortened."""
    names = sorted({f"{spot.name} ({spot.driver})" for _, spot in points})
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _refitted(one: Entry, claim: _Claim) -> Entry:
    """The entry with the outcome that is seen, where it is seen nowhere as the entry says, and always the same."""
    outcomes = [described.outcome(j.observation, j.reasons) for j in claim.otherwise.values()]
    if claim.covered or one.deviation.sometimes or not outcomes or any(o != outcomes[0] for o in outcomes):
        return one
    if not claim.unseen:
        return one.changed(outcome=outcomes[0])
    both = _either(one.deviation.outcome, outcomes[0])
    return one.changed(outcome=both) if both else one


def _either(a: dict, b: dict) -> dict:
    """An outcome that is the one or the other; empty where they do not speak of the same."""
    if a.keys() != b.keys():
        return {}
    patterns = {k: f"{a[k]}|{b[k]}" for k in ("message", "warning") if k in a and a[k] != b[k]}
    return {k: a[k] if a[k] == b[k] else patterns.get(k) or [*_list(a[k]), *_list(b[k])] for k in a}


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _by_scenario(points: Iterable[Point]) -> dict[str, set[Spot]]:
    found = defaultdict(set)
    for scenario, spot in points:
        found[scenario].add(spot)
    return found


def _reshaped(evidence: Evidence, one: Entry, keep: dict[str, set[Spot]], leave: dict[str, set[Spot]]) -> list[Entry]:
    """Entries for what is kept and not for what is left.

    A scenario that is left where another one is kept is taken out, and gets entries of its own for what remains.
    """
    kept = set().union(*keep.values())
    odd = [scenario for scenario in leave if leave[scenario] & kept]
    known = evidence.scenarios
    rest = one.changed(apart_from=[*one.deviation.apart_from, *described.globs(odd, known)]) if odd else one
    regular = [scenario for scenario in {*keep, *leave} if scenario not in odd]
    entries = _limited(evidence.matrices, rest, _spots(keep, regular), _spots(leave, regular))
    remaining = {scenario: keep[scenario] for scenario in odd if scenario in keep}
    for table, scenarios in _alike(evidence.matrices, remaining, leave).items():
        own = _with_conditions(evidence.matrices, one, json.loads(table))
        entries += [own.changed(scenario=glob, apart_from="") for glob in described.globs(scenarios, known)]
    return entries


def _alike(m: Matrices, keep: dict[str, set[Spot]], leave: dict[str, set[Spot]]) -> dict[str, list[str]]:
    """Conditions, as JSON, with all scenarios that want them."""
    same = defaultdict(list)
    for scenario, spots in keep.items():
        same[frozenset(spots), frozenset(leave.get(scenario, ()))].append(scenario)
    found = defaultdict(list)
    for (kept, left), scenarios in same.items():
        for table in conditions(m, kept, left):
            found[json.dumps(table)] += scenarios
    return found


def _spots(of: dict[str, set[Spot]], scenarios: Iterable[str]) -> set[Spot]:
    return set().union(*(of.get(scenario, set()) for scenario in scenarios))


def _limited(m: Matrices, one: Entry, kept: set[Spot], left: set[Spot]) -> list[Entry]:
    """The entry with conditions that take what is kept and not what is left; its own where they do."""
    fits = all(_takes(m, one.deviation, s) for s in kept) and not any(_takes(m, one.deviation, s) for s in left)
    if fits and kept:
        return [one]
    return [_with_conditions(m, one, table) for table in conditions(m, kept, left)]


def _with_conditions(m: Matrices, one: Entry, table: dict) -> Entry:
    """An entry with other conditions; its own words stay wherever they take the same."""
    values = {"releases": "", "when": {}, "drivers": [], **table}
    spots = everywhere(m)
    for key in values:
        own = values | {key: getattr(one.deviation, key)}
        if all(takes(m, s, **own) == takes(m, s, **values) for s in spots):
            values = own
    return one.changed(**{k: v for k, v in values.items() if v != getattr(one.deviation, k)})


# -- a new entry -------------------------------------------------------------------------------------------


def _created(evidence: Evidence, unexplained: dict[Point, Judged], proposal: Proposal) -> Iterator[Entry]:
    """Entries for what nothing explains: scenarios that differ in the same way in the same places share one."""
    seen = _by_scenario((j.scenario, j.spot) for j in evidence.judged)
    same = defaultdict(list)
    for j in unexplained.values():
        same[j.expected, json.dumps(described.outcome(j.observation, j.reasons))].append(j)
    for (expected, outcome), found in same.items():
        keep = _by_scenario((j.scenario, j.spot) for j in found)
        leave = {scenario: seen[scenario] - spots for scenario, spots in keep.items()}
        for table, scenarios in _alike(evidence.matrices, keep, leave).items():
            for glob in described.globs(scenarios, evidence.scenarios):
                one = made(scenario=glob, outcome=json.loads(outcome), **json.loads(table), reason="TODO: why", upstream="unreported")
                examples = [j for j in found if _covers(evidence.matrices, one.deviation, j)]
                proposal.change("create", glob, f"differs in {_cells((j.scenario, j.spot) for j in examples)}")
                yield _new(evidence, one, expected, examples)


def _new(evidence: Evidence, one: Entry, expected: str, examples: list[Judged]) -> Entry:
    """A new entry with an example. What only people can say is missing: why it is so, and where that is reported."""
    other = "error" if expected == "value" else "value"
    others = (spots for (scenario, e), spots in evidence.expected.items() if e == other and one.deviation.concerns(scenario, e))
    if any(_takes(evidence.matrices, one.deviation, spot) for spots in others for spot in spots):
        one = one.changed(expected=expected)
    first = examples[0]
    often = "once" if len(examples) == 1 else f"{len(examples)} times, first"
    seen = textwrap.shorten("; ".join(first.reasons), 150, placeholder=" ...")
    spot = first.spot
    again = f"nox -s {spot.environment} -- --release {spot.release} --driver {spot.driver} --scenario {first.scenario}"
    return entry(f"# Seen {often}: {seen}\n# {again}\n{one.text}")


# -- the command -------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Write the proposal and print what it changes; always 0, for a proposal is no verdict."""
    parser = argparse.ArgumentParser(prog="nox -s deviations --", description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, action="append", help="folder of records; may be given again (default: results/ and evidence/)")
    parser.add_argument("--output", type=Path, default=RESULTS / "deviations.toml", help="the proposal (default: results/deviations.toml)")
    options = parser.parse_args(argv)
    m = matrices.load()
    current = m.folder / "deviations.toml"
    if options.output.resolve() == current.resolve():
        raise SuiteError(f"--output {options.output}: a proposal is not put in place by itself; name another file")
    evidence = gather(m, options.results or _default_folders())
    if not evidence.judged:
        raise SuiteError("\n  ".join(["nothing was recorded that can be judged: nox -s all", *evidence.remarks]))
    before = read(current)
    after, proposal = propose(before, evidence)
    _write(options.output, after.text)
    _print(proposal, before.text, after.text, options.output, evidence)
    return 0


def _default_folders() -> list[Path]:
    """The user's own records, and those that are kept of devices."""
    return [folder for folder in (RESULTS, *reversed(kept_folders())) if folder.is_dir()] or [RESULTS]


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SuiteError(f"{path} cannot be written ({error.strerror}): name another file with --output") from error


def _print(proposal: Proposal, before: str, after: str, output: Path, evidence: Evidence) -> None:
    names = ("matrices/deviations.toml", str(output))
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
    print("".join(f"{line}\n" for line in lines), end="")
    for title, found in (("to look at yourself", proposal.remarks), ("changes", proposal.changes)):
        print(f"{title}: {len(found)}")
        print("".join(f"  {line}\n" for line in found), end="")
    print(f"from {len(evidence.judged)} observations; written to {output}, nothing is applied")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
