"""The fixtures: device functions as linkable code, built when needed, kept, and looked up.

The cache holds two kinds of folders. `units/<name>-<key>` has the products of one source, and is
kept as long as its key stays the same. `cu<major>-sm_<NN>-<key>` has hard links to the products
of all sources, and `fixtures.json` with the digest of each: this is what `build` returns and what
`Fixtures` reads. Such a folder is complete in itself; it can be copied elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from conformance import products, toolchain
from conformance.errors import SuiteError
from conformance.products import KINDS
from conformance.toolchain import Toolchain, sm

SOURCES = Path(__file__).resolve().parent.parent / "fixtures" / "device"
_MANIFEST = "fixtures.json"


class Fixtures:
    """Looks products up in a folder that `build` returned.

    `names` are the device sources (without `.cu`), `kinds` what each of them exists as;
    `cuda_major` and `compute_capability` (such as `9.0`) are what they were built for.
    Raises `SuiteError` where the folder is none of `build`'s.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        manifest = _read_manifest(self.folder)
        if manifest is None:
            raise SuiteError(f"{folder} has no fixtures: it needs a readable {_MANIFEST}, as made by `build`")
        self.cuda_major: int = manifest["cuda_major"]
        self.compute_capability: str = manifest["compute_capability"]
        self.names: tuple[str, ...] = tuple(manifest["names"])
        self.kinds: tuple[str, ...] = tuple(manifest["kinds"])
        self._suffixes: dict[str, str] = manifest["kinds"]

    def path(self, name: str, kind: str) -> Path:
        """The file of a device source as one kind, such as `("add_i32", "ltoir")`."""
        if name not in self.names:
            raise SuiteError(f"no fixture {name!r}; there are: {', '.join(self.names)}")
        if kind not in self.kinds:
            raise SuiteError(f"no kind {kind!r}; there are: {', '.join(self.kinds)}")
        return self.folder / (name + self._suffixes[kind])


def build(
    toolchain: Path,
    cuda_major: int,
    compute_capability: str,
    cache: Path,
    jobs: int = 2,
    sources: Path = SOURCES,
) -> Path:
    """Build every source as every kind and return the folder, or find it built in the cache.

    `toolchain` holds the packages that `matrices/toolchains.toml` lists for `cuda_major`. What the
    cache has is checked first: products that are missing, damaged or of other sources, builder,
    toolchain or architecture are built again, and only those. Several processes may build at once.

    Raises `SuiteError` for a source that does not compile, and for a toolchain or host tool that
    is missing.
    """
    builder = _Builder(Toolchain(toolchain, cuda_major), compute_capability, Path(cache), sources)
    if not _intact(builder.folder):
        builder.run(jobs)
    return builder.folder


class _Builder:
    def __init__(self, toolchain: Toolchain, compute_capability: str, cache: Path, sources: Path):
        self.toolchain, self.compute_capability, self.cache = toolchain, compute_capability, cache
        self.target = f"cu{toolchain.cuda_major}-sm_{sm(compute_capability)}"
        self.keys = self._keys(sources)
        key = _digest(f"{source.name} {key}" for source, key in self.keys.items())
        self.folder = cache / f"{self.target}-{key}"

    def run(self, jobs: int) -> None:
        """Make what is not there yet, one process at a time."""
        # One lock for all that has this target, since folders of different keys share units.
        with _lock(self.cache / f"{self.target}.lock"):
            if _intact(self.folder):  # another process was faster
                return
            self._check_capability()
            with ThreadPoolExecutor(jobs) as pool:
                units = list(pool.map(self._unit, self.keys))
            self._gather(units)

    def _check_capability(self) -> None:
        known = self.toolchain.capabilities()
        if self.compute_capability.rstrip("af") not in known:
            raise SuiteError(
                f"the compiler of CUDA {self.toolchain.cuda_major} has no compute capability "
                f"{self.compute_capability}; it has: {', '.join(known)}"
            )

    def _unit(self, source: Path) -> Path:
        folder = self.cache / "units" / f"{self.target}-{source.stem}-{self.keys[source]}"
        if not _intact(folder):
            with _replacing(folder) as temporary:
                products.make(self.toolchain, source, self.compute_capability, temporary)
                self._write_manifest(temporary, [source.stem])
        return folder

    def _gather(self, units: list[Path]) -> None:
        with _replacing(self.folder) as folder:
            for unit in units:
                for product in unit.iterdir():
                    if product.name != _MANIFEST:
                        _link(product, folder / product.name)
            self._write_manifest(folder, [source.stem for source in self.keys])

    def _write_manifest(self, folder: Path, names: list[str]) -> None:
        files = {path.name: _file_digest(path) for path in sorted(folder.iterdir())}
        manifest = {
            "cuda_major": self.toolchain.cuda_major,
            "compute_capability": self.compute_capability,
            "names": names,
            "kinds": KINDS,
            "files": files,
        }
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1))

    def _keys(self, sources: Path) -> dict[Path, str]:
        """The key of each source: a digest of all that its products depend on."""
        units = sorted(sources.glob("*.cu"))
        if not units:
            raise SuiteError(f"there are no device sources (*.cu) in {sources}")
        for source in units:
            if not source.stem.isidentifier():  # a dot would mix it up with the variants' suffixes
                raise SuiteError(f"{source.name}: a device source needs a name such as add_i32.cu")
        headers = sorted(path for path in sources.iterdir() if path.suffix in (".h", ".cuh"))
        common = [
            *self.toolchain.identity,
            self.target,
            platform.machine(),
            *(f"{path.name} {_file_digest(path)}" for path in (*_BUILDER, *headers)),
        ]
        return {source: _digest([*common, source.name, _file_digest(source)]) for source in units}


# The builder's own source is part of each key: another recipe makes other products.
_BUILDER = [Path(module.__file__) for module in (products, toolchain)]


def _read_manifest(folder: Path) -> dict | None:
    try:
        return json.loads((folder / _MANIFEST).read_text())
    except (OSError, ValueError):
        return None


def _intact(folder: Path) -> bool:
    """Whether the folder has every file of its manifest, as it was written."""
    manifest = _read_manifest(folder)
    try:
        return manifest is not None and all(
            _file_digest(folder / name) == digest for name, digest in manifest["files"].items()
        )
    except (OSError, KeyError):
        return False


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Give a temporary folder that takes the place of `folder` once all went well."""
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold `path` against other processes; the system lets go of it when the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _link(product: Path, target: Path) -> None:
    try:
        os.link(product, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(product, target)


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
