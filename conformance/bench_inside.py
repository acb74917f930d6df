"""Times links inside an environment: `python -m conformance.bench_inside JOB`, JSON in and JSON out.

The job says the cell, the folder of inputs, the cases, how often, and how long at most.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import time
import warnings
from pathlib import Path

STEPS = ("construct", "add", "complete", "load")
# However slow a link is, the median of fewer than these says nothing.
_FEWEST = 2
_LAUNCHES, _ELEMENTS = 200, 1 << 20


def main(job: dict) -> dict:
    """What was measured, in milliseconds: the import, the context, and each case's links one by one."""
    start = time.perf_counter()
    from conformance.bench_links import Bench, Case, enter
    from conformance.model import Cell

    cell = Cell.from_json(job["cell"])
    cuda = enter(cell)
    imported = time.perf_counter()
    bench = Bench(cuda)
    ready = time.perf_counter()
    bench.kernel(lto=False)
    compiled = time.perf_counter()
    cases = [Case(**facts) for facts in job["cases"]]
    gc.freeze()
    return {
        "process": {
            "import": (imported - start) * 1e3, "context": (ready - imported) * 1e3, "kernel": (compiled - ready) * 1e3,
        },
        "linker": type(bench.construct(False)).__name__,
        "cases": {case.name: _links(bench, case, job) for case in cases},
        "launch": {c.name: _launches(cuda, c, job) for c in cases} if cell.driver.kind == "device" and job["launch"] else {},
    }  # fmt: skip


def _links(bench, case, job: dict) -> list[dict[str, float]]:
    """The same link again and again; the first is the first of its kind in the process."""
    files = case.files(Path(job["inputs"]))
    bench.kernel(case.lto)
    links: list[dict[str, float]] = []
    start = time.perf_counter()
    while len(links) < job["repeat"]:
        links.append(_link(bench, case, files))
        if len(links) > _FEWEST and time.perf_counter() - start > job["seconds"]:
            break
    return links


def _link(bench, case, files: list[str]) -> dict[str, float]:
    moments = [time.perf_counter()]
    linker = bench.construct(case.lto)
    moments.append(time.perf_counter())
    bench.add(linker, case, files)
    moments.append(time.perf_counter())
    image = linker.complete()
    moments.append(time.perf_counter())
    module = bench.load(image)
    moments.append(time.perf_counter())
    module.unload()
    times = (b - a for a, b in itertools.pairwise(moments))
    return {step: taken * 1e3 for step, taken in zip(STEPS, times, strict=True)}


def _launches(cuda, case, job: dict) -> list[float]:
    """How long the linked kernel runs, by the device's own events."""
    import numpy as np

    from conformance.bench_links import SIGNATURE, calling

    link = case.files(Path(job["inputs"]))
    kernel = cuda.jit(SIGNATURE, link=link, **({"lto": True} if case.lto else {}))(calling(cuda))
    a = cuda.to_device(np.arange(_ELEMENTS, dtype=np.int32) % 64)
    out = cuda.device_array_like(a)
    times = []
    for _ in range(_LAUNCHES):
        begin, end = cuda.event(), cuda.event()
        begin.record()
        kernel[_ELEMENTS // 256, 256](out, a)
        end.record()
        end.synchronize()
        times.append(cuda.event_elapsed_time(begin, end))
    return times


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
