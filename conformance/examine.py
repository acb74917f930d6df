"""The first thing in every cell: import numba.cuda, link a kernel, and say what is really there."""

from __future__ import annotations

import ctypes
import importlib.metadata
import platform
import re
import warnings
from collections.abc import Callable
from pathlib import Path

from conformance.model import Cell
from conformance.observe import describe, describe_warning, observe, shorten
from conformance.spy import Spy

# Distributions that can change how a kernel is linked.
_PACKAGES = re.compile(
    r"^(numba|llvmlite|numpy|cuda|nvidia|pynvjitlink|cubinlinker|ptxcompiler)([-_].*)?$", re.I
)
_LIBRARIES = re.compile(r"lib(cuda|nvvm|nvrtc|nvJitLink|cudart|nvfatbin|nvptxcompiler)\b[^/]*$|(cubinlinker|ptxcompiler)[^/]*\.so$")


def enter(cell: Cell, on_phase: Callable[[str], None] | None = None) -> tuple[Spy, dict | None]:
    """Import numba.cuda and put the spy in place; `on_phase` is the spy's.

    Returns the spy, and None or the observation of an import that failed. Warnings of the import
    pass on to the caller's filters.
    """
    spy = Spy()
    spy.on_phase = on_phase
    spy.phase = "import"
    try:
        import numba.cuda
        from numba.cuda.cudadrv import driver, runtime

        if cell.driver.kind == "recording":
            _answer_for_cudart(runtime, cell.driver.version)
        elif cell.environment.reports:
            _answer_for_driver(driver, cell.environment.reports)
        spy.install(driver, cell.linker_classes)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return spy, {"kind": "error", "phase": "import", **describe(error, cell)}
    return spy, None


def _answer_for_cudart(runtime, version: str) -> None:
    """libcudart 11.8 wants tables that only the real driver has; its one answer is given in its place."""
    wanted = tuple(int(part) for part in version.split("."))
    if hasattr(runtime.Runtime, "get_version"):
        runtime.Runtime.get_version = lambda self: wanted


def _answer_for_driver(driver, version: str) -> None:
    """Tell numba-cuda, and nobody else in the process, that the driver has another version."""
    wanted = tuple(int(part) for part in version.split("."))
    driver.Driver.get_version = lambda self: wanted


def examine(cell: Cell, on_phase: Callable[[str], None] | None = None) -> tuple[Spy, dict]:
    """Enter the cell and link a kernel without any external code; the observation says how it went."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spy, failed = enter(cell, on_phase)
    if failed:
        observation = {
            "outcome": failed,
            "evidence": "selected",
            "linker": "",
            "engine": "",
            "warnings": [],
            "image": None,
            "milliseconds": {},
        }
    else:
        observation = observe(_link_a_kernel, cell, spy)
    at_import = [describe_warning(w, cell) for w in caught]
    observation["warnings"] = at_import + observation["warnings"]
    return spy, observation


def _link_a_kernel(stage) -> None:
    import numpy as np

    cuda = stage.cuda

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = i + 1

    stage.launch(stage.jit(kernel), np.arange(1, 33, dtype=np.int32))


def header(cell: Cell) -> dict:
    """The facts of a record's header."""
    return {
        "environment": cell.environment.name,
        "release": cell.subject,
        **({"candidate": cell.candidate} if cell.candidate else {}),
        "driver": {"kind": cell.driver.kind, "version": cell.driver.version},
        "device": cell.driver.device,
        "compute_capability": cell.driver.compute_capability,
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}-{platform.machine()}",
        "packages": packages(),
        "libraries": libraries(cell),
        "settings": cell.environment.settings,
        "notes": cell.notes,
        "lock": cell.lock,
        "source": cell.source,
        "suite": cell.suite,
    }


def packages() -> dict[str, str]:
    """Versions of the installed distributions that can change a link."""
    found = ((d.metadata["Name"], d.version) for d in importlib.metadata.distributions())
    return dict(sorted((name, version) for name, version in found if _PACKAGES.match(name)))


def libraries(cell: Cell) -> dict[str, dict]:
    """The compiler and driver libraries that this process has loaded: path (shortened) and version."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return {}
    paths = sorted({line.split(maxsplit=5)[5] for line in lines if line.count("/") and ".so" in line})
    found = {}
    for path in paths:
        if _LIBRARIES.search(path):
            name = Path(path).name.split(".")[0]
            found[name] = {"path": _library_path(path, cell), "version": _version(path)}
    return found


def _library_path(path: str, cell: Cell) -> str:
    if cell.driver.kind == "recording" and "libcuda.so" in path:
        return "<recording driver>"
    return shorten(path, cell)


def _version(path: str) -> str | None:
    """What a library says of its own version, or None where it has no such function."""
    library = ctypes.CDLL(path)
    for name in ("nvrtcVersion", "nvvmVersion", "nvJitLinkVersion", "__nvJitLinkVersion", "nvPTXCompilerGetVersion"):
        function = getattr(library, name, None)
        if function is not None:
            major, minor = ctypes.c_uint(), ctypes.c_uint()
            if function(ctypes.byref(major), ctypes.byref(minor)) == 0:
                return f"{major.value}.{minor.value}"
    version = ctypes.c_int()
    if hasattr(library, "cuDriverGetVersion") and library.cuDriverGetVersion(ctypes.byref(version)) == 0:
        return f"{version.value // 1000}.{version.value % 1000 // 10}"
    return None
