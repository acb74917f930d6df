"""Device code for the benchmarks: generated sources of one, ten and hundred functions, built as every kind."""

from __future__ import annotations

from pathlib import Path

from conformance import cells, fixtures
from conformance.model import Environment
from conformance.paths import cache

_FUNCTION = """\
// function_{number}: int32(int32, int32)
extern "C" __device__ int function_{number}(int *return_value, int a, int b)
{{
    int sum = {number};
    for (int i = 0; i < b; i++)
        sum = sum * 31 + a;
    *return_value = sum;
    return 0;
}}
"""


def build(environment: Environment, compute_capability: str, inputs: int = 100) -> Path:
    """Build all inputs for an environment's toolchain, or find them built; their folder.

    `one_N` has one function, for links of many inputs; `many_N_0` has N functions.
    """
    sources = cache("bench", f"sources-{inputs}")
    sources.mkdir(parents=True, exist_ok=True)
    for name, numbers in _units(inputs):
        _write(sources / f"{name}.cu", "\n".join(_FUNCTION.format(number=n) for n in numbers))
    folder = cells.toolchain_folder(environment)
    return fixtures.build(folder, environment.cuda_major, compute_capability, cache("bench"), sources=sources)


def _units(inputs: int):
    for i in range(inputs):
        yield f"one_{i}", [i]
    for functions in (10, 100):
        yield f"many_{functions}_0", range(functions)


def _write(path: Path, text: str) -> None:
    """Leave a file alone that has its text already: another process may read it."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
