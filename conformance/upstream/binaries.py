"""The test binaries that numba-cuda's own tests ask for (`NUMBA_CUDA_TEST_BIN_DIR`), as upstream's Makefile makes them.

Upstream wants nvcc and the NVIDIA binding for it; here the compiler libraries of the fixtures do. The sources are those
that a wheel ships, or, for releases since 0.21 which ship none, upstream's as kept in `sources/`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from conformance import environments
from conformance.errors import SuiteError
from conformance.paths import cache
from conformance.toolchain import Toolchain, archive, host_object, sm

KEPT = Path(__file__).parent / "sources"
_LEFT_OUT = ".left-out"
_RELOCATABLE = "--relocatable-device-code=true"


def sources(package: Path) -> Path:
    """The folder of sources for an installed numba-cuda (its folder `numba_cuda`)."""
    shipped = package / "numba" / "cuda" / "tests" / "test_binary_generation"
    return shipped if any(shipped.glob("*.cu")) else KEPT


def build(toolchain: Toolchain, compute_capability: str, package: Path) -> tuple[Path, list[str]]:
    """The folder of test binaries for an installed numba-cuda, built or found built, and why some are left out."""
    units = sorted(sources(package).glob("*.cu"))
    # NRT's header is what one of the sources includes.
    headers = sorted(package.rglob("nrt.cuh"))
    read = [*units, *headers, Path(__file__)]
    parts = [*toolchain.identity, compute_capability, *(hashlib.sha256(p.read_bytes()).hexdigest() for p in read)]
    folder = cache("upstream", f"binaries-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:12]}")

    def make() -> None:
        folder.mkdir()
        for unit in units:
            try:
                _make(toolchain, unit, compute_capability, [h.parent for h in headers], folder)
            except SuiteError as error:  # CUDA 11's packages have no CCCL, which NRT's header includes
                (folder / f"{unit.stem}{_LEFT_OUT}").write_text(_reason(str(error)), encoding="utf-8")

    environments._once(folder, make)
    return folder, [p.read_text(encoding="utf-8") for p in sorted(folder.glob(f"*{_LEFT_OUT}"))]


def _reason(said: str) -> str:
    """A compiler's first error without the folders of this machine."""
    lines = [line for line in said.splitlines() if "error" in line] or said.splitlines()
    return f"{said.partition(' ')[0]} is not built: {lines[0].partition('error: ')[2] or lines[0]}"


def _make(toolchain: Toolchain, unit: Path, asked: str, includes: list[Path], folder: Path) -> None:
    text = unit.read_bytes()
    options = [_RELOCATABLE, *(f"--include-path={i}" for i in includes)]
    # The other architecture of fatbins, as in the Makefile.
    capabilities = (asked, "8.0" if asked.startswith("7.") else "7.5")
    real = [toolchain.compile(unit.name, text, [f"--gpu-architecture=sm_{sm(c)}", *options]) for c in capabilities]
    virtual = [toolchain.compile(unit.name, text, [f"--gpu-architecture=compute_{sm(c)}", *options, "-dlto"]) for c in capabilities]
    cubins = [("cubin", c, code.cubin) for c, code in zip(capabilities, real, strict=True)]
    ltoirs = [("ltoir", c, code.ltoir) for c, code in zip(capabilities, virtual, strict=True)]
    products = {
        ".cu": text,
        ".ptx": real[0].ptx,
        ".cubin": real[0].cubin,
        ".ltoir": virtual[0].ltoir,
        ".fatbin": toolchain.fatbin(unit.name, cubins),
        "_multi.fatbin": toolchain.fatbin(unit.name, [*cubins, *ltoirs]),
    }
    for suffix, code in products.items():
        (folder / f"{unit.stem}{suffix}").write_bytes(code)
    for suffix, entries in ((".o", cubins[:1]), (".ltoir.o", ltoirs[:1])):
        within = folder / f"{unit.stem}{suffix}.fatbin"
        within.write_bytes(toolchain.fatbin(unit.name, entries))
        host_object(within, folder / f"{unit.stem}{suffix}", relocatable=True)
        within.unlink()
    archive(folder / f"{unit.stem}.o", folder / f"{unit.stem}.a")
