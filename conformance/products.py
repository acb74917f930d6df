"""One device source becomes every kind of linkable code: which kinds there are, and how each is made."""

from __future__ import annotations

from pathlib import Path

from conformance.toolchain import Compiled, Toolchain, archive, host_object, sm

# The kinds by the names that numba-cuda gives them, each with the suffix of its files. The first
# seven are what every scenario may ask for; the rest are variants that some scenarios need.
BASIC_KINDS = {
    "ptx": ".ptx",
    "cu": ".cu",
    "cubin": ".cubin",
    "fatbin": ".fatbin",
    "object": ".o",
    "archive": ".a",
    "ltoir": ".ltoir",
}
VARIANT_KINDS = {
    # PTX and nothing else
    "ptx.fatbin": ".ptx.fatbin",
    # cubins of several architectures, the asked one among them, and PTX
    "multi.fatbin": ".multi.fatbin",
    # LTO-IR and nothing else
    "lto.fatbin": ".lto.fatbin",
    "lto.object": ".lto.o",
    "lto.archive": ".lto.a",
    # compiled with --relocatable-device-code=false: no function is left that could be linked
    "nonrdc.ptx": ".nonrdc.ptx",
    "nonrdc.cubin": ".nonrdc.cubin",
    "nonrdc.fatbin": ".nonrdc.fatbin",
    "nonrdc.object": ".nonrdc.o",
    "nonrdc.archive": ".nonrdc.a",
    # of an architecture whose cubins do not run on the asked one
    "other.cubin": ".other.cubin",
}
KINDS = BASIC_KINDS | VARIANT_KINDS

# Every CUDA major from 11 to 13 compiles for these.
_COMMON_CAPABILITIES = ("7.5", "8.0")


def other_capability(compute_capability: str) -> str:
    """A compute capability of another major (a cubin links and runs on its own major only)."""
    major = compute_capability.partition(".")[0]
    return next(other for other in reversed(_COMMON_CAPABILITIES) if not other.startswith(f"{major}."))


def make(toolchain: Toolchain, source: Path, compute_capability: str, folder: Path) -> None:
    """Write all products of one source into `folder`, each named after the source.

    Raises `SuiteError`: the compiler's diagnostics with file name and line, or a missing tool.
    """
    codes = _codes(toolchain, source, compute_capability)
    for kind, code in codes.items():
        _file(folder, source, kind).write_bytes(code)
    for variant in ("", "lto.", "nonrdc."):
        fatbin, obj, library = (
            _file(folder, source, variant + kind) for kind in ("fatbin", "object", "archive")
        )
        host_object(fatbin, obj, relocatable=variant != "nonrdc.")
        archive(obj, library)


def _file(folder: Path, source: Path, kind: str) -> Path:
    return folder / (source.stem + KINDS[kind])


def _codes(toolchain: Toolchain, source: Path, asked: str) -> dict[str, bytes]:
    """All kinds but objects and archives, which are made of fatbins."""
    name, text = source.name, source.read_bytes()

    def compiled(architecture: str, *options: str) -> Compiled:
        return toolchain.compile(name, text, [f"--gpu-architecture={architecture}", *options])

    # NVRTC gives PTX and cubin for a real architecture, LTO-IR for a virtual one.
    relocatable = {
        capability: compiled(f"sm_{sm(capability)}", "--relocatable-device-code=true")
        for capability in (*_COMMON_CAPABILITIES, asked)
    }
    ltoir = compiled(f"compute_{sm(asked)}", "--relocatable-device-code=true", "-dlto").ltoir
    closed = compiled(f"sm_{sm(asked)}", "--relocatable-device-code=false")
    plain = relocatable[asked]
    cubins = [("cubin", capability, code.cubin) for capability, code in relocatable.items()]
    return {
        "cu": text,
        "ptx": plain.ptx,
        "cubin": plain.cubin,
        "ltoir": ltoir,
        "fatbin": toolchain.fatbin(name, [("cubin", asked, plain.cubin)]),
        "ptx.fatbin": toolchain.fatbin(name, [("ptx", asked, plain.ptx)]),
        "multi.fatbin": toolchain.fatbin(name, [*cubins, ("ptx", asked, plain.ptx)]),
        "lto.fatbin": toolchain.fatbin(name, [("ltoir", asked, ltoir)]),
        "nonrdc.ptx": closed.ptx,
        "nonrdc.cubin": closed.cubin,
        "nonrdc.fatbin": toolchain.fatbin(name, [("cubin", asked, closed.cubin)]),
        "other.cubin": relocatable[other_capability(asked)].cubin,
    }
