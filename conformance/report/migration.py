"""The decision table in a report: what a user with given settings gets in each release.

Nothing is run for it. Where `nox -s selection` has left its records, they say what was seen on the real packages; for
every release the matrices say what it is known to do (`decide.deviating`: the agreed rule, and known deviations).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from conformance import decide, decisions, tables
from conformance.matrices import Matrices
from conformance.model import Rule
from conformance.records import read
from conformance.report.pack import Table


def migration(m: Matrices, results: Path) -> dict:
    """Configurations by number, and for each release what they get: as seen, and as the matrices say.

    `outcomes` holds the texts; in `known` and `seen` a -1 is a configuration that cannot occur (or was not seen).
    """
    outcomes, configurations = Table(), Table()
    tried = decisions.configurations(m)
    for release in tried:
        for c in tried[release]:
            configurations.number(_title(m, c))
    known = {r: _numbers(configurations, outcomes, _known(m, r, cs)) for r, cs in tried.items()}
    seen = {r: _numbers(configurations, outcomes, found) for r in tried if (found := _seen(m, results, r))}
    return {"configurations": configurations.items, "outcomes": outcomes.items, "known": known, "seen": seen}


def _title(m: Matrices, configuration: dict) -> str:
    return decisions.title(m.decisions, configuration)


def _known(m: Matrices, release: str, configurations: list[dict]) -> dict[str, str]:
    rules = ((_title(m, c), decide.deviating(m, c, release)[0]) for c in configurations)
    return {title: _gets(m, rule) for title, rule in rules}


def _gets(m: Matrices, rule: Rule) -> str:
    """What a rule gives, in the words of `tables.gets`; a message is known as a pattern only."""
    if rule.error:
        text = f"{rule.error.type} at {'/'.join(rule.error.phase)}"
        text += f": {rule.error.message}" if rule.error.message else ""
    else:
        text = m.linkers[rule.linker].class_name + (f" over {rule.engine}" if rule.linker == "cuda-core" else "")
    warnings = Counter({f"{w.category}: {w.message}": w.times for w in rule.warnings})
    return text + "".join(f"; warns {'twice ' if n == 2 else ''}{w}" for w, n in sorted(warnings.items()))


def _seen(m: Matrices, results: Path, release: str) -> dict[str, str]:
    """What `nox -s selection` saw; empty where it was not run to its end."""
    path = decide.file_of(results, release)
    if not path.exists():
        return {}
    run = read(path)
    return {_title(m, o["configuration"]): tables.gets(m, o) for o in run.observations} if run.complete else {}


def _numbers(configurations: Table, outcomes: Table, found: dict[str, str]) -> list[int]:
    return [outcomes.number(found[title]) if title in found else -1 for title in configurations.items]
