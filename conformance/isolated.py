"""Runs a scenario in a process of its own, which may crash, hang or eat memory as it likes.

The processes are forked from a server that has imported numba.cuda but never initialised the driver,
so that one costs tens of milliseconds and not a second.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from conformance.model import Cell
from conformance.scenario import catalogue

# Private memory of one scenario's process, in bytes. Address space would be the wrong measure: a CUDA
# driver reserves far more of it than the machine has memory.
MEMORY = 8 << 30


def observe_isolated(scenario_id: str, cell: Cell, seconds: float) -> dict:
    """Observe a scenario in a process of its own; a crash or a hang is an outcome like any other."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["conformance.preload"])
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, scenario_id, cell.to_json()))
    process.start()
    theirs.close()
    try:
        answer, phase = _await(ours, process.sentinel, time.monotonic() + seconds)
    finally:
        _end(process)
    if isinstance(answer, dict):
        return answer
    return _lost(answer, phase, process.exitcode, seconds)


def _await(connection, ended: int, deadline: float) -> tuple[dict | str, str]:
    """The child's observation, or `crash` or `timeout`, with the last phase that it told.

    `ended` becomes readable with the child's end; a process that the child started may hold the
    connection open for longer.
    """
    phase = "import"
    while True:
        left = max(deadline - time.monotonic(), 0)
        ready = multiprocessing.connection.wait([connection, ended], left)
        if not ready:
            return "timeout", phase
        if not connection.poll():
            return "crash", phase
        try:
            kind, value = connection.recv()
        except (EOFError, OSError):
            return "crash", phase
        if kind == "observation":
            return value, phase
        phase = value


def _end(process) -> None:
    """Wait briefly for the child, then kill it if it still runs, and everything that it started."""
    process.join(0.5)
    if process.exitcode is None:
        process.kill()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # the usual case: nothing is left
    process.join()
    for folder in Path(tempfile.gettempdir()).glob(f"conformance-{process.pid}-*"):
        shutil.rmtree(folder, ignore_errors=True)  # the stage's, where the child did not live to close it


def _lost(kind: str, phase: str, exitcode: int | None, seconds: float) -> dict:
    if kind == "timeout":
        message = f"no end after {seconds:g} s"
    elif exitcode is not None and exitcode < 0:
        message = f"killed by {signal.Signals(-exitcode).name}"
    else:
        message = f"the process ended by itself with exit code {exitcode}"
    return lost(kind, phase, message)


def lost(kind: str, phase: str, message: str) -> dict:
    """The observation of a scenario whose process did not live to tell."""
    return {
        "outcome": {"kind": kind, "phase": phase, "type": None, "message": message, "digest": None},
        "evidence": "selected",
        "linker": "",
        "engine": "",
        "warnings": [],
        "image": None,
        "milliseconds": {},
    }


def _child(connection, scenario_id: str, document: dict) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _silence()
    import warnings

    from conformance.examine import enter
    from conformance.observe import run_scenario

    cell = Cell.from_json(document)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import's warnings are the examination's matter
        spy, failed = enter(cell)
    if failed:
        answer = {**lost("error", "import", failed["message"]), "outcome": failed}
    else:
        spy.on_phase = lambda phase: connection.send(("phase", phase))
        _meet_once_warnings(cell, spy)
        answer = run_scenario(catalogue()[scenario_id], cell, spy)
    connection.send(("observation", answer))
    connection.close()


def _meet_once_warnings(cell: Cell, spy) -> None:
    """Where the first link of a process warns, let it, so that the scenario's warnings are its own."""
    if cell.expected.warnings:
        from conformance.examine import _link_a_kernel
        from conformance.observe import observe

        observe(_link_a_kernel, cell, spy)


def _silence() -> None:
    """What a scenario floods its output with is nobody's business."""
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
