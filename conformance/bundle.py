"""Packs environments for a machine without a network (`nox -s bundle -- cuda12 cuda11-nvidia-mvc`).

    python -m conformance.bundle cuda12-ctypes --output bundle --python 3.12 --split 58M

The folder that comes of it holds parts, `manifest.json` with their hashes, and `run`. That machine needs Linux
on x86-64, the same CPython minor, and for launches a driver: no pip, no compiler, no CUDA toolkit.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from conformance import cells, driver, environments, matrices
from conformance.errors import SuiteError
from conformance.model import Environment
from conformance.paths import LOCKS, ROOT, cache

# Left out: what neither numba-cuda nor the suite opens. NVIDIA's wheels bring every library a second time
# (`.alt`), a compiler driver and an assembler, the bindings bring their generated sources.
_UNUSED = re.compile(
    r"\.alt\.so|/cicc$|/bin/(ptxas|nvdisasm|uv|uvx)$|\.(cpp|pyx|pxd)$|/__pycache__/|\.lock$"
    r"|/site-packages/(numba|numpy/[^/]+|numba_cuda/numba/cuda)/tests/|/fixtures/units/"
)
# One piece is compressed by one process; large enough to find what repeats, small enough to share.
_PIECE = 24 << 20


def build(m: matrices.Matrices, chosen: list[Environment], python: Path, capabilities: list[str]) -> None:
    """Build all that the bundle holds into the cache, or find it built."""
    for environment in chosen:
        for release in m.releases_of(environment):
            environments.environment(m.lock(environment, release), python)
        for capability in capabilities:
            cells.fixtures_for(environment, capability)
    environments.environment(LOCKS / "harness.txt", python)
    driver.build(cache("driver"))


def members(m: matrices.Matrices, chosen: list[Environment], python: Path) -> Iterator[tuple[str, Path]]:
    """Every file of the bundle: its name there, and where it lies here."""
    version = environments.interpreter_version(python)
    locks = {m.lock(e, r) for e in chosen for r in m.releases_of(e)} | {LOCKS / "harness.txt"}
    wanted = [f"environments/{lock.stem}-{environments.digest(lock)}-py{version}" for lock in sorted(locks)]
    wanted += [f"toolchains/{cells.toolchain_folder(e).name}" for e in chosen]
    wanted += [str(p.relative_to(cache())) for e in chosen for p in cache("fixtures").glob(f"cu{e.cuda_major}-sm_*-*")]
    wanted += [str(driver.build(cache("driver")).relative_to(cache()))]
    for folder in dict.fromkeys(wanted):
        yield from _files(cache(folder), f"cache/{folder}")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, encoding="utf-8", errors="replace", check=True
    )
    for name in sorted(listed.stdout.splitlines()):
        if (ROOT / name).is_file():
            yield f"suite/{name}", ROOT / name


def _files(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        inside = f"{name}/{path.relative_to(folder)}"
        if not _UNUSED.search(f"/{inside}") and (path.is_symlink() or not path.is_dir()):
            yield inside, path


class _Pieces(io.RawIOBase):
    """Takes a stream, compresses it piece by piece in several processes, writes it in order to a sink."""

    def __init__(self, sink, jobs: int):
        self._sink, self._jobs = sink, jobs
        self._pool = ProcessPoolExecutor(jobs)
        self._waiting: deque = deque()
        self._piece = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self._piece += data
        while len(self._piece) >= _PIECE:
            self._send(bytes(self._piece[:_PIECE]))
            del self._piece[:_PIECE]
        return len(data)

    def finish(self) -> None:
        """Compress what is left and wait for all."""
        self._send(bytes(self._piece))
        while self._waiting:
            self._sink(self._waiting.popleft().result())
        self._pool.shutdown()

    def _send(self, piece: bytes) -> None:
        self._waiting.append(self._pool.submit(lzma.compress, piece, lzma.FORMAT_XZ, -1, 4))
        while len(self._waiting) > 2 * self._jobs:
            self._sink(self._waiting.popleft().result())


class _Parts:
    """Writes a stream to files of at most a given size, and hashes each."""

    def __init__(self, folder: Path, size: int):
        self._folder, self._size = folder, size
        self.parts: list[dict] = []

    def __call__(self, data: bytes) -> None:
        while data:
            if not self.parts or self.parts[-1]["size"] == self._size:
                self.parts.append({"name": f"part.{len(self.parts):02}", "size": 0, "hash": hashlib.sha256()})
            part = self.parts[-1]
            taken, data = data[: self._size - part["size"]], data[self._size - part["size"] :]
            with (self._folder / part["name"]).open("ab") as file:
                file.write(taken)
            part["size"] += len(taken)
            part["hash"].update(taken)

    def listed(self) -> list[dict]:
        """The manifest's list of parts."""
        return [{"name": p["name"], "size": p["size"], "sha256": p["hash"].hexdigest()} for p in self.parts]


