"""Links by hand, step by step, inside an environment: what the benchmark times and the soak repeats.

Nothing is watched here, so that nothing but the linker's own work is measured.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from conformance.model import Cell, record

SIGNATURE = "void(int32[::1], int32[::1])"
# The suffixes of the seven kinds, as `products.py` writes them; that module needs tools that no environment has.
SUFFIXES = {
    "ptx": ".ptx", "cu": ".cu", "cubin": ".cubin", "fatbin": ".fatbin", "object": ".o", "archive": ".a", "ltoir": ".ltoir",
}  # fmt: skip


@record
class Case:
    """What is linked: an input kind, how many functions each input has, how many inputs, and whether with LTO."""

    kind: str
    functions: int = 1
    inputs: int = 1
    lto: bool = False

    @property
    def name(self) -> str:
        """Such as `ptx 1x100`: hundred inputs of one function each."""
        return f"{self.kind}{'+lto' if self.lto else ''} {self.functions}x{self.inputs}"

    def files(self, folder: Path) -> list[str]:
        """The inputs, in a folder that `bench_inputs.build` made; their first has the function that the kernel calls."""
        stem = f"many_{self.functions}" if self.functions > 1 else "one"
        return [str(folder / f"{stem}_{i}{SUFFIXES[self.kind]}") for i in range(self.inputs)]


def enter(cell: Cell):
    """Import numba.cuda as the cell wants it; returns the module."""
    from conformance import examine

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite's matter
        import numba.cuda
        from numba.cuda.cudadrv import driver, runtime

        if cell.driver.kind == "recording":
            examine._answer_for_cudart(runtime, cell.driver.version)
        elif cell.environment.reports:
            examine._answer_for_driver(driver, cell.environment.reports)
    return numba.cuda


class Bench:
    """The steps of a link, as numba-cuda itself takes them when a kernel is compiled."""

    def __init__(self, cuda):
        from numba.cuda.cudadrv import driver

        self.context = cuda.current_context()
        self.capability = cuda.get_current_device().compute_capability
        made = getattr(driver, "_Linker", None) or driver.Linker
        self._make = getattr(made, "new", made)
        self._cuda = cuda
        self._kernels: dict[bool, bytes] = {}

    def kernel(self, lto: bool) -> bytes:
        """A kernel that calls `function_0`, compiled once: PTX, or LTO-IR."""
        if lto not in self._kernels:
            how = {"device": False, "cc": self.capability, "abi": "numba", "output": "ltoir" if lto else "ptx"}
            code, _ = self._cuda.compile(calling(self._cuda), SIGNATURE, **how)
            self._kernels[lto] = code if lto else code.encode()
        return self._kernels[lto]

    def construct(self, lto: bool):
        """A linker, as the release itself makes it."""
        return self._make(cc=self.capability, **({"lto": True} if lto else {}))

    def add(self, linker, case: Case, files: list[str]) -> None:
        """The kernel, then the inputs."""
        (linker.add_ltoir if case.lto else linker.add_ptx)(self.kernel(case.lto))
        for file in files:
            linker.add_file_guess_ext(file)

    def load(self, image):
        """The image as a module, with one of its functions looked up."""
        return self.context.create_module_image(image)


def calling(cuda):
    """A kernel, not compiled yet, that calls the function that every case has."""
    function = cuda.declare_device("function_0", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(a[i], a[i])

    return kernel
