"""All that a report tells, gathered once: a column for each run, what was not run, what the gate says.

The records of `results/` come first. A cell for which they hold no device's record gets a second column with
the one that is kept in `evidence/`, if there is one: a recording driver's run neither hides it nor is hidden by it.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.version import InvalidVersion, Version

from conformance import cells, evidence, gate
from conformance.errors import SuiteError
from conformance.matrices import Matrices, within
from conformance.model import EVIDENCE, STATUSES, Environment
from conformance.records import Run, header, read
from conformance.scenario import catalogue

VERDICTS = ("success", "partial", "failure")


@dataclass(frozen=True)
class Verdict:
    """What one run comes to.

    word: `failure` where something differs or is unstable or the record is damaged; `partial` where something was
    skipped, is missing or stale; else `success`. reasons: why it is not a success. counts: observations by status.
    evidence: observations by how far they reached.
    """

    word: str
    reasons: list[str]
    counts: dict[str, int]
    evidence: dict[str, int]

    @property
    def reached(self) -> str:
        """The strongest evidence that any scenario of the run gave; "" where none did."""
        return next((level for level in reversed(EVIDENCE) if self.evidence.get(level)), "")


@dataclass(frozen=True)
class Column:
    """One run of a cell.

    release: a version or a candidate's name. base: the release that it is expected to behave as. source: `results`,
    or the folder in `evidence/` where it is kept. linker: the one that the rules expect, "" where there is none.
    """

    environment: Environment
    release: str
    base: str
    source: str
    run: Run
    linker: str
    verdict: Verdict
    core: Verdict

    @property
    def cell(self) -> str:
        """The cell as people write it."""
        return f"{self.environment.name}@{self.release}"

    @property
    def name(self) -> str:
        """The run's own name: a kept one says where it is kept."""
        return self.cell if self.source == "results" else f"{self.cell} ({self.source})"

    @property
    def driver(self) -> str:
        """`device`, `recording`, or "" where the record does not say."""
        return str((self.run.header.get("driver") or {}).get("kind") or "")

    @property
    def reproduce(self) -> str:
        """The command that runs the cell again."""
        words = [f"nox -s {self.environment.name} -- --release {self.base}"]
        words += [_wanted(self.run.header.get("candidate"))]
        words += [f"--driver {self.driver}"] if self.driver else []
        return " ".join(filter(None, words))

    @cached_property
    def by_scenario(self) -> dict[str, dict]:
        """The observations by scenario."""
        return {o["scenario"]: o for o in self.run.observations}


def _wanted(candidate: dict | None) -> str:
    """The options that ask for a candidate again, as far as its record tells (a wheel's place it does not)."""
    words = []
    for name, part in (candidate or {}).get("packages", {}).items():
        if part.get("kind") == "version":
            requirement = f"{name}=={part.get('version')}"
            words.append(f"--with {shlex.quote(requirement)}")
        else:
            words.append(f"--{name} {str(part.get('kind')).upper()}")
    return " ".join(words)


@dataclass(frozen=True)
class Decision:
    """The gate's answer for one old linker."""

    linker: str
    title: str
    verdict: str
    pairs: list[gate.Pair]
    findings: list[gate.Finding]


@dataclass(frozen=True)
class Report:
    """Everything, before it is shown.

    folder: where the records were looked for. missing: cells of the matrix that have no run. decisions: by linker.
    """

    matrices: Matrices
    folder: Path
    columns: list[Column]
    missing: list[tuple[Environment, str]]
    decisions: list[Decision]
    scenarios: list[str] = field(default_factory=list)

    @property
    def releases(self) -> list[str]:
        """The known releases, oldest first, then what else was run."""
        known = [r.version for r in self.matrices.releases]
        return [*known, *sorted({c.release for c in self.columns} - set(known))]

    @property
    def own(self) -> list[Column]:
        """The runs of `results/`; where there are none, the kept ones: what the report is about."""
        return [c for c in self.columns if c.source == "results"] or self.columns

    @property
    def verdict(self) -> str:
        """The worst verdict of the runs that the report is about."""
        return max((c.verdict.word for c in self.own), key=VERDICTS.index)

    def about(self) -> str:
        """Where the records come from, in a sentence."""
        kept = sorted({c.source for c in self.columns} - {"results"})
        kept_text = f"evidence/{', evidence/'.join(kept)}"
        if not any(c.source == "results" for c in self.columns):
            return f"results/ has no records; these are kept ones of {kept_text}"
        devices = sum(c.source == "results" and c.driver == "device" for c in self.columns)
        own = f"{len(self.own)} runs of results/, {devices} of them on a device"
        return f"{own}; beside them {len(self.columns) - len(self.own)} device runs kept in {kept_text}" if kept else own


