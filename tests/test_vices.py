"""The harness against a fake numba that misbehaves, one vice at a time (`fakes/vices.py`)."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance import cells, matrices, run
from conformance.errors import SuiteError
from conformance.model import KINDS, Cell, Deviation, Driver
from conformance.plugin import ENVIRONMENT
from conformance.products import KINDS as SUFFIXES
from conformance.records import Recorder, read

FAKES = Path(__file__).parent / "fakes"
# From the suite's own catalogue: values in eager and lazy compilation, errors, and LTO that is refused.
HONEST = {
    "inputs/integers-ptx-path-lazy": "launched",
    "inputs/integers-cu-file-eager": "launched",
    "inputs/single-precision-cubin": "launched",
    "inputs/double-precision-archive": "launched",
    "lto/every-kind-object-false-eager": "launched",
    "lto/every-kind-ptx-true-eager": "selected",
    "mistakes/missing-file-ptx": "selected",
    "mistakes/undefined-symbol-lazy": "linked",
}
VALUES = [scenario for scenario, evidence in HONEST.items() if evidence == "launched"]


def _load_vices():
    """The table of vices; the fake numba beside it must stay out of this process."""
    spec = importlib.util.spec_from_file_location("vices", FAKES / "vices.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["vices"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module.VICES


VICES = _load_vices()
MEETINGS = [(kind, vice) for vice in VICES.values() for kind in vice.scenarios if kind != "alone"]


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory) -> Path:
    """A folder of fixtures with nothing in them, one named after each vice."""
    folder = tmp_path_factory.mktemp("fixtures")
    names = [source.stem for source in Path("fixtures/device").glob("*.cu")] + list(VICES)
    for name in names:
        for kind in KINDS:
            (folder / (name + SUFFIXES[kind])).write_text("nothing")
    facts = {"cuda_major": 12, "compute_capability": "9.0", "names": names, "kinds": SUFFIXES}
    (folder / "fixtures.json").write_text(json.dumps(facts))
    return folder


@pytest.fixture(scope="module")
def cell(fixtures, tmp_path_factory) -> Cell:
    """A cell whose linker is ctypes', with the fake in the place of numba and of the device."""
    return _cell("cuda12-ctypes", "0.15.2", fixtures, tmp_path_factory.mktemp("results") / "run.jsonl")


def _cell(environment: str, release: str, fixtures: Path, results: Path) -> Cell:
    m = matrices.load()
    driver = Driver("device", "13.0", "9.0", "Fake")
    made = cells.describe(m, m.environment(environment), m.release(release), driver, results)
    return dataclasses.replace(made, fixtures=str(fixtures), deviations=[])


