"""How fast the linkers are: construct, add, complete and load apart (`nox -s bench`).

    python -m conformance.bench cuda12-ctypes cuda12-nvidia      old against new, at the newest release of both
    python -m conformance.bench cuda12-nvidia --release 0.22.2 --release 0.30.4

One process for each environment and release, alone on the machine. The first environment and release is what
the others are compared with. Where the driver is the recording one, its linker is nvJitLink's, and only the
Python side of `ctypes` and `cuda-python` is told by the numbers.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conformance import bench_inputs, cells, environments, matrices
from conformance.bench_inside import STEPS
from conformance.bench_links import SUFFIXES, Case
from conformance.errors import SuiteError
from conformance.matrices import Matrices
from conformance.model import Cell, Environment, Release
from conformance.paths import RESULTS, ROOT

_SHAPES = ((1, 1), (10, 1), (100, 1), (1, 10), (1, 100))
# Kinds that LTO can do something about.
_LTO = ("cu", "ltoir")


def cases(cell: Cell) -> Iterator[Case]:
    """What a cell's linker takes: every kind in every size, and with LTO where that matters."""
    features = cell.expected.features
    for kind in SUFFIXES:
        if f"input:{kind}:path" in features:
            for functions, inputs in _SHAPES:
                if kind != "ltoir":
                    yield Case(kind, functions, inputs)
                if kind in _LTO and "option:lto" in features:
                    yield Case(kind, functions, inputs, lto=True)


def parser() -> argparse.ArgumentParser:
    """The options of `nox -s bench`."""
    p = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__.split("\n")[0])
    p.add_argument("environments", nargs="+", help="the first is what the others are compared with")
    p.add_argument("--release", action="append", default=[], help="a numba-cuda release (default: the newest that all have)")
    p.add_argument("--driver", choices=("auto", "device", "recording"), default="auto", help="the machine's device, or a recording stand-in (default: a device if there is one)")
    p.add_argument("--kind", action="append", default=[], choices=SUFFIXES, help="only this input kind")
    p.add_argument("--repeat", type=int, default=10, help="links of each case (default: 10)")
    p.add_argument("--seconds", type=float, default=0.5, help="for each case; slower ones are repeated less often (default: 0.5)")
    p.add_argument("--python", default="", help="the Python version to use, e.g. 3.12")
    p.add_argument("--results", type=Path, default=RESULTS, help="where the measurements go (default: results/)")
    return p  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure each environment at each release, keep and print it all."""
    options = parser().parse_args(argv)
    if options.repeat < 2:
        raise SuiteError("--repeat: the first link is told apart from later ones, so give at least 2")
    m = matrices.load()
    places = _places(m, options.environments, options.release)
    python = environments.choose_python(m.common.python, options.python)
    measured = {}
    for environment, release in places:
        one = _measure(m, environment, release, python, options)
        path = options.results / "bench" / environment.name / f"{release.version}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(one, indent=1) + "\n", encoding="utf-8")
        measured[f"{environment.name}@{release.version}"] = one
        print(f"{environment.name}@{release.version}: {len(one['cases'])} cases, {path}", flush=True)
    print("\n".join(table(measured)))
    return 0


def _places(m: Matrices, names: list[str], versions: list[str]) -> list[tuple[Environment, Release]]:
    """What to measure; without a release, the newest in which all the environments exist."""
    wanted = [m.environment(name) for name in dict.fromkeys(names)]
    releases = [m.release(v) for v in dict.fromkeys(versions)]
    if not releases:
        common = [r for r in m.releases_of(wanted[0]) if all(r in m.releases_of(e) for e in wanted)]
        if not common:
            raise SuiteError(f"no release has all of {', '.join(names)}: say which with --release")
        releases = common[-1:]
    places = [(e, r) for e in wanted for r in releases if not m.absence(e, r)]
    if not places:
        raise SuiteError(f"none of {', '.join(names)} exists at {', '.join(versions)}")
    return places


def _measure(m: Matrices, environment: Environment, release: Release, python: Path, options) -> dict:
    """One process's measurements, with where they were made; milliseconds are of each link."""
    interpreter = environments.environment(m.lock(environment, release), python)
    driver = cells.choose_driver(options.driver, environment, interpreter)
    cell = cells.describe(m, environment, release, driver, Path("none"))
    if cell.expected.error:
        raise SuiteError(f"{environment.name}@{release.version} has no linker: {cell.expected.error.message}")
    chosen = [c for c in cases(cell) if c.kind in (options.kind or SUFFIXES)]
    job = {
        "cell": cell.to_json(),
        "inputs": str(bench_inputs.build(environment, driver.compute_capability)),
        "repeat": options.repeat,
        "seconds": options.seconds,
    }
    variables = cells.process_environment(cell)
    whole = _run(interpreter, variables, {**job, "cases": [dataclasses.asdict(c) for c in chosen], "launch": True})
    facts = {"environment": environment.name, "release": release.version, "driver": dataclasses.asdict(driver)}
    return {**facts, "source": cell.source, **whole}


def _run(interpreter: Path, variables: dict[str, str], job: dict) -> dict:
    """Measure in a process of the environment, with caches of the driver's that are empty."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        description = Path(folder) / "job.json"
        description.write_text(json.dumps(job), encoding="utf-8")
        done = subprocess.run(
            [interpreter, "-m", "conformance.bench_inside", str(description)],
            cwd=ROOT, env={**variables, "CUDA_CACHE_PATH": folder},
            capture_output=True, check=False, encoding="utf-8", errors="replace",
        )  # fmt: skip
    if done.returncode:
        raise SuiteError(f"the benchmark's process ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return json.loads(done.stdout.splitlines()[-1])


# -- the table ---------------------------------------------------------------------------------------


def later(links: list[dict[str, float]], step: str = "") -> list[float]:
    """A step's times, or whole links', of all but the first."""
    return [link[step] if step else sum(link.values()) for link in links[1:]]


def spread(times: list[float]) -> float:
    """The distance of the quartiles."""
    quarters = statistics.quantiles(times, n=4) if len(times) > 1 else (0, 0, 0)
    return quarters[2] - quarters[0]


def table(measured: dict[str, dict]) -> list[str]:
    """Every case of every cell: the first link, later ones by step and whole, and against the first cell."""
    base = next(iter(measured.values()))
    head = f"{'case':<20}{'first':>9}" + "".join(f"{step:>11}" for step in STEPS) + f"{'whole':>9}{'spread':>9}{'ratio':>8}"
    lines = ["milliseconds; medians of later links; ratio of whole links to the first cell's"]
    for name, one in measured.items():
        process = ", ".join(f"{what} {ms:.0f}" for what, ms in one["process"].items())
        lines += ["", f"{name}  {one['linker']}  {one['driver']['kind']} driver  ({process})", head]
        lines += [_row(case, links, base["cases"].get(case)) for case, links in one["cases"].items()]
        lines += [f"{case:<20} runs {statistics.median(t) * 1e3:.1f} us" for case, t in one["launch"].items()]
    return lines


def _row(case: str, links: list[dict[str, float]], against: list[dict[str, float]] | None) -> str:
    whole = later(links)
    steps = "".join(f"{statistics.median(later(links, step)):>11.3f}" for step in STEPS)
    ratio = f"{statistics.median(whole) / statistics.median(later(against)):.2f}" if against else "-"
    return f"{case:<20}{sum(links[0].values()):>9.2f}{steps}{statistics.median(whole):>9.2f}{spread(whole):>9.2f}{ratio:>8}"