def collect(m: Matrices, results: Path) -> Report:
    """Read every record there is; raises SuiteError where there is none at all."""
    columns = _order(m, [*_own(m, results), *_kept(m, results)])
    if not columns:
        raise SuiteError(
            f"{results} has no records and evidence/ has none: run an environment first, say "
            "`nox -s cuda12-ctypes -- --release 0.20.1` (nox -l lists them)"
        )
    ran = {c.cell for c in columns}
    every = [(e, r.version) for e in m.environments.values() for r in m.releases_of(e)]
    missing = [(e, release) for e, release in every if f"{e.name}@{release}" not in ran]
    seen = dict.fromkeys(o["scenario"] for c in columns for o in c.run.observations)
    # In the catalogue's order; what it no longer has comes last. The environment's own observation comes first.
    known = ["environment/import-and-link", *catalogue()]
    scenarios = [s for s in known if s in seen] + sorted(set(seen) - set(known))
    return Report(m, results, columns, missing, _decisions(m, results), scenarios)


def _own(m: Matrices, results: Path) -> list[Column]:
    return [_column(m, path, "results") for path in _files(m, results)]


def _kept(m: Matrices, results: Path) -> list[Column]:
    """Kept device records of cells for which `results` has none of a device."""
    found = []
    for folder in evidence.folders():
        if folder.resolve() == results.resolve():
            continue
        for path in _files(m, folder):
            own = results / path.parent.name / path.name
            if not own.exists() or (header(own).get("driver") or {}).get("kind") != "device":
                found.append(_column(m, path, folder.name))
    return found


def _files(m: Matrices, folder: Path) -> list[Path]:
    """The record files of whole runs of known environments."""
    return [
        path
        for path in sorted(folder.glob("*/*.jsonl"))
        if path.parent.name in m.environments and not path.name.endswith(".partial.jsonl")
    ]


def _column(m: Matrices, path: Path, source: str) -> Column:
    run = read(path)
    environment, release = m.environments[path.parent.name], path.stem
    base = str((run.header.get("candidate") or {}).get("base") or run.header.get("release") or release)
    known = base in {r.version for r in m.releases} and m.absence(environment, m.release(base)) is None
    linker = cells.expected(m, environment, base).linker if known else ""
    stale = gate.unfit(m, environment, release, run) if known and release == base else []
    stale = [s for s in stale if s.startswith("is stale")]
    core = [o for o in run.observations if o["profile"] == "core"]
    verdicts = [judge(run, observations, base, stale) for observations in (run.observations, core)]
    return Column(environment, release, base, source, run, linker, *verdicts)


def judge(run: Run, observations: list[dict], release: str, stale: list[str]) -> Verdict:
    """The verdict on some of a run's observations. stale: what makes the record one of another suite."""
    counts = Counter(o["status"] for o in observations)
    broken = [f"{counts[s]} {'differ' if s == 'differs' else s}" for s in ("differs", "unstable") if counts[s]]
    broken += [f"the record is damaged: {run.fault}"] if run.fault else []
    lacking = _skips(observations, release) + [f"the record {s}" for s in stale]
    lacking += [] if run.complete or run.fault else ["the run did not finish (no footer)"]
    lacking += [] if observations else ["no scenario was observed"]
    word = "failure" if broken else "partial" if lacking else "success"
    reached = Counter(o["evidence"] for o in observations if o["evidence"])
    by_status = {s: counts[s] for s in STATUSES if counts[s]}
    by_level = {level: reached[level] for level in reversed(EVIDENCE) if reached[level]}
    return Verdict(word, [*broken, *lacking], by_status, by_level)


def _skips(observations: list[dict], release: str) -> list[str]:
    """Reasons of skips that leave something unsaid; what does not concern a release leaves nothing."""
    skipped = [o for o in observations if o["status"] == "skipped" and _concerns(o["scenario"], release)]
    reasons = Counter(o["reason"] for o in skipped)
    return [f"{n} skipped: {reason}" for reason, n in reasons.most_common()]


def _concerns(scenario: str, release: str) -> bool:
    known = catalogue().get(scenario)
    try:
        return known is None or not known.releases or within(release, known.releases)
    except InvalidVersion:
        return True


def _order(m: Matrices, columns: list[Column]) -> list[Column]:
    """By environment, oldest release first, candidates last, a kept record after the own one."""
    places = list(m.environments)

    def key(c: Column):
        try:
            version = (0, Version(c.release), "")
        except InvalidVersion:
            version = (1, Version("0"), c.release)
        return places.index(c.environment.name), version, c.source != "results", c.source

    return sorted(columns, key=key)


def _decisions(m: Matrices, results: Path) -> list[Decision]:
    found = []
    for name, linker in m.linkers.items():
        if linker.replaced_by:
            pairs, findings = gate.gate(m, name, results)
            found.append(Decision(name, linker.title, gate.verdict(findings), pairs, findings))
    return found
