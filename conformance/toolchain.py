"""NVRTC and nvFatbin through ctypes, and the two tools of the host: what the fixtures are built with.

NVRTC alone gives PTX, cubin and LTO-IR, so that neither nvcc nor ptxas nor a GPU is needed. The
functions are those of https://docs.nvidia.com/cuda/nvrtc/ and
https://docs.nvidia.com/cuda/nvfatbin/. A toolchain is a folder: a `pip install --target` folder
with the packages of `matrices/toolchains.toml`, or a CUDA toolkit.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from conformance.errors import SuiteError

# Where libraries and headers lie: NVIDIA's packages (up to CUDA 12 one folder each, from 13 on one
# for all) and toolkits, of which some keep them below the name of the platform.
_LIBRARY_FOLDERS = ("nvidia/*/lib", "lib64", "lib", "targets/*/lib")
_INCLUDE_FOLDERS = (
    "nvidia/*/include",
    "nvidia/*/include/cccl",
    "include",
    "include/cccl",
    "targets/*/include",
    "targets/*/include/cccl",
)


def find_library(folder: Path, pattern: str) -> Path:
    """The first library of that glob in a toolchain folder; raises SuiteError where there is none."""
    found = sorted(p for place in _LIBRARY_FOLDERS for p in folder.glob(f"{place}/{pattern}"))
    if not found:
        raise SuiteError(
            f"{pattern} is not in the toolchain folder {folder}: install the packages that "
            "matrices/toolchains.toml lists there (pip install --no-deps --target FOLDER -r LOCK)"
        )
    return found[0]


@dataclass(frozen=True)
class Compiled:
    """What one compilation gave. What was not asked for is empty; `log` has the compiler's warnings."""

    ptx: bytes
    cubin: bytes
    ltoir: bytes
    log: str


def sm(compute_capability: str) -> str:
    """The number in the names of an architecture: `9.0` gives `90`, `10.0` `100`, `9.0a` `90a`."""
    return compute_capability.replace(".", "")


