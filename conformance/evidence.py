"""Records that are kept in the repository: what devices said, for those who have none.

    python -m conformance.evidence results --name h200-driver580

A kept record has the same form as a fresh one (docs/records.md), made for review: scenarios sorted, what is
empty left out, times in a file of their own (`<release>.times.json`), so that a diff shows changes of behaviour.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from conformance.errors import SuiteError
from conformance.paths import EVIDENCE, RESULTS
from conformance.records import header
from conformance.selectors import Place, places

# Said twice in a fresh record: the whole chain of messages begins with the error's own.
_DOUBLED = ("own_message",)


def keep(results: Path, folder: Path) -> list[Place]:
    """Keep every run of a results folder; raises SuiteError, and keeps nothing, unless all are complete device runs."""
    found = places(results)
    runs = [(place, place.read()) for place in found]
    faults = [f"{place.name}: {why}" for place, run in runs if (why := _unfit(run))]
    if faults or not runs:
        raise SuiteError("nothing is kept: " + ("; ".join(faults) or f"{results} has no records"))
    for place, run in runs:
        path = folder / place.environment / f"{place.release}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        observations = sorted(run.observations, key=lambda o: o["scenario"])
        lines = [run.header, *map(_facts, observations), run.footer]
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        times = {o["scenario"]: o["milliseconds"] for o in observations if o["milliseconds"]}
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(ms)}" for name, ms in times.items())
        path.with_suffix(".times.json").write_text(f"{{\n{rows}\n}}\n")
    return found


def _unfit(run) -> str:
    if not run.complete:
        return run.fault or "it has no footer"
    kind = (run.header.get("driver") or {}).get("kind")
    return "" if kind == "device" else f"it ran on a {kind} driver"


def _facts(observation: dict) -> dict:
    """An observation without its times and without what is empty."""
    named = {key: observation[key] for key in ("kind", "scenario", "status", "evidence")} | observation
    facts = {k: v for k, v in named.items() if k != "milliseconds" and v not in ("", None, [], {})}
    if "outcome" in facts:
        facts["outcome"] = {k: v for k, v in facts["outcome"].items() if v is not None and k not in _DOUBLED}
    return facts


def folders() -> list[Path]:
    """The folders of kept records."""
    return sorted(p for p in EVIDENCE.glob("*") if p.is_dir())


def find(environment: str, release: str, results: Path) -> Path | None:
    """The record that counts for a cell: a device run in `results`, else a kept one, else whatever there is."""
    own = results / environment / f"{release}.jsonl"
    if own.exists() and (header(own).get("driver") or {}).get("kind") == "device":
        return own
    kept = [f / environment / f"{release}.jsonl" for f in folders()]
    return next((p for p in [*kept, own] if p.exists()), None)


def default_results() -> Path:
    """Where readers look unless told: `results/`, or on a clone that has not run anything the kept records."""
    if RESULTS.is_dir() and any(RESULTS.glob("*/*.jsonl")):
        return RESULTS
    return folders()[-1] if folders() else RESULTS


def main(argv: list[str] | None = None) -> int:
    """Keep a results folder."""
    parser = argparse.ArgumentParser(prog="nox -s evidence --", description=__doc__.split("\n")[0])
    parser.add_argument("results", type=Path, help="folder of records of a device")
    parser.add_argument("--name", required=True, help="of the device and driver, e.g. h200-driver580")
    options = parser.parse_args(argv)
    kept = keep(options.results, EVIDENCE / options.name)
    print(f"kept {len(kept)} runs in evidence/{options.name}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
