"""The recording driver: compiled once from `fixtures/driver/`, and put before the processes that want it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from filelock import FileLock

from conformance.errors import SuiteError

SOURCES = Path(__file__).resolve().parent.parent / "fixtures" / "driver"
_LIBRARY = "libcuda.so.1"
_FLAGS = ("-std=gnu11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{_LIBRARY}")


def build(cache: Path, sources: Path = SOURCES) -> Path:
    """Compile the driver unless the cache has it; returns the folder with `libcuda.so.1`.

    The C compiler is `$CC`, or the first of cc, gcc and clang. Raises SuiteError without one, and with
    its diagnostics where the source does not compile.
    """
    compiler = _compiler()
    folder = Path(cache) / f"recording-{_key(compiler, sources)}"
    try:
        Path(cache).mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not (folder / _LIBRARY).exists():
                folder.mkdir(exist_ok=True)
                _compile(compiler, sources, folder)
    except OSError as error:
        raise SuiteError(
            f"the recording driver cannot be kept in {cache} ({error.strerror or error}): "
            "make it writable, or name another folder in CONFORMANCE_CACHE"
        ) from error
    return folder


def environment(folder: Path, *, version: str, compute_capability: str, nvjitlink: Path) -> dict[str, str]:
    """The variables of a process that shall meet the recording driver instead of the machine's.

    folder: what `build` returned. version: the driver version that it says (`12.9`).
    compute_capability: of its device (`9.0`). nvjitlink: the library that serves cuLink*.
    """
    for name, value in (("driver version", version), ("compute capability", compute_capability)):
        if not re.fullmatch(r"\d+\.\d", value):
            raise SuiteError(f"the {name} {value!r} is not of the form 12.9")
    return {
        # There is no libcuda.so beside libcuda.so.1: nvJitLink 12.1 would look for the former, ask it
        # for tables that only the real driver has, and refuse to work. Numba's ctypes binding asks
        # for libcuda.so first as well, and is told where to go.
        "LD_LIBRARY_PATH": str(folder),
        "NUMBA_CUDA_DRIVER": str(folder / _LIBRARY),
        "RECORDING_DRIVER_VERSION": version,
        "RECORDING_DRIVER_CC": compute_capability,
        "RECORDING_DRIVER_NVJITLINK": str(nvjitlink),
    }


def _compiler() -> str:
    wanted = os.environ.get("CC")
    for name in (wanted.split()[0],) if wanted else ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return found
    raise SuiteError(
        f"the recording driver needs a C compiler, and there is no {wanted or 'cc, gcc or clang'} on "
        "PATH: install gcc, or run on a machine with a GPU and --driver device"
    )


def _key(compiler: str, sources: Path) -> str:
    """What the library follows from: the sources, the flags and the compiler."""
    said = subprocess.run([compiler, "--version"], capture_output=True, encoding="utf-8", errors="replace").stdout
    whole = hashlib.sha256("\n".join([compiler, said, *_FLAGS]).encode())
    for path in sorted(sources.glob("*.[ch]")):
        whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()[:12]


def _compile(compiler: str, sources: Path, folder: Path) -> None:
    """Compile into place at once, so that nobody ever loads half a library."""
    unfinished = folder / f"{_LIBRARY}.{os.getpid()}"
    command = [compiler, *_FLAGS, "-o", str(unfinished), *map(str, sorted(sources.glob("*.c")))]
    done = subprocess.run([*command, "-ldl", "-lpthread"], capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise SuiteError(f"the recording driver does not compile with {compiler}:\n{done.stderr.strip()}")
    unfinished.rename(folder / _LIBRARY)
