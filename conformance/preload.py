"""Imported once by the server from which isolated scenarios are forked; never touches the driver.

What a process compiles first takes ten times as long as what it compiles next, so the server compiles
a kernel that uses what scenarios use, and each fork starts from there.
"""

import os
import warnings

# A compute capability that every supported CUDA has: asking for one keeps numba-cuda from asking a device.
_COMPUTE_CAPABILITY = (8, 0)


def _compile_a_kernel() -> None:
    from numba import cuda, types

    _answer_for_cudart()

    add = cuda.declare_device("add", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    signature = (types.int32[::1], types.int32[::1])
    cuda.compile_ptx(kernel, signature, cc=_COMPUTE_CAPABILITY)


def _answer_for_cudart() -> None:
    """What every cell does as it is entered: without it, looking for NVVM would leave half of one behind."""
    from numba.cuda.cudadrv import runtime

    from conformance.examine import _answer_for_cudart as answer

    version = os.environ.get("RECORDING_DRIVER_VERSION")
    if version:
        answer(runtime, version)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        import numba.cuda  # noqa: F401

        import conformance.examine  # noqa: F401

        _compile_a_kernel()
    except Exception:  # noqa: S110 - the scenario itself meets the same error and tells it
        pass
