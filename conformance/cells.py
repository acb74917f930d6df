"""Makes a cell: an environment at a release, with its driver, fixtures and expectations settled."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from functools import lru_cache
from pathlib import Path

from conformance import driver as recording
from conformance import environments, fixtures, matrices
from conformance.errors import SuiteError
from conformance.matrices import Matrices, failure_outcome, matches, within
from conformance.model import Cell, Driver, Environment, Expected, FailureOutcome, Release
from conformance.paths import LOCKS, ROOT, cache
from conformance.toolchain import find_library

# What a recording driver says of its device unless told otherwise.
_COMPUTE_CAPABILITY = "9.0"
# What an observation follows from, as globs.
_OBSERVING = (
    "fixtures/**/*",
    "conformance/scenarios/*.py",
    "conformance/stage.py",
    "conformance/spy.py",
    "conformance/observe.py",
    "conformance/image.py",
)
# Variables of the caller that would change what numba-cuda does or which libraries it finds.
_FOREIGN = ("NUMBA_", "CUDA_HOME", "CUDA_PATH", "PYTHON", "LD_LIBRARY_PATH", "LD_PRELOAD", "RECORDING_DRIVER_")

_ASK_DEVICE = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
number = ctypes.c_int()
def ask(function, *arguments):
    if getattr(cuda, function)(*arguments): raise SystemExit(1)
    return number.value
ask("cuInit", 0)
if not ask("cuDeviceGetCount", ctypes.byref(number)): raise SystemExit(1)
version = ask("cuDriverGetVersion", ctypes.byref(number))
device = ask("cuDeviceGet", ctypes.byref(number), 0)
cc = [ask("cuDeviceGetAttribute", ctypes.byref(number), what, device) for what in (75, 76)]
name = ctypes.create_string_buffer(256)
ask("cuDeviceGetName", name, 256, device)
print(json.dumps([f"{version // 1000}.{version % 1000 // 10}", f"{cc[0]}.{cc[1]}", name.value.decode()]))
"""


@lru_cache
def device(python: Path) -> Driver | None:
    """The machine's own driver and first device, or None where there is none."""
    done = subprocess.run([python, "-c", _ASK_DEVICE], capture_output=True, text=True)
    if done.returncode:
        return None
    version, compute_capability, name = json.loads(done.stdout)
    return Driver("device", version, compute_capability, name)


def choose_driver(kind: str, environment: Environment, python: Path) -> Driver:
    """The driver for `auto`, `device` or `recording`; `device` without a device is an error."""
    found = device(python) if kind in ("auto", "device") else None
    if found:
        return found
    if kind == "device":
        raise SuiteError(
            "--driver device: no CUDA device answers on this machine; "
            "use --driver recording, or run where `nvidia-smi` shows one"
        )
    return Driver("recording", environment.driver, _COMPUTE_CAPABILITY)


def expected(m: Matrices, environment: Environment, release: str) -> Expected:
    """What the rules of selection.toml make of an environment at a release."""
    rule = m.rule(environment.axes, release)
    if rule.error:
        return Expected("", "", "", False, [], rule.warnings, rule.error)
    linker = m.linkers[rule.linker]
    engine = linker.engines[rule.engine]
    return Expected(
        linker=rule.linker,
        engine=rule.engine,
        class_name=linker.class_name,
        emulated=engine.emulated,
        features=sorted(engine.features()),
        warnings=rule.warnings,
    )


def failures(m: Matrices, wanted: Expected, environment: Environment, release: str) -> dict[str, FailureOutcome]:
    """How each documented failure shows on the expected linker; undocumented ones are left out."""
    found = {
        name: failure_outcome(m, name, wanted.linker, wanted.engine, release, environment.axes)
        for name in m.failures
    }
    return {name: outcome for name, outcome in found.items() if outcome}


def describe(m: Matrices, environment: Environment, release: Release, driver: Driver, results: Path) -> Cell:
    """The cell without anything built: enough to know every expectation."""
    wanted = expected(m, environment, release.version)
    lock = m.lock(environment, release)
    return Cell(
        environment=environment,
        release=release.version,
        driver=driver,
        expected=wanted,
        failures=failures(m, wanted, environment, release.version),
        unmet={feature: name for name, f in m.failures.items() for feature in f.features},
        deviations=[
            d
            for d in m.deviations
            if within(release.version, d.releases)
            and matches(environment.axes, d.when)
            and driver.kind in (d.drivers or [driver.kind])
        ],
        linker_classes=[linker.class_name for linker in m.linkers.values()],
        lock=f"{lock.stem}@{environments.digest(lock)}" if lock.exists() else lock.stem,
        source=source_revision(),
        suite=suite_digest(),
        fixtures="",
        results=str(results),
        notes=_notes(environment, driver),
    )


def _notes(environment: Environment, driver: Driver) -> list[str]:
    if driver.kind == "device" and environment.reports:
        return [f"numba-cuda is told that the driver is {environment.reports}"]
    if driver.kind == "recording":
        return ["libcudart's version is answered in its place"]
    return []


@lru_cache
def source_revision() -> str:
    """The suite's git revision, with `+` where the working tree differs; `unknown` outside git.

    A bundle has no git; it says in a file which revision it was made of.
    """
    if (ROOT / "REVISION").exists():
        return (ROOT / "REVISION").read_text().strip()

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        revision = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no")
    except FileNotFoundError:
        return "unknown"
    return (revision or "unknown") + ("+" if changed else "")


@lru_cache
def suite_digest() -> str:
    """Digest of all that an observation follows from in the suite: evidence is stale once it changes.

    Matrices and judgement are left out: they say what is expected of an observation, not what it is.
    """
    files = [p for pattern in _OBSERVING for p in ROOT.glob(pattern) if p.is_file()]
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return whole.hexdigest()[:12]


def fixtures_for(environment: Environment, compute_capability: str) -> Path:
    """Build the fixtures of an environment's CUDA major, or find them built."""
    folder = toolchain_folder(environment)
    return fixtures.build(folder, environment.cuda_major, compute_capability, cache("fixtures"))


def toolchain_folder(environment: Environment) -> Path:
    """The compiler libraries of an environment's CUDA major, installed."""
    return environments.toolchain(LOCKS / f"toolchain-{environment.toolchain}.txt")


def process_environment(cell: Cell) -> dict[str, str]:
    """The environment variables of a cell's processes: the caller's, cleaned, and the cell's settings."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
    # The order of a kernel's inputs follows the hashes of their paths: one seed, one order. And one
    # encoding, whatever the caller's locale, so that a file's name or text is the same everywhere.
    clean |= {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", **cell.environment.settings}
    if cell.driver.kind == "recording":
        folder = recording.build(cache("driver"))
        nvjitlink = find_library(toolchain_folder(cell.environment), "libnvJitLink.so.*")
        clean |= recording.environment(
            folder,
            version=cell.driver.version,
            compute_capability=cell.driver.compute_capability,
            nvjitlink=nvjitlink,
        )
    return clean