def pack(files: Iterable[tuple[str, Path]], folder: Path, size: int, jobs: int) -> list[dict]:
    """Write the parts into a folder; a content that several files have is stored once."""
    parts = _Parts(folder, size)
    pieces = _Pieces(parts, jobs)
    first: dict[str, str] = {}
    with tarfile.open(fileobj=pieces, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for name, path in files:
            _add(tar, name, path, first)
    pieces.finish()
    return parts.listed()


def _add(tar: tarfile.TarFile, name: str, path: Path, first: dict[str, str]) -> None:
    if path.is_symlink():
        tar.addfile(_entry(tar, path, name))
        return
    data = path.read_bytes()
    key = hashlib.sha256(data).hexdigest() if len(data) > 512 else ""
    entry = _entry(tar, path, name)
    if key and key in first:
        entry.type, entry.linkname, entry.size = tarfile.LNKTYPE, first[key], 0
        tar.addfile(entry)
        return
    first[key] = name
    entry.type, entry.size = tarfile.REGTYPE, len(data)
    tar.addfile(entry, io.BytesIO(data))


def _entry(tar: tarfile.TarFile, path: Path, name: str) -> tarfile.TarInfo:
    """A member without anything of this machine's user or clock."""
    entry = tar.gettarinfo(str(path), name)
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def bytes_of(text: str) -> int:
    """`58M` as bytes; raises SuiteError for what is no size."""
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found or int(found[1]) == 0:
        raise SuiteError(f"{text!r} is no size: write 58M, 900K or 2G")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def choose(m: matrices.Matrices, names: list[str]) -> list[Environment]:
    """The environments of those names and tags; an unknown one is an error that lists the known."""
    tags = {tag for e in m.environments.values() for tag in e.tags}
    unknown = [n for n in names if n not in m.environments and n not in tags]
    if unknown:
        raise SuiteError(f"neither an environment nor a tag: {', '.join(unknown)}; tags: {', '.join(sorted(tags))}")
    return [e for e in m.environments.values() if not names or e.name in names or set(names) & set(e.tags)]


def _prepare(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / "manifest.json").exists():
        raise SuiteError(f"{folder} holds something else: choose another folder with --output")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def main(argv: list[str] | None = None) -> int:
    """Build and pack; prints how large and how long."""
    parser = argparse.ArgumentParser(prog="nox -s bundle --", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="environments and tags (default: all)")
    parser.add_argument("--output", type=Path, default=ROOT / "bundle", help="the folder (default: bundle/)")
    parser.add_argument("--split", default="2G", help="size of a part at most, e.g. 58M")
    parser.add_argument("--python", default="", help="the CPython minor of that machine, e.g. 3.12")
    parser.add_argument("--compute-capability", action="append", help="of its devices (default: 9.0)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(argv)
    start = time.monotonic()
    m = matrices.load()
    chosen = choose(m, options.names)
    python = environments.choose_python(m.common.python, options.python)
    build(m, chosen, python, options.compute_capability or ["9.0"])
    _prepare(options.output)
    try:
        parts = pack(members(m, chosen, python), options.output, bytes_of(options.split), options.jobs)
        _finish(m, options.output, chosen, python, parts)
    except OSError as error:
        raise SuiteError(f"the bundle cannot be written to {options.output} ({error.strerror})") from error
    total = sum(part["size"] for part in parts)
    print(f"{options.output}: {total / 1e6:.0f} MB in {len(parts)} parts, {time.monotonic() - start:.0f} s")
    return 0


def _finish(m, folder: Path, chosen: list[Environment], python: Path, parts: list[dict]) -> None:
    manifest = {
        "python": environments.interpreter_version(python),
        "source": cells.source_revision(),
        "suite": cells.suite_digest(),
        "cells": [[e.name, r.version] for e in chosen for r in m.releases_of(e)],
        "parts": parts,
    }
    shutil.copy(ROOT / "conformance" / "bundled_run.py", folder / "run")
    (folder / "run").chmod(0o755)
    # Last: a folder without a manifest is no bundle.
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