def _run(cell: Cell, scenarios, *arguments: str, vice: str = "", interpreter=sys.executable):
    """Run scenarios as `nox -s ENVIRONMENT` does; the exit code, and what the record holds."""
    results = Path(cell.results)
    variables = {
        **os.environ,
        "PYTHONPATH": f"{FAKES}{os.pathsep}{run.ROOT}",
        "CONFORMANCE_CATALOGUE": "vicious",
        "FAKE_VICE": vice,
        "FAKE_ORPHANS": str(results.parent / "orphans"),
    }
    chosen = [argument for scenario in scenarios for argument in ("--scenario", scenario)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONFORMANCE_CACHE", str(Path(cell.fixtures).parent / "cache"))
        code = run._pytest(interpreter, cell, variables, [*chosen, "--seconds", "2", "--repeat", "3", *arguments], 2)
    record = read(results)
    found = {one["scenario"]: one for one in record.observations}
    assert len(found) == len(record.observations), "something is recorded twice"
    return SimpleNamespace(code=code, record=record, found=found, folder=results.parent)


def _statuses(done, scenarios) -> set[str]:
    return {done.found[scenario]["status"] for scenario in scenarios}


def _judged_as(done, scenario: str, seen: str) -> None:
    """The scenario differs for a reason that tells the vice; or conforms where none is to be seen."""
    one = done.found[scenario]
    wanted = "unstable" if scenario.startswith("vicious/repeating") else "differs"
    assert one["status"] == (wanted if seen else "conforms"), one["reason"]
    assert re.search(seen, one["reason"], re.S), one["reason"]


def _is_complete(done, count: int) -> None:
    """The record has a footer and all scenarios, each once (see `_run`), and can be read as UTF-8."""
    assert done.record.complete
    assert len(done.found) == count + 1
    assert sum(done.record.footer["counts"].values()) == count + 1
    Path(done.record.path).read_bytes().decode()


# -- no vice ----------------------------------------------------------------------------------------


def test_an_honest_linker_conforms(cell):
    done = _run(cell, HONEST)
    assert done.code == 0
    assert {scenario: done.found[scenario]["evidence"] for scenario in HONEST} == HONEST
    assert _statuses(done, done.found) == {"conforms"}
    assert done.found[ENVIRONMENT]["evidence"] == "launched"
    _is_complete(done, len(HONEST))


# -- all vices in one run, honest scenarios among them ------------------------------------------------


@pytest.fixture(scope="module")
def everything(cell):
    """A run of all vices, whose processes die many times."""
    vicious = [f"vicious/{kind}-{vice.name}" for kind, vice in MEETINGS]
    half = len(vicious) // 2
    return _run(cell, [*VALUES[:2], *vicious[:half], *VALUES[2:4], *vicious[half:], *VALUES[4:]])


@pytest.mark.parametrize(("kind", "vice"), MEETINGS, ids=[f"{kind}-{v.name}" for kind, v in MEETINGS])
def test_a_vice_is_seen(everything, kind, vice):
    _judged_as(everything, f"vicious/{kind}-{vice.name}", vice.seen)


def test_vices_leave_the_rest_of_the_run_alone(everything):
    assert everything.code == 1
    assert _statuses(everything, VALUES) == {"conforms"}
    _is_complete(everything, len(MEETINGS) + len(VALUES))


def test_what_a_scenario_leaves_behind_is_ended(everything):
    orphans = (everything.folder / "orphans").read_text().split()
    assert len(orphans) == 2
    for orphan in orphans:
        with pytest.raises(ProcessLookupError):
            _kill(int(orphan))


def _kill(process: int) -> None:
    """Kill a process that should be dead; one that only waits to be collected is dead."""
    if "\nState:\tZ" in (Path("/proc") / str(process) / "status").read_text():
        raise ProcessLookupError
    os.kill(process, signal.SIGKILL)


# -- vices of every link ------------------------------------------------------------------------------


@pytest.mark.parametrize("vice", ["wrong-linker", "second-linker", "unwritten", "unexpected-warning"])
def test_the_suites_own_scenarios_see_a_vice(cell, vice):
    done = _run(cell, VALUES, vice=vice)
    assert done.code == 1
    for scenario in [ENVIRONMENT, *VALUES]:
        assert done.found[scenario]["status"] == "differs"


def test_an_error_without_text_is_no_documented_error(cell):
    any_text = dataclasses.replace(cell.failures["missing-file"].error, message="")
    failures = {"missing-file": dataclasses.replace(cell.failures["missing-file"], error=any_text)}
    mute = dataclasses.replace(cell, failures=failures)
    done = _run(mute, ["mistakes/missing-file-ptx"], vice="empty-text")
    assert done.code == 1
    _judged_as(done, "mistakes/missing-file-ptx", "the error has no text")


# -- the process --------------------------------------------------------------------------------------


def test_workers_that_die_cost_their_scenario_only(cell):
    names = ("value-segfault", "value-exit-0", "value-hang", "isolated-abort")
    dying = [f"vicious/{name}" for name in names]
    done = _run(cell, [*dying[:2], *VALUES, *dying[2:], "vicious/value-unwritable-error"], "-n", "2")
    assert done.code == 1
    for scenario in dying[:2]:
        _judged_as(done, scenario, "crash in phase launch: the worker process died")
    _judged_as(done, dying[2], "timeout in phase launch: no end after 2 s")
    _judged_as(done, dying[3], "killed by SIGABRT")
    assert _statuses(done, VALUES) == {"conforms"}
    _is_complete(done, len(dying) + len(VALUES) + 1)


def test_a_run_that_is_cut_short_is_not_complete(cell):
    done = _run(cell, [VALUES[0], "vicious/value-wrong-element", VALUES[1]], "-x")
    assert done.code == 1
    assert set(done.found) == {ENVIRONMENT, VALUES[0], "vicious/value-wrong-element"}
    assert not done.record.complete


def test_many_workers_may_die(cell):
    dying = [f"vicious/value-{name}" for name in ("segfault", "abort", "exit-0", "exit-1", "exit-2")]
    done = _run(cell, [*dying, *VALUES], "-n", "1")
    assert done.code == 1
    assert _statuses(done, dying) == {"differs"}
    _is_complete(done, len(dying) + len(VALUES))
    done = _run(cell, [*dying, *VALUES], "-n", "1", "--max-worker-restart", "2")
    assert done.code == 1
    assert not done.record.complete


def test_an_interrupt_ends_the_run(cell):
    done = _run(cell, [VALUES[0], "vicious/alone-interrupt", VALUES[1]])
    assert done.code != 0
    assert set(done.found) == {ENVIRONMENT, VALUES[0]}
    assert not done.record.complete
    done = _run(cell, VALUES, vice="interrupt")
    assert done.code != 0
    assert not done.found


def test_a_process_that_dies_at_its_end_fails_the_run(cell, capfd):
    done = _run(cell, ["vicious/alone-abort-at-exit", VALUES[0]])
    assert done.code != 0
    assert "killed by SIGABRT outside of any scenario" in capfd.readouterr().out
    _is_complete(done, 2)


# -- the import ---------------------------------------------------------------------------------------


IMPORTS = [vice for vice in VICES.values() if vice.at == "import" and vice.seen]


@pytest.mark.parametrize("vice", IMPORTS, ids=[vice.name for vice in IMPORTS])
def test_an_import_that_fails_fails_the_run(cell, vice):
    done = _run(cell, VALUES, vice=vice.name)
    assert done.code == 1
    _judged_as(done, ENVIRONMENT, vice.seen)
    assert _statuses(done, VALUES) == {"skipped"}
    _is_complete(done, len(VALUES))


def test_an_import_that_must_fail_conforms(fixtures, tmp_path):
    forced = _cell("cuda12-ctypes-pynvjitlink-forced", "0.16.0", fixtures, tmp_path / "run.jsonl")
    done = _run(forced, VALUES[:2], vice="import-error")
    assert done.code == 0
    assert done.found[ENVIRONMENT]["status"] == "conforms"
    assert _statuses(done, VALUES[:2]) == {"skipped"}
    for vice in ("import-exit", ""):
        assert _run(forced, VALUES[:2], vice=vice).code == 1


def test_an_import_that_fails_in_workers_only_fails_the_run(cell):
    done = _run(cell, VALUES[:2], "-n", "2", vice="import-error-in-worker")
    assert done.code == 1
    assert done.found[ENVIRONMENT]["status"] == "conforms"
    for scenario in VALUES[:2]:
        _judged_as(done, scenario, "does not import in this process, although it did in another")


# -- deviations ---------------------------------------------------------------------------------------


def test_deviations_are_strict(cell):
    known = [
        Deviation("vicious/value-wrong-element", {"type": "WrongValue"}, "unreported", "known"),
        Deviation("vicious/value-segfault", {"kind": "crash", "phase": "launch"}, "unreported", "known"),
        Deviation("vicious/value-wrong-linker", {}, "unreported", "of another linker"),
        Deviation("vicious/value-abort", {"kind": "crash", "message": "SIGSEGV"}, "unreported", "other"),
        Deviation(VALUES[0], {"type": "WrongValue"}, "unreported", "mended"),
    ]
    as_known = ["vicious/value-wrong-element", "vicious/value-segfault"]
    done = _run(dataclasses.replace(cell, deviations=known), as_known)
    assert done.code == 0
    assert _statuses(done, as_known) == {"deviates"}
    not_so = ["vicious/value-abort", VALUES[0], "vicious/value-wrong-linker"]
    done = _run(dataclasses.replace(cell, deviations=known), [*as_known, *not_so])
    assert done.code == 1
    _judged_as(done, not_so[0], "killed by SIGABRT")
    _judged_as(done, not_so[1], "conforms, although deviations.toml says")
    _judged_as(done, not_so[2], "linked by CudaPythonLinker instead")
    assert _run(dataclasses.replace(cell, deviations=known), as_known, "-n", "1").code == 0


def test_a_deviation_of_many_scenarios_leaves_some_out(cell):
    scenarios = [VALUES[0], "vicious/value-wrong-element"]
    wide = Deviation("*", {"type": "WrongValue"}, "unreported", "known", apart_from=["inputs/*", ENVIRONMENT])
    assert _run(dataclasses.replace(cell, deviations=[wide]), scenarios).code == 0
    for apart, differs in ((["vicious/*", ENVIRONMENT], scenarios), ([ENVIRONMENT], [VALUES[0]])):
        done = _run(dataclasses.replace(cell, deviations=[dataclasses.replace(wide, apart_from=apart)]), scenarios)
        assert done.code == 1 and _statuses(done, differs) == {"differs"}


# -- records ------------------------------------------------------------------------------------------


def test_a_full_disk_is_one_clear_error(cell, tmp_path, capfd):
    """A limit on the size of files stands for the disk."""
    small = tmp_path / "python"
    small.write_text(f'#!/bin/sh\nulimit -f 8\nPYTHONDONTWRITEBYTECODE=1 exec {sys.executable} "$@"\n')
    small.chmod(0o755)
    done = _run(cell, HONEST, interpreter=small)
    output = "".join(capfd.readouterr())
    assert done.code != 0
    assert "run.jsonl cannot be written" in output and "make room" in output
    assert "Traceback" not in output and "INTERNALERROR" not in output
    assert not done.record.complete
    assert done.found[ENVIRONMENT]["status"] == "conforms"


def test_a_folder_that_cannot_be_made_is_one_clear_error(cell, tmp_path, capfd):
    (tmp_path / "file").touch()
    with pytest.raises(SuiteError, match="file is no folder for records"):
        _run(dataclasses.replace(cell, results=str(tmp_path / "file" / "run.jsonl")), VALUES)


def test_a_record_that_cannot_be_opened_is_one_clear_error(cell, tmp_path, capfd):
    (tmp_path / "run.jsonl").mkdir()
    with pytest.raises(SuiteError, match="cannot be read"):
        _run(dataclasses.replace(cell, results=str(tmp_path / "run.jsonl")), VALUES)
    output = "".join(capfd.readouterr())
    assert "run.jsonl cannot be written" in output and "INTERNALERROR" not in output


@pytest.mark.parametrize("cut", [1, 20])
def test_a_truncated_record_is_gone_on_with(cell, tmp_path, cut):
    """What was cut off is run again; without its end a line does not count, even if it could be read."""
    done = _run(dataclasses.replace(cell, results=str(tmp_path / "run.jsonl")), VALUES[:3])
    lines = done.record.path.read_bytes().splitlines(keepends=True)
    done.record.path.write_bytes(b"".join(lines[:4])[:-cut])
    lost = {"scenario": VALUES[2], "phase": "add", "kind": "crash", "message": "the lights went out"}
    again = _resume(done.record.path, cell, VALUES[:3], lost)
    assert again.code == 1
    _judged_as(again, VALUES[2], "crash in phase add: the lights went out")
    assert _statuses(again, VALUES[:2]) == {"conforms"}
    _is_complete(again, 3)


def _resume(path: Path, cell: Cell, scenarios, lost: dict):
    return _run(dataclasses.replace(cell, results=str(path)), scenarios, "--resume", json.dumps(lost))


def test_texts_with_foreign_line_ends_can_be_read(tmp_path):
    recorder = Recorder(tmp_path / "run.jsonl")
    recorder.header()
    text = "a\u2028b\x85c\x0c\x1d\ud800"
    recorder.observation({"status": "differs", "reason": text})
    recorder.footer()
    assert read(recorder.path).complete
    assert read(recorder.path).observations[0]["reason"] == text
