"""Synchronising a whole grid, which links the device runtime, and printing from linked code."""

from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile

# The device runtime is an archive.
GRID = need("archive")


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


@scenario(cases="C14", needs=GRID, each={"option": ("lto", "debug", "lineinfo")})
def grid_sync_with(stage, option):
    """Four blocks that meet twice, with an option that changes how they are linked."""
    _launch(stage, stage.jit(_kernel(stage), **OPTIONS[option]))
