"""Scenarios that meet the fake's vices: the code that they link bears a vice's name."""

import vices

from conformance.model import ExpectedWarning
from conformance.scenario import scenario


def _met_by(scenarios: str) -> dict:
    return {"vice": [v.name for v in vices.VICES.values() if scenarios in v.scenarios]}


def _add(stage, code) -> None:
    """A kernel that calls add_i32 and links `code`."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(16, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=[code]), a + a, a)


@scenario(each=_met_by("value"))
def value(stage, vice):
    """A value is expected."""
    _add(stage, stage.input(vice, "ptx"))


@scenario(each=_met_by("alone"))
def alone(stage, vice):
    """A value is expected, and its vice would end a run of many."""
    _add(stage, stage.input(vice, "ptx"))


@scenario(each=_met_by("missing"), fails="missing-file")
def missing(stage, vice):
    """The error about a missing file is expected."""
    _add(stage, f"/nonexistent/{vice}.ptx")


@scenario(each=_met_by("warning"), warnings=ExpectedWarning("UserWarning", "beware"))
def warning(stage, vice):
    """A value and a warning are expected."""
    _add(stage, stage.input(vice, "ptx"))


@scenario(each=_met_by("repeating"), repeats=True)
def repeating(stage, vice):
    """A value that stays the same is expected."""
    _add(stage, stage.input(vice, "ptx"))


@scenario(each=_met_by("isolated"), isolated=True)
def isolated(stage, vice):
    """A value is expected, from a process of its own."""
    _add(stage, stage.input(vice, "ptx"))