class Toolchain:
    """The compiler libraries of one CUDA major in a folder. They are loaded when first used.

    Every method may be called from several threads at once. All raise `SuiteError`.
    """

    def __init__(self, folder: Path, cuda_major: int):
        self.folder = Path(folder)
        self.cuda_major = cuda_major
        self._nvrtc_path = find_library(self.folder, f"libnvrtc.so.{cuda_major}*")
        self._builtins_path = find_library(self.folder, f"libnvrtc-builtins.so.{cuda_major}*")
        # nvFatbin is younger than CUDA 11; CUDA 11's linkers read what that of CUDA 12 writes.
        self._nvfatbin_path = find_library(self.folder, "libnvfatbin.so.*")

    @property
    def identity(self) -> list[str]:
        """What tells this toolchain from another: its packages with their versions, and its libraries."""
        packages = sorted(path.name for path in self.folder.glob("nvidia_*.dist-info"))
        libraries = (self._nvrtc_path, self._builtins_path, self._nvfatbin_path)
        return packages + [f"{path.name} {path.stat().st_size}" for path in libraries]

    def compile(self, name: str, source: bytes, options: list[str]) -> Compiled:
        """Compile one translation unit. `name` is what its diagnostics call it, as in `NAME(4): error`."""
        arguments = [*options, *(f"--include-path={folder}" for folder in self._includes)]
        program = c_void_p()
        self._nvrtc_check(
            self._nvrtc.nvrtcCreateProgram(byref(program), source, name.encode(), 0, None, None), name
        )
        try:
            status = self._nvrtc.nvrtcCompileProgram(program, len(arguments), _strings(arguments))
            log = self._nvrtc_get(program, "ProgramLog").rstrip(b"\0\n").decode(errors="replace")
            if status:
                command = f"NVRTC {self._nvrtc_version} with {' '.join(options)}"
                raise SuiteError(f"{name} does not compile ({command}):\n{log}")
            return Compiled(
                ptx=self._nvrtc_get(program, "PTX").rstrip(b"\0"),
                cubin=self._nvrtc_get(program, "CUBIN"),
                ltoir=self._nvrtc_get(program, self._ltoir_name),
                log=log,
            )
        finally:
            self._nvrtc.nvrtcDestroyProgram(byref(program))

    def fatbin(self, name: str, entries: list[tuple[str, str, bytes]]) -> bytes:
        """A fatbin of (`cubin` | `ptx` | `ltoir`, compute capability, code) entries."""
        # nvFatbin compresses PTX and LTO-IR, as nvcc does, but CUDA 11 cannot read its LTO-IR then
        # (measured: "Uncompress failed" up to nvJitLink 12.3).
        options = ["-compress=false"] if self.cuda_major < 12 else []
        handle = c_void_p()
        created = self._nvfatbin.nvFatbinCreate(
            byref(handle), _strings(options), c_size_t(len(options))
        )
        self._nvfatbin_check(created, name)
        try:
            for kind, compute_capability, code in entries:
                self._add(handle, name, kind, sm(compute_capability).encode(), code)
            return self._nvfatbin_get(handle, name)
        finally:
            self._nvfatbin.nvFatbinDestroy(byref(handle))

    def capabilities(self) -> list[str]:
        """The compute capabilities that NVRTC compiles for, oldest first; it names none with a suffix."""
        count = c_int()
        self._nvrtc_check(self._nvrtc.nvrtcGetNumSupportedArchs(byref(count)), "capabilities")
        numbers = (c_int * count.value)()
        self._nvrtc_check(self._nvrtc.nvrtcGetSupportedArchs(numbers), "capabilities")
        return [f"{number // 10}.{number % 10}" for number in numbers]

    # Finding and loading

    @cached_property
    def _includes(self) -> list[Path]:
        found = (p for pattern in _INCLUDE_FOLDERS for p in sorted(self.folder.glob(pattern)))
        return [path.resolve() for path in found if path.is_dir()]

    @cached_property
    def _nvrtc(self) -> ctypes.CDLL:
        # NVRTC opens its builtins by bare name, and those of 12 and 13 do not look beside themselves.
        _load(self._builtins_path)
        return _load(self._nvrtc_path)

    @cached_property
    def _nvfatbin(self) -> ctypes.CDLL:
        library = _load(self._nvfatbin_path)
        library.nvFatbinGetErrorString.restype = c_char_p
        return library

    # NVRTC

    @cached_property
    def _nvrtc_version(self) -> str:
        major, minor = c_int(), c_int()
        self._nvrtc.nvrtcVersion(byref(major), byref(minor))
        return f"{major.value}.{minor.value}"

    @property
    def _ltoir_name(self) -> str:
        # CUDA 12 renamed the function (nvrtcGetNVVM gave LTO-IR before) and CUDA 13 dropped the old name.
        return "LTOIR" if hasattr(self._nvrtc, "nvrtcGetLTOIR") else "NVVM"

    def _nvrtc_get(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        self._nvrtc_check(getattr(self._nvrtc, f"nvrtcGet{what}Size")(program, byref(size)), what)
        buffer = ctypes.create_string_buffer(size.value)
        if size.value:
            self._nvrtc_check(getattr(self._nvrtc, f"nvrtcGet{what}")(program, buffer), what)
        return buffer.raw

    def _nvrtc_check(self, status: int, what: str) -> None:
        if status:
            self._nvrtc.nvrtcGetErrorString.restype = c_char_p
            reason = self._nvrtc.nvrtcGetErrorString(status).decode()
            raise SuiteError(f"{what}: NVRTC {self._nvrtc_version}: {reason}")

    # nvFatbin

    def _add(self, handle: c_void_p, name: str, kind: str, architecture: bytes, code: bytes) -> None:
        library, identifier = self._nvfatbin, name.encode()
        if kind == "cubin":
            status = library.nvFatbinAddCubin(
                handle, code, c_size_t(len(code)), architecture, identifier
            )
        elif kind == "ptx":
            text = code + b"\0"  # the size counts the terminator
            status = library.nvFatbinAddPTX(
                handle, text, c_size_t(len(text)), architecture, identifier, b""
            )
        else:
            status = library.nvFatbinAddLTOIR(
                handle, code, c_size_t(len(code)), architecture, identifier, b""
            )
        self._nvfatbin_check(status, f"{name} ({kind}, sm_{architecture.decode()})")

    def _nvfatbin_get(self, handle: c_void_p, name: str) -> bytes:
        size = c_size_t()
        self._nvfatbin_check(self._nvfatbin.nvFatbinSize(handle, byref(size)), name)
        buffer = ctypes.create_string_buffer(size.value)
        self._nvfatbin_check(self._nvfatbin.nvFatbinGet(handle, buffer), name)
        return buffer.raw

    def _nvfatbin_check(self, status: int, what: str) -> None:
        if status:
            reason = self._nvfatbin.nvFatbinGetErrorString(status).decode()
            raise SuiteError(f"{what}: {self._nvfatbin_path.name}: {reason}")


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise SuiteError(f"{path} cannot be loaded, install the toolchain again: {error}") from error


def _strings(texts: list[str]) -> ctypes.Array:
    return (c_char_p * len(texts))(*(text.encode() for text in texts))


# The host's side

# What nvcc writes for a translation unit: the fatbin in a section of its own, and a record of
# `__fatBinC_Wrapper_t` (fatbinary_section.h of the toolkit) that points to it.
_OBJECT_SOURCE = """\
    .section {section}, "a"
    .balign 8
fatbin:
    .incbin "{fatbin}"
    .section .nvFatBinSegment, "aw"
    .balign 8
    .long 0x466243b1
    .long 1
    .quad fatbin
    .quad 0
    .section .note.GNU-stack, ""
"""


def host_object(fatbin: Path, target: Path, relocatable: bool) -> None:
    """Assemble an object file for the host that carries `fatbin`, as nvcc does.

    Linkers look for device code in `__nv_relfatbin` only; nvcc puts code that is not relocatable
    into `.nv_fatbin`.
    """
    section = "__nv_relfatbin" if relocatable else ".nv_fatbin"
    source = _OBJECT_SOURCE.format(section=section, fatbin=fatbin.name)
    _run(["as", "-o", target.name, "-"], target.parent, source)


def archive(member: Path, target: Path) -> None:
    """Put one object file into a new archive. `D` leaves times and owners out."""
    _run(["ar", "rcD", target.name, member.name], target.parent)


def _run(command: list[str], folder: Path, text: str = "") -> None:
    # Run in the folder: no path then ends up in a product, nor needs quoting in the assembly.
    if shutil.which(command[0]) is None:
        raise SuiteError(f"`{command[0]}` is not on PATH: install GNU binutils (it comes with gcc)")
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise SuiteError(f"`{' '.join(command)}` failed:\n{done.stderr.strip()}")
