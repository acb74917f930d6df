"""The fake's front end: kernels are Python functions that run once a thread."""

import functools
import operator
from pathlib import Path

import vices

from numba.cuda.cudadrv import driver

FUNCTIONS = {
    "add_i32": operator.add,
    "mul_f32": operator.mul,
    "twice_i32": lambda a: 2 * a,
    "axpy_f64": lambda a, x, y: a * x + y,
}
_thread = 0

vices.act("import", [])


class _Code:
    """Linkable code in memory."""

    def __init__(self, data, name: str):
        self.data, self.name = data, name


PTXSource = CUSource = Cubin = Fatbin = Object = Archive = LTOIR = _Code


class _Declared:
    """An external device function, computed in Python."""

    def __init__(self, name: str, signature: str):
        self.name = name

    def __call__(self, *arguments):
        return FUNCTIONS[self.name](*arguments)


def declare_device(name: str, signature: str) -> _Declared:
    """Declare an external device function."""
    return _Declared(name, signature)


def grid(dimensions: int) -> int:
    """The number of the thread that runs."""
    return _thread


def synchronize() -> None:
    """Nothing runs by itself here."""


def jit(signature=None, link=(), lto: bool = False):
    """Make a kernel of a function; linked at once where a signature is given."""

    def decorate(function):
        kernel = _Kernel(function, link, lto)
        if signature:
            kernel.link()
        return kernel

    return decorate


class _Kernel:
    def __init__(self, function, code, lto: bool):
        self.function, self.code, self.lto = function, code, lto
        self.names = [Path(getattr(item, "name", item)).stem for item in code]

    @functools.lru_cache  # noqa: B019 - kernels are few
    def link(self) -> None:
        linker = (vices.act("choose", self.names) or driver.CtypesLinker)(self.names, self.lto)
        for item in self.code:
            if isinstance(item, _Code):
                linker.add_data(item.data)
            else:
                linker.add_file(item)
        held = [cell.cell_contents for cell in self.function.__closure__ or ()]
        declared = [one.name for one in held if isinstance(one, _Declared)]
        image = linker.complete([name for name in declared if name not in FUNCTIONS])
        driver.Context().create_module_image(image)

    def __getitem__(self, configuration):
        return functools.partial(self._launch, *configuration)

    def _launch(self, blocks: int, threads: int, *arguments) -> None:
        global _thread
        self.link()
        idle = vices.act("launch", self.names) or 0
        for _thread in range(blocks * threads - idle):
            self.function(*arguments)
        vices.act("launched", self.names, arguments[0])
