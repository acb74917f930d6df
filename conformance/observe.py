"""Runs one scenario and says what it did: the observation, without any judgement."""

from __future__ import annotations

import os
import re
import site
import tempfile
import warnings

from conformance.model import Cell
from conformance.scenario import Scenario
from conformance.spy import Spy

# A linker's log can be megabytes; what an error says stands at its beginning.
_LONGEST_MESSAGE = 2000


def observe(run, cell: Cell, spy: Spy, stage=None) -> dict:
    """Run `run(stage)` and return outcome, linker, engine, evidence, warnings, image and times.

    Every exception becomes an outcome, SystemExit included; only the user's KeyboardInterrupt passes.
    """
    from conformance.stage import NotLaunched, Stage

    spy.reset()
    outcome: dict = {"kind": "value", "phase": "verify", "digest": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            stage = stage or Stage(cell, spy)
            run(stage)
            outcome["digest"] = stage.digest if stage.launched else None
            outcome["phase"] = spy.phase
        except NotLaunched:
            outcome["phase"] = "load"
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            outcome = {"kind": "error", "phase": spy.phase, **describe(error, cell)}
            outcome["digest"] = stage.digest if stage and stage.launched else None
        finally:
            if stage:
                stage.close()
    launched = bool(stage and stage.launched)
    return {
        "outcome": outcome,
        "evidence": _evidence(outcome, launched, cell, spy),
        "linker": _only(spy.linkers),
        "engine": spy.engine,
        "warnings": [describe_warning(w, cell) for w in caught],
        "image": _image_facts(spy),
        "milliseconds": {phase: round(t, 3) for phase, t in spy.milliseconds.items()},
    }


def run_scenario(scenario: Scenario, cell: Cell, spy: Spy) -> dict:
    """Observe a scenario of the catalogue."""
    return observe(lambda stage: scenario.run(stage, **scenario.parameters), cell, spy)


def _only(linkers: list[str]) -> str:
    """The linker's class name; several where a scenario met several, which no expectation fits."""
    return "+".join(dict.fromkeys(linkers))


def _evidence(outcome: dict, launched: bool, cell: Cell, spy: Spy) -> str:
    if launched:
        return "launched"
    spoken = bool(spy.images) or (outcome["kind"] == "error" and outcome["phase"] == "complete")
    if not spoken:
        return "selected"
    emulated = cell.expected.emulated and cell.driver.kind == "recording"
    return "emulated" if emulated else "linked"


def _image_facts(spy: Spy) -> dict | None:
    from conformance.image import NotAnImage, facts

    if not spy.images:
        return None
    try:
        return facts(spy.images[-1])
    except NotAnImage as error:
        return {"fault": str(error)}


def describe(error: BaseException, cell: Cell) -> dict:
    """An exception as data: class, base classes, and the texts of its whole chain."""
    cls = type(error)
    return {
        "type": cls.__name__,
        "bases": [f"{c.__module__}.{c.__qualname__}" for c in cls.__mro__[:-1]],
        "message": shorten("\n".join(_chain(error)), cell)[:_LONGEST_MESSAGE],
        "own_message": shorten(_text(error), cell)[:_LONGEST_MESSAGE],
        "digest": None,
    }


def _chain(error: BaseException | None) -> list[str]:
    """The texts of an exception and of what caused it, outermost first."""
    texts: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        texts.append(f"{type(error).__name__}: {_text(error)}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return texts


def _text(error: BaseException | str) -> str:
    """What an exception or a warning says, without what no UTF-8 text can hold."""
    try:
        return str(error).encode(errors="backslashreplace").decode().replace("\0", "").strip()
    except Exception as fault:  # an exception that cannot say what it is must not end the run
        return f"<no text: {type(fault).__name__}>"


def describe_warning(caught: warnings.WarningMessage, cell: Cell) -> dict:
    """A warning as data: its category's class name and its text."""
    text = shorten(_text(caught.message), cell)[:_LONGEST_MESSAGE]
    return {"category": caught.category.__name__, "message": text}


def shorten(text: str, cell: Cell) -> str:
    """Replace what belongs to this machine (folders, addresses) by what it stands for."""
    places = [(cell.fixtures, "<fixtures>"), *((p, "<site-packages>") for p in site.getsitepackages())]
    places += [(tempfile.gettempdir(), "<tmp>"), (os.getcwd(), "<suite>"), (os.path.expanduser("~"), "~")]
    for folder, word in places:
        text = text.replace(folder, word) if len(folder) > 1 else text
    text = re.sub(r"<tmp>/conformance-[0-9]+-\w+", "<folder>", text)
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", text)
