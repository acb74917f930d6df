"""Synchronising a whole grid, which links the device runtime, and printing from linked code."""

from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile

# The device runtime is an archive.
GRID = need("archive")
OPTIONS = {"lto": {"lto": True}, "debug": {"debug": True, "opt": False}, "registers": {"max_registers": 32}}


def _kernel(stage):
    """A kernel in which each block reads what the others have written before the grid met."""
    cuda = stage.cuda

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i]
        cuda.cg.this_grid().sync()
        if i < out.size:
            other = out[out.size - 1 - i]
            cuda.cg.this_grid().sync()
            out[i] = other + 1

    return kernel


def _launch(stage, kernel, blocks: int = 4) -> None:
    import numpy as np

    a = np.arange(64, dtype=np.int32)
    stage.launch(kernel, a[::-1] + np.int32(1), a, blocks=blocks)


@scenario(cases="C14", needs=GRID, each={"compilation": ("eager", "lazy")})
def grid_sync(stage, compilation):
    """Four blocks that meet twice."""
    signature = "void(int32[::1], int32[::1])" if compilation == "eager" else None
    _launch(stage, stage.jit(_kernel(stage), signature))


@scenario(
    cases="C14",
    each={"option": OPTIONS},
    needs=lambda option: [*(["option:lto"] if option == "lto" else []), *GRID],
    profile=lambda option: "extended" if option == "lto" else "core",
)
def grid_sync_with(stage, option):
    """Four blocks that meet twice, with an option that changes how they are linked."""
    _launch(stage, stage.jit(_kernel(stage), **OPTIONS[option]))


@scenario(
    cases="C14",
    each={"kind": ("ptx", "cu", "cubin", "archive", "ltoir"), "form": ("path", "bytes")},
    when=lambda kind, form: form == "path" or kind in ("cu", "archive"),
    needs=lambda kind, form: [*GRID, *need(kind, form)],
    profile=profile,
)
def grid_sync_and_linked_code(stage, kind, form):
    """Four blocks that meet between two calls of a linked function."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], 1)
        cuda.cg.this_grid().sync()
        if i < out.size:
            other = out[out.size - 1 - i]
            cuda.cg.this_grid().sync()
            out[i] = add(other, 1)

    a = np.arange(64, dtype=np.int32)
    kernel = stage.jit(kernel, link=[stage.input("add_i32", kind, form)], **options(kind))
    stage.launch(kernel, a[::-1] + np.int32(2), a, blocks=4)


@scenario(cases="C14", needs=GRID)
def grid_sync_in_a_callee(stage):
    """A device function in which the grid meets."""
    import numpy as np

    cuda = stage.cuda

    @cuda.jit(device=True)
    def meet():
        cuda.cg.this_grid().sync()

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i]
        meet()
        if i < out.size:
            other = out[out.size - 1 - i]
            meet()
            out[i] = other + 1

    a = np.arange(64, dtype=np.int32)
    stage.launch(stage.jit(kernel), a[::-1] + np.int32(1), a, blocks=4)


@scenario(cases="C14", needs=GRID, device="how many blocks fit is the device's to say")
def largest_grid(stage):
    """As many blocks as the driver says that can meet, and an error for more."""
    import numpy as np

    kernel = stage.jit(_kernel(stage), "void(int32[::1], int32[::1])")
    blocks = kernel.overloads[kernel.signatures[0]].max_cooperative_grid_blocks(32)
    a = np.arange(32 * blocks, dtype=np.int32)
    stage.launch(kernel, a[::-1] + np.int32(1), a, blocks=blocks)
    try:
        stage.call(kernel, (blocks + 1, 32), np.zeros_like(a), a)
    except Exception:  # whose class is the launch's matter, not the linker's
        return
    raise AssertionError(f"{blocks + 1} blocks met, where {blocks} are said to fit")


# -- the device runtime -------------------------------------------------------------------------


def _with_runtime_at(stage, path: str) -> None:
    """The grid's kernel, where looking for the device runtime leads to that path."""
    from numba.cuda import codegen

    looked_for = codegen.get_cudalib
    codegen.get_cudalib = lambda *names, **facts: path
    try:
        _launch(stage, stage.jit(_kernel(stage)))
    finally:
        codegen.get_cudalib = looked_for


@scenario(cases="C15", fails="no-device-runtime")
def runtime_absent(stage):
    """A device runtime that is not where it was looked for."""
    _with_runtime_at(stage, "/nonexistent/libcudadevrt.a")


@scenario(cases="C15", fails="shared-device-runtime")
def runtime_is_shared(stage):
    """A shared library in place of the device runtime's archive."""
    _with_runtime_at(stage, "/nonexistent/libcudadevrt.so")


@scenario(cases="C15", needs=GRID)
def runtime_of_this_environment(stage):
    """The device runtime that is linked is that of the environment's own packages, not the system's."""
    import sys

    from numba.cuda.cudadrv.libs import get_cudalib

    _launch(stage, stage.jit(_kernel(stage)))
    path = get_cudalib("cudadevrt", static=True)
    if not path.startswith(sys.prefix):
        raise AssertionError(f"{path} is linked, which is outside of {sys.prefix}")


# -- printing -----------------------------------------------------------------------------------


@scenario(each={"kind": ("ptx", "cu", "cubin", "archive")}, needs=need)
def printing_with_linked_code(stage, kind):
    """A kernel that prints, with linked code."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])
            print("element", i, out[i])

    a = np.arange(4, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=[stage.input("add_i32", kind)]), a + a, a)


@scenario(each={"kind": ("ptx", "cu", "cubin", "fatbin", "ltoir")}, needs=need, profile=profile)
def linked_code_that_prints(stage, kind):
    """Linked code that prints, in a kernel that does too."""
    import numpy as np

    cuda = stage.cuda
    tell = stage.declare("tell_i32", "int32(int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = tell(a[i])
            print("element", i)

    a = np.arange(4, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=[stage.input("tell_i32", kind)], **options(kind)), a + 1, a)
