"""Kernels that are kept on disk, which linked files forbid."""

import importlib.util
import json
import os
import subprocess
import sys

from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile

SIGNATURE = "void(int32[::1], int32[::1])"
OPTIONS = {"plain": {}, "lto": {"lto": True}, "debug": {"debug": True, "opt": False}}

# Numba keeps compiled code beside the file that a kernel was written in, so that has to be one of its own.
_MODULE = """
from numba import cuda
import numpy as np

add_i32 = None


def thrice(out, a):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * 3


def meeting(out, a):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i]
    cuda.cg.this_grid().sync()
    if i < out.size:
        out[i] = out[i] * 3


def allocating(out, a):
    i = cuda.grid(1)
    if i < out.size:
        mine = np.empty(2, np.int32)
        mine[0] = a[i]
        out[i] = mine[0] * 3


def linked(out, a):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = add_i32(a[i], a[i])
"""


def _module(stage, text: str = _MODULE):
    """The module of kernels as a process imports it for the first time."""
    path = stage.folder / "kernels.py"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return _import(str(path))


def _import(path: str):
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _kernel(stage, module, name: str, **jit_options):
    return stage.jit(getattr(module, name), SIGNATURE, cache=True, **jit_options)


def _hits(kernel) -> int:
    return sum(kernel.stats.cache_hits.values())


def _expect_hits(kernel, wanted: int) -> None:
    if _hits(kernel) != wanted:
        raise AssertionError(f"{_hits(kernel)} hits instead of {wanted}")


def _launch(stage, kernel) -> None:
    import numpy as np

    a = np.arange(8, dtype=np.int32)
    stage.launch(kernel, a * 3, a)


@scenario(
    cases="C20",
    each={"kind": ("ptx", "cu", "cubin", "archive", "ltoir"), "form": ("path", "bytes")},
    when=lambda kind, form: form == "path" or kind in ("ptx", "cu"),
    needs=need,
    fails="cannot-be-cached",
    profile=profile,
)
def linked_file(stage, kind, form):
    """A kernel with a file in its own list."""
    module = _module(stage)
    module.add_i32 = stage.declare("add_i32", "int32(int32, int32)")
    _kernel(stage, module, "linked", link=[stage.input("add_i32", kind, form)], **options(kind))


@scenario(cases="C20", each={"kind": ("ptx", "cu")}, fails="cannot-be-cached")
def linked_by_declaration(stage, kind):
    """A kernel that calls a function whose declaration brings a file along."""
    module = _module(stage)
    link = [stage.input("add_i32", kind)]
    module.add_i32 = stage.declare("add_i32", "int32(int32, int32)", link=link)
    _kernel(stage, module, "linked")


@scenario(
    cases="C20",
    each={"option": OPTIONS},
    needs=lambda option: ["option:lto"] if option == "lto" else [],
    profile=lambda option: "extended" if option == "lto" else "core",
)
def nothing_linked(stage, option):
    """A kernel without external code: the second dispatcher finds it."""
    _expect_hits(_kernel(stage, _module(stage), "thrice", **OPTIONS[option]), 0)
    again = _kernel(stage, _module(stage), "thrice", **OPTIONS[option])
    _expect_hits(again, 1)
    _launch(stage, again)


@scenario(cases="C20")
def changed_source(stage):
    """A kernel whose file has changed is compiled again."""
    _kernel(stage, _module(stage), "thrice")
    text = _MODULE.replace("def thrice(out, a):", "def thrice(out, a):\n    # another line")
    again = _kernel(stage, _module(stage, text), "thrice")
    _expect_hits(again, 0)
    _launch(stage, again)


@scenario(cases=("C20", "C23"))
def run_time_only(stage):
    """A kernel that links nothing but Numba's run-time."""
    from conformance.scenarios.nrt import nrt

    with nrt(True):
        _kernel(stage, _module(stage), "allocating")
        again = _kernel(stage, _module(stage), "allocating")
        _expect_hits(again, 1)
        _launch(stage, again)


@scenario(cases="C21", needs=need("archive"))
def grid_sync(stage):
    """A kernel that links the device runtime, which is found afresh each time."""
    _kernel(stage, _module(stage), "meeting")
    if not list(stage.folder.glob("__pycache__/*.nbc")):
        raise AssertionError("nothing was written")
    again = _kernel(stage, _module(stage), "meeting")
    _expect_hits(again, 1)
    _launch(stage, again)


@scenario(cases="C20")
def second_process(stage):
    """A kernel that another process finds."""
    _kernel(stage, _module(stage), "thrice")
    command = [sys.executable, "-c", "from conformance.scenarios import caching; caching.second()"]
    told = json.dumps({"cell": stage.cell.to_json(), "module": str(stage.folder / "kernels.py")})
    done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=50, cwd=os.getcwd())
    if done.stdout.split() != ["hits", "1"]:
        raise AssertionError(f"the second process said {done.stdout!r} {done.stderr[-500:]!r}")


def second() -> None:
    """What the second process does: compile the same kernel, and say how often it was found."""
    import warnings

    from conformance.examine import enter
    from conformance.model import Cell
    from conformance.stage import Stage

    told = json.load(sys.stdin)
    cell = Cell.from_json(told["cell"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spy, _ = enter(cell)
        kernel = _kernel(Stage(cell, spy), _import(told["module"]), "thrice")
    print("hits", _hits(kernel))
