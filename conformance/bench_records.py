"""Records made up for the readers' benchmark: of the form and the size of real ones, a file for each night and cell."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import date, timedelta
from functools import cache
from pathlib import Path

from conformance.scenario import catalogue

# One in so many observations is not what it was the night before; one in so many is an error, or skipped.
_CHANGES, _FAILS, _SKIPS = 50, 6, 50
_PHASES, _TIMES = ("construct", "add", "complete", "load"), "<times>"
_BASES = ["numba.cuda.cudadrv.driver.LinkerError", "builtins.RuntimeError", "builtins.Exception", "builtins.BaseException"]


def year(folder: Path, environments: list[str], files: int, observations: int) -> None:
    """Fill a folder with the records of nightly releases, of each environment in turn."""
    nights = -(-files // len(environments))
    names = [(e, f"0.31.0.dev{date(2026, 1, 1) + timedelta(n):%Y%m%d}") for n in range(nights) for e in environments]
    for number, (environment, release) in enumerate(names[:files]):
        write(folder, environment, release, observations, seed=number)


def write(folder: Path, environment: str, release: str, observations: int, seed: int) -> Path:
    """One record file; another seed gives other times, and a few other facts."""
    rng = random.Random(f"{folder.name} {seed}")
    path = folder / environment / f"{release}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines, counts = _lines(observations, rng)
    header, footer = json.dumps(_header(environment, release)), json.dumps({"kind": "footer", "counts": counts})
    path.write_text("\n".join([header, *lines, footer, ""]), encoding="utf-8")
    return path


def _header(environment: str, release: str) -> dict:
    return {
        "kind": "header", "schema": 1, "environment": environment, "release": release,
        "driver": {"kind": "device", "version": "13.0"}, "device": "made up", "compute_capability": "9.0",
        "python": "3.12.3", "platform": "linux-x86_64", "packages": {f"package-{i}": f"{i}.0" for i in range(30)},
        "libraries": {}, "settings": {}, "notes": [], "lock": "made-up", "source": "made-up", "suite": "made-up",
    }  # fmt: skip


def _lines(number: int, rng: random.Random) -> tuple[list[str], Counter]:
    """The observations' lines, and how many there are of each status."""
    lines, counts = [], Counter()
    for i in range(number):
        status, text = _line(i, not rng.randrange(_CHANGES))
        counts[status] += 1
        lines.append(text.replace(_TIMES, ", ".join(f'"{phase}": {rng.uniform(1, 9):.3f}' for phase in _PHASES)))
    return lines, counts


@cache
def _line(i: int, changed: bool) -> tuple[str, str]:
    """The status and the line of the scenario of number i, with a mark where its times belong."""
    facts = _skip() if i % _SKIPS == _SKIPS - 1 else _failure(i, changed) if i % _FAILS == 0 else _value(i, changed)
    common = {"profile": "core", "status": "conforms", "linker": "_Linker", "engine": "nvJitLink", "warnings": [], "reason": ""}
    record = {"kind": "observation", "scenario": list(catalogue())[i], **common, **facts, "milliseconds": _TIMES}
    return record["status"], json.dumps(record).replace(f'"{_TIMES}"', f"{{{_TIMES}}}")


def _skip() -> dict:
    nothing = {"outcome": None, "expected": None, "evidence": None, "image": None, "linker": "", "engine": ""}
    return {**nothing, "status": "skipped", "reason": "concerns numba-cuda >=0.27 only"}


def _failure(i: int, changed: bool) -> dict:
    text = f"nvJitLinkError: ERROR_PTX_COMPILE (4){' again' * changed}: " + f"ptxas application ptx input, line {i}; " * 6
    outcome = {"kind": "error", "phase": "complete", "type": "LinkerError", "bases": _BASES, "message": f"LinkerError: {text}", "own_message": text}
    expected = {"kind": "error", "linker": "_Linker", "type": "LinkerError", "phase": ["complete"], "message": "ptxas", "failure": "invalid"}
    return {"outcome": {**outcome, "digest": None}, "expected": expected, "evidence": "linked", "image": None}


def _value(i: int, changed: bool) -> dict:
    names = [f"function_{i}_{n}" for n in range(8)]
    kernel = {"registers": 24 + changed, "shared": 0, "local": 0, "constant": 640, "code": 768, "barriers": 0}
    image = {
        "architecture": "sm_90", "elf_type": "executable", "kernels": {n: kernel for n in ("kernel", "kernel#2")},
        "functions": names, "undefined": [], "globals": {n: 8 for n in names}, "line_info": False, "debug_info": False, "size": 8352,
    }  # fmt: skip
    outcome = {"kind": "value", "phase": "verify", "digest": f"{i:064x}"}
    return {"outcome": outcome, "expected": {"kind": "value", "linker": "_Linker"}, "evidence": "launched", "image": image}
