"""How upstream's tests are called in records: `upstream/cudadrv/test_linker/TestLinker.test_linker_basic`."""

from __future__ import annotations

FAMILY = "upstream"
_TESTS = "numba/cuda/tests/"


def scenario_of(node: str) -> str:
    """The id of a test, from pytest's name for it."""
    path, _, test = node.partition("::")
    module = path.rpartition(_TESTS)[2].removesuffix(".py")
    return "/".join(filter(None, (FAMILY, module, test.replace("::", "."))))


def module_name(path: str) -> str:
    """The name under which a test module is imported, from its path below the tests."""
    return f"numba.cuda.tests.{path.removesuffix('.py').replace('/', '.')}"
