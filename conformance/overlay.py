"""Environments with another nvJitLink or without a driver, which no lock can say; LTO-IR to link there."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

from conformance import environments
from conformance.paths import LOCKS, cache
from conformance.toolchain import Toolchain, find_library, sm


def with_nvjitlink(interpreter: Path, wanted: str, newest: Path) -> Path:
    """The interpreter of an environment whose nvJitLink is `present`, `missing` or `too-old`.

    A copy (hard links, so it costs nothing) without nvJitLink's files, and with another one where wanted:
    cuda.pathfinder looks into the packages' folders first, and nothing has to be patched. newest: the
    library for an environment that has none of its own, though it is wanted.
    """
    folder = interpreter.parents[1]
    present = any(folder.rglob("libnvJitLink.so.*"))
    if (wanted == "present") == present and wanted != "too-old":
        return interpreter
    library = None
    if wanted == "present":
        library = newest
    elif wanted == "too-old":
        library = find_library(environments.toolchain(LOCKS / "nvjitlink-old.txt"), "libnvJitLink.so.*")
    copy = cache("selection", f"{folder.name}-{wanted}-{library.parents[3].name if library else 'none'}")
    environments._once(copy, lambda: _copy(folder, copy, library))
    return copy / "bin" / "python"


def _copy(folder: Path, copy: Path, library: Path | None) -> None:
    def ignored(_, names: list[str]) -> list[str]:
        return [name for name in names if name.startswith("libnvJitLink")]

    shutil.copytree(folder, copy, symlinks=True, copy_function=os.link, ignore=ignored)
    (copy / "complete").unlink(missing_ok=True)
    if library:
        place = next(copy.glob("lib/*/site-packages")) / "nvidia" / "nvjitlink" / "lib"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place / library.name)


def without_driver() -> dict[str, str]:
    """The variables of a process that finds no driver, also on a machine that has one."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    # The loader takes what it finds first, and an empty file is no library.
    folder = cache("selection", "no-driver")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("libcuda.so", "libcuda.so.1"):
        (folder / name).touch()
    return {"LD_LIBRARY_PATH": str(folder), "NUMBA_CUDA_DRIVER": str(folder / "libcuda.so.1")}


def ltoir(toolchain: Path, cuda_major: int, compute_capability: str) -> Path:
    """A file of LTO-IR with the least in it."""
    folder = cache("selection", f"ltoir-{toolchain.name}-{compute_capability}")

    def make() -> None:
        source = b'extern "C" __device__ int nothing() { return 0; }'
        architecture = f"--gpu-architecture=compute_{sm(compute_capability)}"
        options = [architecture, "--relocatable-device-code=true", "-dlto"]
        folder.mkdir()
        compiled = Toolchain(toolchain, cuda_major).compile("nothing.cu", source, options)
        (folder / "nothing.ltoir").write_bytes(compiled.ltoir)

    environments._once(folder, make)
    return folder / "nothing.ltoir"
