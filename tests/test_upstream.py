"""nox -s upstream: how tests end and are recorded, with a made-up numba whose tests do all that tests can do."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from conformance import cells, driver, matrices
from conformance.errors import SuiteError
from conformance.model import Driver
from conformance.paths import ROOT
from conformance.toolchain import Toolchain
from conformance.upstream import binaries, command, modules, rule
from conformance.upstream.names import module_name, scenario_of

NUMBA = {
    "numba/__init__.py": "",
    "numba/cuda/__init__.py": "",
    "numba/cuda/cudadrv/__init__.py": "",
    "numba/cuda/cudadrv/runtime.py": "class Runtime: pass",
    "numba/cuda/cudadrv/driver.py": """
class Context:
    def create_module_image(self): pass
class CtypesLinker:
    def add_ptx(self): pass
    def complete(self): return b"image"
""",
    "numba/cuda/dispatcher.py": "class _Kernel:\n    def launch(self): pass",
    "numba/cuda/tests/__init__.py": "",
    "numba/cuda/tests/cudadrv/__init__.py": "",
    "numba/cuda/tests/cudadrv/test_broken.py": "import nonsense  # Linker",
    "numba/cuda/tests/cudadrv/test_deadly.py": "import os; os._exit(7)  # Linker",
    "numba/cuda/tests/cudadrv/test_absent.py": "import unittest; raise unittest.SkipTest('no Linker here')",
    "numba/cuda/tests/cudadrv/test_arrays.py": "def test_array(): pass",
    "numba/cuda/tests/cudadrv/test_linker.py": """
import ctypes, os, time, unittest, warnings
import pytest
from numba.cuda.cudadrv.driver import CtypesLinker

def link():
    linker = CtypesLinker()
    linker.add_ptx()
    linker.complete()

def launch():
    return ctypes.CDLL("libcuda.so.1").launch()

@pytest.mark.usefixtures("initialize_from_pytest_config")
class TestLinker(unittest.TestCase):
    def test_links(self):
        link()
        assert self._dump_failed_filechecks is False
    def test_needs_no_linker(self): pass
    def test_warns(self): warnings.warn("beware", UserWarning)
    def test_fails(self):
        link()
        self.assertEqual(1, 2)
    def test_launches(self):
        link()
        self.assertEqual(launch(), 0)
    def test_launches_and_does_not_mind(self): launch()
    def test_skips(self): self.skipTest("no nvdisasm")
    @unittest.expectedFailure
    def test_is_expected_to_fail(self): self.fail()
    @unittest.expectedFailure
    def test_is_expected_to_fail_in_vain(self): pass
    def test_fails_in_part(self):
        with self.subTest(kind="cubin"):
            self.fail("not this kind")
        os._exit(4)
    def test_dies(self): os._exit(3)
    def tearDown(self):
        if self.id().endswith("hangs"):
            time.sleep(600)
    def test_hangs(self): self.fail()
    def test_zz_comes_last(self): link()

