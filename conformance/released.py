"""Faults that released versions really had: where the suite catches each, and where it is clean.

Both follow from matrices/deviations.toml and selection-deviations.toml, which say in which releases a fault is.
`check` runs each of them on a release that has it and on the nearest one that has not.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance import cells, decide, decisions, environments, expectation, planted, trial
from conformance.matrices import Matrices, matches, within
from conformance.model import Cell, Deviation, Driver, Environment, Release
from conformance.scenario import ENVIRONMENT, Scenario, catalogue


@dataclass(frozen=True)
class Row:
    """A fault of some releases.

    subject: the scenario or configuration that shows it; found, clean: the cells that have it and have it
    not; gone: whether the clean release is the newer one; upstream: the report's link, or a finding's page.
    """

    reason: str
    subject: str
    cases: tuple[str, ...]
    found: str
    clean: str
    gone: bool
    upstream: str


def rows(m: Matrices) -> list[Row]:
    """A row for each fault that some releases have and others have not; what only happens at times is left out."""
    of_scenarios = (_row(m, d) for d in m.deviations if d.releases and not d.sometimes)
    tried = decisions.configurations(m)
    of_settings = (_selection_row(m, i, tried) for i, d in enumerate(m.selection_deviations) if d.releases)
    return [row for row in (*of_scenarios, *of_settings) if row]


def in_every_release(m: Matrices) -> list[str]:
    """What no release has mended yet: nothing can be shown clean."""
    shown = {row.reason for row in rows(m)}
    known = [*m.deviations, *m.selection_deviations]
    return sorted({d.reason for d in known if d.reason not in shown and not getattr(d, "sometimes", "")})


# -- scenarios ---------------------------------------------------------------------------------------


def _row(m: Matrices, d: Deviation) -> Row | None:
    if d.drivers and "recording" not in d.drivers:
        return None
    for name in _names(d.scenario):
        for environment in (e for e in m.environments.values() if matches(e.axes, d.when)):
            pair = _pair(m.releases_of(environment), d.releases, lambda r: _fits(m, d, name, environment, r))  # noqa: B023
            if pair:
                found, clean, gone = pair
                cases = catalogue()[name].cases if name != ENVIRONMENT else ()
                places = (f"{environment.name}@{r.version}" for r in (found, clean))
                return Row(d.reason, name, cases, *places, gone, _upstream(d))
    return None


def _names(pattern: str) -> list[str]:
    return [n for n in (ENVIRONMENT, *catalogue()) if fnmatch.fnmatchcase(n, pattern)]


def _pair(
    releases: list[Release], specifier: str, fits: Callable[[Release], bool]
) -> tuple[Release, Release, bool] | None:
    """A release that has a fault and one that has not, and whether that is the newer: the nearest two of all."""
    places = range(len(releases))
    having = [within(r.version, specifier) for r in releases]
    pairs = [(i, j) for i in places if having[i] for j in places if not having[j]]
    for i, j in sorted(pairs, key=lambda p: (abs(p[0] - p[1]), p[1] < p[0])):
        if fits(releases[i]) and fits(releases[j]):
            return releases[i], releases[j], i < j
    return None


def _fits(m: Matrices, d: Deviation, name: str, environment: Environment, release: Release) -> bool:
    """Whether a scenario runs in a cell, is about the same outcome there, and meets that deviation or none."""
    cell = _cell(m, environment.name, release.version)
    scenario = catalogue().get(name)
    if scenario and (scenario.device or not within(release.version, scenario.releases)):
        return False
    kind = "error" if _expects_error(cell, scenario) else "value"
    meeting = [o for o in cell.deviations if o.concerns(name, kind)]
    return d.concerns(name, kind) and meeting == ([d] if d in cell.deviations else [])


def _expects_error(cell: Cell, scenario: Scenario | None) -> bool:
    return bool(expectation.of(scenario, cell).error if scenario else cell.expected.error)


_described: dict[tuple, Cell] = {}


def _cell(m: Matrices, environment: str, release: str) -> Cell:
    """A cell on the recording driver, described once."""
    key = (m.folder, environment, release)
    if key not in _described:
        of = m.environment(environment)
        driver = Driver("recording", of.driver, cells._COMPUTE_CAPABILITY)
        _described[key] = cells.describe(m, of, m.release(release), driver, Path("none"))
    return _described[key]


def _upstream(d) -> str:
    return f"findings/{d.finding}.md" if d.upstream == "unreported" else d.upstream


# -- settings ----------------------------------------------------------------------------------------


def _selection_row(m: Matrices, number: int, tried: dict[str, list[dict[str, str]]]) -> Row | None:
    d = m.selection_deviations[number]
    wanted = sorted(tried[m.releases[0].version], key=lambda c: len(decisions.title(m.decisions, c)))
    for release in m.releases[1:]:
        wanted += [c for c in tried[release.version] if c not in wanted]
    for configuration in wanted:
        releases = [r for r in m.releases if configuration in tried[r.version]]
        pair = _pair(releases, d.releases, lambda r: _shows(m, number, configuration, r))  # noqa: B023
        if pair:
            found, clean, gone = pair
            title = decisions.title(m.decisions, configuration)
            places = (f"{planted.SELECTION}@{r.version}" for r in (found, clean))
            return Row(d.reason, f"{planted.SELECTION}/{title}", (), *places, gone, _upstream(d))
    return None


def _shows(m: Matrices, number: int, configuration: dict[str, str], release: Release) -> bool:
    """Whether that deviation changes what a configuration gets in a release that has it, and none does in another."""
    rule, known = decide.deviating(m, configuration, release.version)
    if not within(release.version, m.selection_deviations[number].releases):
        return known == []
    others = [d for i, d in enumerate(m.selection_deviations) if i != number]
    without = dataclasses.replace(m, selection_deviations=others)
    return number in known and rule != decide.deviating(without, configuration, release.version)[0]


# -- running them ------------------------------------------------------------------------------------


def check(m: Matrices, python: Path, folder: Path, told: Callable[[str], None]) -> list[str]:
    """Run every row in both of its cells; what was not as it says, a line each.

    folder: an empty one for records.
    """
    listed = rows(m)
    wrong = []
    for cell in dict.fromkeys(c for row in listed for c in (row.found, row.clean)):
        found = [row for row in listed if row.found == cell]
        clean = [row for row in listed if row.clean == cell]
        seen = _observed(m, python, cell, [row.subject for row in found + clean], folder / cell)
        lines = [*_not_found(cell, found, seen), *_not_clean(cell, clean, seen)]
        told(f"{cell}: {len(found)} faults to be caught, {len(clean)} to be gone: {'; '.join(lines) or 'so it is'}")
        wrong += lines
    return wrong


def _not_found(cell: str, listed: list[Row], seen: dict[str, dict]) -> Iterator[str]:
    for row in listed:
        one = seen[row.subject]
        if one["status"] != "deviates" or row.reason not in one["reason"]:
            yield f"{cell}: {row.subject} {one['status']}, though this release has: {row.reason}"


def _not_clean(cell: str, listed: list[Row], seen: dict[str, dict]) -> Iterator[str]:
    for row in listed:
        one = seen[row.subject]
        if one["status"] != "conforms":
            yield f"{cell}: {row.subject} {one['status']}, though this release has not: {row.reason}"


def _observed(m: Matrices, python: Path, cell: str, subjects: list[str], folder: Path) -> dict[str, dict]:
    spot = planted.spot(m, cell)
    folder.mkdir(parents=True)
    if not spot.is_selection:
        interpreter = environments.environment(m.lock(spot.environment, spot.release), python)
        ids = [s for s in dict.fromkeys(subjects) if s != ENVIRONMENT] or ["lto/nothing-linked-unset"]
        return trial.scenarios(m, spot, interpreter, ids, folder)
    words = dict.fromkeys(s.removeprefix(f"{planted.SELECTION}/").replace("all as usual", "") for s in subjects)
    wanted = [decisions.parse(m.decisions, w) for w in words]
    seen = {}
    for place, configurations in trial.places(m, spot, wanted).items():
        seen |= trial.table(m, spot.release.version, decide.prepared(m, place, python), configurations)
    return seen
