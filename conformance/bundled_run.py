#!/usr/bin/env python3
"""Runs a bundle: checks it, unpacks it once, runs its environments side by side, writes results/.

    ./run                          all that the bundle holds
    ./run cuda12-ctypes -j 8       some of it; -- passes the rest on to the suite (-- -k ltoir)

Needs nothing but the CPython minor that the bundle was made for; for launches, a driver and a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent


class _Stream:
    """The parts as one readable stream, hashed on the way."""

    def __init__(self, parts: list[dict]):
        self._parts, self._file, self._hash = list(parts), None, None

    def read(self, size: int = -1) -> bytes:
        while True:
            if self._file is None:
                if not self._parts:
                    return b""
                self._open()
            data = self._file.read(size if size > 0 else 1 << 20)
            if data:
                self._hash.update(data)
                return data
            self._close()

    def _open(self) -> None:
        path = HERE / self._parts[0]["name"]
        if not path.exists():
            sys.exit(f"{path.name} is missing: copy it here, {self._parts[0]['size']} bytes")
        self._file, self._hash = path.open("rb"), hashlib.sha256()

    def _close(self) -> None:
        part = self._parts.pop(0)
        self._file.close()
        self._file = None
        if self._hash.hexdigest() != part["sha256"]:
            sys.exit(f"{part['name']} is damaged: copy it again")


def unpack(manifest: dict, folder: Path) -> None:
    """Unpack all parts into a folder, unless that was done; a half unpacked one is done again."""
    done = folder / "complete"
    if done.exists() and done.read_text() == manifest["source"] + manifest["suite"]:
        return
    shutil.rmtree(folder, ignore_errors=True)
    stream = _Stream(manifest["parts"])
    try:
        with lzma.open(stream) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            tar.extractall(folder, filter="fully_trusted")  # its hashes are those of the manifest
        while stream.read():  # to the end of the last part, whose hash is checked there
            pass
    except (lzma.LZMAError, EOFError, tarfile.TarError):
        damaged = [p["name"] for p in manifest["parts"] if not _intact(p)]
        sys.exit(f"damaged: {', '.join(damaged) or 'the manifest'}; copy again")
    except OSError as error:
        sys.exit(f"cannot be unpacked to {folder} ({error.strerror}): make room, or use --unpack-to")
    _relocate(folder)
    (folder / "suite" / "REVISION").write_text(manifest["source"])
    done.write_text(manifest["source"] + manifest["suite"])


def _intact(part: dict) -> bool:
    return hashlib.sha256((HERE / part["name"]).read_bytes()).hexdigest() == part["sha256"]


def _relocate(folder: Path) -> None:
    """Point the virtual environments at this machine's interpreter."""
    real = Path(sys.executable).resolve()
    for settings in folder.glob("cache/environments/*/pyvenv.cfg"):
        lines = [f"home = {real.parent}" if s.startswith("home") else s for s in settings.read_text().splitlines()]
        settings.write_text("\n".join(lines) + "\n")
        link = settings.parent / "bin" / "python"
        link.unlink(missing_ok=True)
        link.symlink_to(real)


def _devices() -> int:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def run_cells(cells: list[list[str]], folder: Path, results: Path, jobs: int, rest: list[str]) -> list[str]:
    """Run cells side by side, the devices in turn; returns the names of those that failed."""
    harness = next(folder.glob("cache/environments/harness-*/bin/python"))
    devices = _devices()
    logs = results / "logs"
    logs.mkdir(parents=True, exist_ok=True)

    def run(number: int) -> str:
        environment, release = cells[number]
        variables = {**os.environ, "CONFORMANCE_CACHE": str(folder / "cache")}
        if devices > 1:
            variables["CUDA_VISIBLE_DEVICES"] = str(number % devices)
        command = [harness, "-m", "conformance.run", environment, "--release", release, "--results", results]
        # The cells run side by side already.
        command += ["-n", "0", *rest]
        start = time.monotonic()
        with (logs / f"{environment}@{release}.log").open("w") as log:
            code = subprocess.run(command, cwd=folder / "suite", env=variables, stdout=log, stderr=log).returncode
        verdict = "ok" if code == 0 else f"FAILED, see {log.name}"
        print(f"{environment}@{release}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
        return "" if code == 0 else f"{environment}@{release}"

    with ThreadPoolExecutor(jobs) as pool:
        return [name for name in pool.map(run, range(len(cells))) if name]


def main() -> int:
    """Run the bundle that this file lies in."""
    own, rest = sys.argv[1:], []
    if "--" in own:
        own, rest = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="environments, or environment@release (default: all)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--unpack-to", type=Path, default=HERE / "unpacked")
    options = parser.parse_args(own)
    try:
        manifest = json.loads((HERE / "manifest.json").read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"manifest.json cannot be read ({error}): copy it again")
    version = "%d.%d" % sys.version_info[:2]
    if version != manifest["python"]:
        sys.exit(f"this bundle is for CPython {manifest['python']}, this is {version}: python{manifest['python']} run")
    known = {name for e, r in manifest["cells"] for name in (e, f"{e}@{r}")}
    unknown = [n for n in options.names if n not in known]
    if unknown:
        sys.exit(f"not in this bundle: {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    cells = [c for c in manifest["cells"] if not options.names or {c[0], f"{c[0]}@{c[1]}"} & set(options.names)]
    start = time.monotonic()
    unpack(manifest, options.unpack_to.resolve())
    print(f"unpacked after {time.monotonic() - start:.0f} s; {len(cells)} cells", flush=True)
    failed = run_cells(cells, options.unpack_to.resolve(), options.results.resolve(), options.jobs, rest)
    print(f"{len(cells) - len(failed)} of {len(cells)} cells as expected, {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