def test_without_a_class(): link()
@pytest.mark.parametrize("kind", ["ptx", "cubin"])
def test_of_each(kind): assert kind == "ptx"
""",
}
REFUSING = "static unsigned n; __attribute__((visibility(\"default\"))) unsigned recordingLaunchCount(void) { return n; }\n"
REFUSING += "__attribute__((visibility(\"default\"))) int launch(void) { n++; return 801; }\n"
CLASS = "upstream/cudadrv/test_linker/TestLinker."


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """Runs the made-up tests on a made-up driver that refuses launches."""
    folder = tmp_path_factory.mktemp("made-up")
    for name, text in NUMBA.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "driver.c").write_text(REFUSING, encoding="utf-8")
    library = driver.build(folder / "cache", folder)
    m = matrices.load()
    cell = cells.describe(m, m.environment("cuda12-ctypes"), m.release("0.20.1"), Driver("recording", "12.9", "9.0"), Path())
    variables = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "LD_LIBRARY_PATH": str(library)}
    return modules.Runner(Path(sys.executable), cell, variables, folder, 10, [])


@pytest.fixture(scope="module")
def seen(runner):
    """The observations of the module that links."""
    facts, observations = runner.run("cudadrv/test_linker")
    assert facts["environment"] == "cuda12-ctypes"
    return {o["scenario"]: o for o in observations}


@pytest.mark.parametrize(
    ("test", "status", "reason"),
    [
        ("test_links", "conforms", ""),
        ("test_needs_no_linker", "conforms", ""),
        ("test_fails", "differs", "AssertionError: 1 != 2"),
        ("test_launches", "skipped", "needs a device: it launches a kernel"),
        ("test_launches_and_does_not_mind", "skipped", "needs a device: it launches a kernel"),
        ("test_skips", "skipped", "no nvdisasm"),
        ("test_is_expected_to_fail", "skipped", "upstream expects it to fail"),
        ("test_is_expected_to_fail_in_vain", "differs", "Unexpected success"),
        ("test_fails_in_part", "differs", "not this kind"),
        ("test_dies", "differs", "crash: the process ended by itself with exit code 3"),
        ("test_hangs", "differs", "timeout: no end after 10 s"),
        ("test_zz_comes_last", "conforms", ""),
    ],
)
def test_how_a_test_ends(seen, test, status, reason):
    one = seen[CLASS + test]
    assert (one["status"], one["profile"]) == (status, "extended")
    assert reason in one["reason"]
    assert bool(reason) == bool(one["reason"])


def test_each_test_is_recorded_once_with_its_linker(seen):
    assert len(seen) == 16
    linked = {name for name, o in seen.items() if o["linker"] == "CtypesLinker"}
    tests = ("test_links", "test_fails", "test_launches", "test_zz_comes_last")
    assert linked == {*(CLASS + t for t in tests), "upstream/cudadrv/test_linker/test_without_a_class"}
    assert seen[CLASS + "test_links"]["evidence"] == "emulated"
    assert seen[CLASS + "test_needs_no_linker"]["evidence"] == "selected"
    assert seen[CLASS + "test_fails"]["outcome"]["type"] == "AssertionError"
    assert seen["upstream/cudadrv/test_linker/test_of_each[cubin]"]["status"] == "differs"
    assert [w["message"] for w in seen[CLASS + "test_warns"]["warnings"]] == ["beware"]


@pytest.mark.parametrize(
    ("module", "status", "reason"),
    [
        ("test_broken", "differs", "ModuleNotFoundError: No module named 'nonsense'"),
        ("test_absent", "skipped", "no Linker here"),
        ("test_deadly", "differs", "crash: the process ended by itself with exit code 7"),
    ],
)
def test_a_module_without_tests_stands_in_their_place(runner, module, status, reason):
    _, observations = runner.run(f"cudadrv/{module}")
    assert [(o["scenario"], o["status"]) for o in observations] == [(f"upstream/cudadrv/{module}", status)]
    assert reason in observations[0]["reason"]


def test_counts_by_linker(seen):
    assert command.by_linker(list(seen.values())) == [
        "CtypesLinker: 3 passed, 1 failed, 1 skipped",
        "no linker: 3 passed, 5 failed, 3 skipped",
    ]


# -- which tests, and with what --------------------------------------------------------------------


def test_modules_are_chosen_by_what_their_source_is_about(tmp_path):
    tests = tmp_path / "numba" / "cuda" / "tests" / "cudadrv"
    tests.mkdir(parents=True)
    for name, text in (("test_new", "@cuda.jit(link=[x])"), ("test_array", "x = 1"), ("usecases", "link=[x]")):
        (tests / f"{name}.py").write_text(text, encoding="utf-8")
    assert rule.chosen(tmp_path) == {"cudadrv/test_new": ["code that is linked"]}
    (tests / "test_new.py").unlink()
    with pytest.raises(SuiteError, match="no tests that concern linking"):
        rule.chosen(tmp_path)


def test_the_rule_is_checked(tmp_path):
    (tmp_path / rule.FILE).write_text("packages = []\n[[concern]]\nwhat = 'x'\npattern = '('\n", encoding="utf-8")
    with pytest.raises(SuiteError, match="upstream.toml: x: no pattern"):
        rule.load(tmp_path)


def test_names_go_both_ways():
    node = "../site-packages/numba_cuda/numba/cuda/tests/cudadrv/test_linker.py::TestLinker::test_links"
    assert scenario_of(node) == "upstream/cudadrv/test_linker/TestLinker.test_links"
    assert module_name("cudadrv/test_linker") == "numba.cuda.tests.cudadrv.test_linker"


def test_a_module_or_a_test_may_be_asked_for():
    known = ["cudadrv/test_linker", "cudadrv/test_linker_more", "nrt/test_nrt"]
    asked = ["upstream/cudadrv/test_linker/TestLinker.test_links", "upstream/nrt/test_nrt"]
    assert command._wanted(known, asked) == ["cudadrv/test_linker", "nrt/test_nrt"]
    with pytest.raises(SuiteError, match="upstream/cudadrv/test_none: none of"):
        command._wanted(known, ["upstream/cudadrv/test_none"])


@pytest.mark.parametrize(("words", "told"), [(["cuda9"], "cuda9"), (["cuda12-ctypes", "--release", "0.30.4"], "does not exist at 0.30.4")])
def test_bad_input_is_one_line(words, told):
    with pytest.raises(SuiteError, match=told):
        command.main(words)


def test_the_binaries_that_upstream_asks_for_are_built(tmp_path, monkeypatch):
    monkeypatch.setenv("CONFORMANCE_CACHE", str(tmp_path))
    toolchain = Toolchain(Path(os.environ["CONFORMANCE_TOOLCHAINS"], "cu12"), 12)
    folder, left_out = binaries.build(toolchain, "9.0", tmp_path)
    suffixes = ("a", "cu", "cubin", "fatbin", "o", "ptx", "ltoir", "ltoir.o")
    assert {f"test_device_functions.{s}" for s in suffixes} | {"undefined_extern.cubin"} <= {p.name for p in folder.iterdir()}
    # Nothing is installed there, so NRT's header is missing.
    assert len(left_out) == 1
    assert re.match("nrt_extern.cu is not built: .*nrt.cuh", left_out[0])
