"""Records made up for tests: complete, launched, conforming unless told otherwise."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path

from conformance import cells, environments, matrices

IMAGE = {
    "architecture": "sm_90",
    "elf_type": "executable",
    "kernels": {"kernel": {"registers": 24, "shared": 0, "local": 0, "constant": 640, "code": 512, "barriers": 0}},
    "functions": ["add_i32"],
    "undefined": [],
    "globals": {},
    "line_info": False,
    "debug_info": False,
    "size": 8000,
}
LINKER_ERROR = ["numba.cuda.cudadrv.driver.LinkerError", "builtins.RuntimeError", "builtins.Exception"]


def value(scenario: str = "inputs/integers-ptx-path-eager", **changes) -> dict:
    """An observation of a scenario that launched and gave its value."""
    return {
        "scenario": scenario,
        "profile": "core",
        "status": "conforms",
        "outcome": {"kind": "value", "phase": "verify", "digest": "d1"},
        "expected": {"kind": "value", "linker": "CtypesLinker"},
        "evidence": "launched",
        "linker": "CtypesLinker",
        "engine": "",
        "warnings": [],
        "image": copy.deepcopy(IMAGE),
        "milliseconds": {"construct": 1.0, "add": 1.0, "complete": 2.0},
        "reason": "",
        **changes,
    }


def error(scenario: str = "mistakes/missing-file-ptx", **changes) -> dict:
    """An observation of a scenario that ended in the error that was expected."""
    outcome = {"kind": "error", "phase": "add", "type": "LinkerError", "bases": LINKER_ERROR}
    outcome |= {"message": "LinkerError: absent.ptx not found", "digest": None}
    expected = {"kind": "error", "type": "LinkerError", "phase": ["add"], "message": "not found", "failure": "missing-file"}
    return value(scenario, outcome=outcome | changes.pop("outcome", {}), expected=expected, image=None, evidence="selected", **changes)


def header(environment: str, release: str, **changes) -> dict:
    """The header of a run on a device with the suite and locks of today."""
    m = matrices.load()
    lock = m.lock(m.environment(environment), m.release(release))
    return {
        "schema": 1,
        "environment": environment,
        "release": release,
        "driver": {"kind": "device", "version": "13.0"},
        "device": "NVIDIA H200",
        "compute_capability": "9.0",
        "python": "3.12.3",
        "lock": f"{lock.stem}@{environments.digest(lock)}",
        "source": "abc",
        "suite": cells.suite_digest(),
        **changes,
    }


def write(folder: Path, environment: str, release: str, observations: list[dict], footer: bool = True, **changes) -> Path:
    """A record file as a run would have written it."""
    path = folder / environment / f"{release}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"kind": "header", **header(environment, release, **changes)}]
    lines += [{"kind": "observation", **o} for o in observations]
    counts = Counter(o["status"] for o in observations)
    lines += [{"kind": "footer", "counts": counts}] if footer else []
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
