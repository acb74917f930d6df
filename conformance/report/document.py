"""The report as one JSON document for other tools; `report.schema.json` beside this file says what it holds."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from conformance import cells
from conformance.compare import link_time
from conformance.report.collect import Column, Report, Verdict

SCHEMA = 1
SCHEMA_FILE = Path(__file__).parent / "report.schema.json"


def document(report: Report) -> dict:
    """The document; every name in it is one that the records or the matrices have."""
    return {
        "schema": SCHEMA,
        "suite": {"source": cells.source_revision(), "digest": cells.suite_digest()},
        "verdict": report.verdict,
        "linkers": [
            {
                "linker": d.linker,
                "verdict": d.verdict,
                "pairs": [p.name for p in d.pairs],
                "findings": [asdict(f) for f in d.findings],
            }
            for d in report.decisions
        ],
        "runs": [_run(c) for c in report.columns],
        "not_run": [
            {"environment": e.name, "release": release, "reproduce": f"nox -s {e.name} -- --release {release}"}
            for e, release in report.missing
        ],
    }


def as_json(report: Report) -> str:
    """The document as text."""
    return json.dumps(document(report), indent=1, ensure_ascii=False)


def _run(c: Column) -> dict:
    header = c.run.header
    facts = ("device", "compute_capability", "python", "platform", "lock", "suite", "source", "candidate")
    return {
        "name": c.name,
        "environment": c.environment.name,
        "axes": c.environment.axes,
        "release": c.release,
        "base": c.base,
        "records": c.source,
        "linker": c.linker,
        "complete": c.run.complete,
        "fault": c.run.fault,
        **_verdict(c.verdict),
        "core": _verdict(c.core),
        "driver": header.get("driver") or {},
        **{key: header.get(key) for key in facts},
        "notes": header.get("notes") or [],
        "packages": header.get("packages") or {},
        "libraries": header.get("libraries") or {},
        "settings": header.get("settings") or {},
        "reproduce": c.reproduce,
        "observations": [_observation(o) for o in c.run.observations],
    }


def _verdict(v: Verdict) -> dict:
    return {"verdict": v.word, "reasons": v.reasons, "counts": v.counts, "evidence": v.evidence}


def _observation(o: dict) -> dict:
    outcome = o["outcome"]
    keys = ("kind", "phase", "type", "message", "digest")
    return {
        "scenario": o["scenario"],
        "profile": o["profile"],
        "status": o["status"],
        "outcome": outcome and {k: outcome.get(k) for k in keys},
        "evidence": o["evidence"],
        "linker": o["linker"],
        "engine": o["engine"],
        "warnings": o["warnings"],
        "reason": o["reason"],
        "link_milliseconds": round(link_time(o), 3) or None,
    }
