"""Numba's run-time for allocations (NRT), which is linked as CUDA C++ where a kernel needs it."""

import sys
from contextlib import contextmanager

from conformance.scenario import scenario
from conformance.scenarios.inputs import need

FORMS = ("path", "bytes", "text")


@contextmanager
def nrt(on: bool):
    """Numba's run-time switched on or off, as `numba.config.CUDA_ENABLE_NRT` does it."""
    config = sys.modules["numba.cuda.target"].config
    before = getattr(config, "CUDA_ENABLE_NRT", False)
    config.CUDA_ENABLE_NRT = on
    try:
        yield
    finally:
        config.CUDA_ENABLE_NRT = before


def _source(stage, name: str, form: str, **facts):
    path = stage.fixtures.path(name, "cu")
    if form == "path":
        return str(path)
    return stage.code(path.read_text() if form == "text" else path.read_bytes(), "cu", path.name, **facts)


def _launch(stage, function: str, **jit_options) -> None:
    """A kernel that calls a function of one int32 which adds one to it."""
    import numpy as np

    cuda = stage.cuda
    declared = {"link": jit_options.pop("declared")} if "declared" in jit_options else {}
    add_one = stage.declare(function, "int32(int32)", **declared)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add_one(a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel, **jit_options), a + 1, a)


@scenario(cases="C23")
def allocates(stage):
    """A kernel that allocates an array."""
    import numpy as np

    cuda = stage.cuda

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            mine = np.empty(4, np.int32)
            for k in range(4):
                mine[k] = a[i] + k
            out[i] = mine[0] + mine[3]

    a = np.arange(8, dtype=np.int32)
    with nrt(True):
        stage.launch(stage.jit(kernel), 2 * a + 3, a)


@scenario(cases="C23", each={"kind": ("cubin",)}, needs=need)
def allocates_and_links(stage, kind):
    """A kernel that allocates an array and calls linked code that does not."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            mine = np.empty(2, np.int32)
            mine[0] = a[i]
            out[i] = add(mine[0], a[i])

    a = np.arange(8, dtype=np.int32)
    with nrt(True):
        stage.launch(stage.jit(kernel, link=[stage.input("add_i32", kind)]), a + a, a)


@scenario(cases="C23", each={"form": FORMS, "on": ("on", "off")})
def source_without_need(stage, form, on):
    """CUDA C++ that needs no run-time, with it and without."""
    with nrt(on == "on"):
        _launch(stage, "heap_free_i32", link=[_source(stage, "heap_free_i32", form)])


@scenario(
    cases="C23",
    each={"kind": ("cu", "cubin")},
    needs=lambda kind: need(kind, "bytes"),
)
def flagged(stage, kind):
    """An item that says that it uses the run-time, in the kernel's own list."""
    with nrt(True):
        _launch(stage, "heap_i32", link=[_item(stage, kind, nrt=True)])


def _item(stage, kind: str, **facts):
    path = stage.fixtures.path("heap_i32", kind)
    return stage.code(path.read_bytes(), kind, path.name, **facts)


@scenario(cases="C23")
def flagged_in_declaration(stage):
    """An item that says that it uses the run-time, in a function's declaration."""
    with nrt(True):
        _launch(stage, "heap_i32", declared=[_item(stage, "cu", nrt=True)])


@scenario(cases="C23", fails="undefined-run-time", isolated=True)
def not_flagged(stage):
    """An item that uses the run-time and does not say so."""
    with nrt(True):
        _launch(stage, "heap_i32", link=[_item(stage, "cu")])


@scenario(cases="C23", fails="undefined-run-time", isolated=True)
def flagged_but_off(stage):
    """An item that says that it uses the run-time, while that is switched off."""
    with nrt(False):
        _launch(stage, "heap_i32", link=[_item(stage, "cu", nrt=True)])


@scenario(cases="C23")
def two_flagged(stage):
    """Two kernels that share one list of items: the run-time is linked once into each."""
    link = [_item(stage, "cu", nrt=True)]
    with nrt(True):
        for _ in range(2):
            _compile(stage, link)
    if len(link) != 1:
        raise AssertionError(f"the caller's list of one item has {len(link)} now")


def _compile(stage, link) -> None:
    add_one = stage.declare("heap_i32", "int32(int32)")

    def kernel(out):
        out[0] = add_one(out[0])

    stage.jit(kernel, "void(int32[::1])", link=link)
