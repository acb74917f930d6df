"""Planted faults: their file, how they are planted, who must catch them; and the page that tells it."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

from conformance import catching, environments, faultpage, matrices, planted, planting, released
from conformance.catching import Bench, Outcome, Workshop, catch_all, workshop
from conformance.errors import SuiteError
from conformance.planted import Edit, Planted
from conformance.scenario import catalogue

M = matrices.load()
FAULTS = planted.load()

SOUND = """
[[fault]]
name = "sound"
brings = "A text is another."
cells = ["cuda12-ctypes@0.20.1"]
scenarios = ["options/max-registers-ptx-*"]
caught_by = ["options/max-registers-*"]
[[fault.edit]]
file = "package/module.py"
find = "one"
replace = "two"
"""


# The file


def _loaded(folder: Path, text: str) -> list[Planted]:
    (folder / planted.FILE).write_text(text, encoding="utf-8")
    return planted.load(folder)


def test_at_least_forty_faults_in_old_and_new_releases_and_in_each_package():
    assert len(FAULTS) >= 40
    releases = {cell.partition("@")[2] for f in FAULTS for cell in f.cells}
    assert {"0.15.2", "0.18.1", "0.20.1", "0.22.2", "0.30.4"} <= releases
    files = {edit.file.split("/")[0] for f in FAULTS for edit in f.edit}
    assert {"numba_cuda", "cuda", "pynvjitlink", "cubinlinker", "ptxcompiler", "fixtures"} <= files


def test_a_sound_file_loads(tmp_path):
    [fault] = _loaded(tmp_path, SOUND)
    assert fault.edit == [Edit("package/module.py", "one", "two")]
    assert "options/max-registers-ptx-32-eager" in fault.ids
    assert fault.names("options/max-registers-ptx-32-eager")
    assert not fault.names("options/lto-inlines")


@pytest.mark.parametrize(
    "before, after, what",
    [
        ("brings", "bring", "fault.0.bring: no such key"),
        ('name = "sound"', 'name = "Not sound"', "Not sound: name: give small letters"),
        ("cuda12-ctypes@0.20.1", "cuda12-ctype@0.20.1", "no environment is called 'cuda12-ctype'"),
        ("cuda12-ctypes@0.20.1", "cuda12-ctypes@0.20", "no release is called '0.20'"),
        ("cuda12-ctypes@0.20.1", "cuda12-ctypes@0.30.4", "does not exist at 0.30.4"),
        ("cuda12-ctypes@0.20.1", "selection@0.20.1", "selection: missing"),
        ('["options/max-registers-ptx-*"]', "[]", "scenarios: missing"),
        ("options/max-registers-ptx-*", "options/maximal-*", "scenarios: no scenario is called 'options/maximal-*'"),
        ("options/max-registers-*", "options/lineinfo-*", "caught_by: 'options/lineinfo-*' is none of what is run"),
        ("options/max-registers-*", "options/*", "caught_by: 'options/*' names no matter"),
        ("options/max-registers-*", "*/max-registers-*", "caught_by: '*/max-registers-*' names no matter"),
        ('"two"', '"one"', "edit.0: replace: nothing is changed"),
        ('"one"', '" "', "edit.0: find: there is nothing to find"),
        ("package/module.py", "../module.py", "edit.0: file: give a path within site-packages"),
        ("package/module.py", "fixtures/driver/absent.c", "edit.0: file: the recording driver has no"),
        ("brings =", 'needs = "device"\nbrings =', "reason: say what only a device shows"),
        ("brings =", 'needs = "luck"\nreason = "x"\nbrings =', "needs: no such word: 'luck'"),
        ("brings =", 'selection = ["binding=9"]\nbrings =', "selection: binding=9: no such value"),
        ("[[fault.edit]]", "[fault.edit]", "fault.0.edit: Input should be a valid"),
    ],
)
def test_every_fault_of_the_file_is_told_in_its_place(tmp_path, before, after, what):
    text = SOUND.replace(before, after) + SOUND.replace("sound", "also-sound")
    if before == "options/max-registers-*":  # the scenarios' pattern is another's beginning
        text = SOUND.replace(f'caught_by = ["{before}"]', f'caught_by = ["{after}"]')
    assert text != SOUND
    with pytest.raises(SuiteError) as error:
        _loaded(tmp_path, text)
    assert re.search(re.escape(what), str(error.value)), error.value


def test_all_faults_of_the_file_are_told_at_once(tmp_path):
    with pytest.raises(SuiteError) as error:
        _loaded(tmp_path, SOUND + SOUND.replace('"two"', '"one"').replace("@0.20.1", "@0.1"))
    for what in ("two faults have this name", "nothing is changed", "no release is called '0.1'"):
        assert what in str(error.value)


def test_an_unknown_name_is_an_error_that_lists_the_known():
    assert [f.name for f in planted.choose(FAULTS, ["notice-*"])] == [
        "notice-lost", "notice-doubled", "notice-of-another-category",
    ]  # fmt: skip
    with pytest.raises(SuiteError, match="no planted fault is called 'notice'; known: .*notice-lost"):
        planted.choose(FAULTS, ["notice"])


# Planting


@pytest.fixture
def installed(tmp_path) -> Path:
    """The interpreter of a made-up environment with one package, which has been compiled."""
    site = tmp_path / "shared" / "lib" / "python3.11" / "site-packages"
    (site / "package" / "__pycache__").mkdir(parents=True)
    (site / "package" / "module.py").write_text("number = 'one'\n", encoding="utf-8")
    (site / "package" / "other.py").write_text("number = 'one'\n", encoding="utf-8")
    for name in ("module", "other"):
        (site / "package" / "__pycache__" / f"{name}.cpython-311.pyc").write_bytes(b"compiled")
    (tmp_path / "shared" / "bin").mkdir()
    (tmp_path / "shared" / "bin" / "python").symlink_to("/usr/bin/env")
    return tmp_path / "shared" / "bin" / "python"


def _fault(*edits: Edit, **changes) -> Planted:
    facts = {"name": "made-up", "brings": "Something.", "cells": ["cuda12-ctypes@0.20.1"]}
    facts |= {"scenarios": ["options/max-registers-ptx-*"], "caught_by": ["options/max-registers-*"]}
    edits = edits or (Edit("package/module.py", "one", "two"),)
    return Planted(edit=list(edits), **(facts | changes))


def _package(interpreter: Path) -> Path:
    return interpreter.parents[1] / "lib" / "python3.11" / "site-packages" / "package"


def test_nothing_is_written_through_a_hard_link(installed, tmp_path):
    shared = {p: (p.read_bytes(), p.stat().st_ino) for p in installed.parents[1].rglob("*") if p.is_file()}
    made = planting.copy(installed, tmp_path / "copy")
    mine, theirs = _package(made), _package(installed)
    assert os.path.samefile(mine / "module.py", theirs / "module.py")
    planting.in_environment(_fault(), made)
    assert (mine / "module.py").read_text(encoding="utf-8") == "number = 'two'\n"
    assert not os.path.samefile(mine / "module.py", theirs / "module.py")
    assert {p: (p.read_bytes(), p.stat().st_ino) for p in shared} == shared
    assert os.path.samefile(mine / "other.py", theirs / "other.py")


def test_what_was_compiled_of_the_file_goes_from_the_copy_alone(installed, tmp_path):
    made = planting.copy(installed, tmp_path / "copy")
    planting.in_environment(_fault(), made)
    compiled = "__pycache__/module.cpython-311.pyc"
    assert not (_package(made) / compiled).exists()
    assert (_package(installed) / compiled).exists()
    assert (_package(made) / "__pycache__" / "other.cpython-311.pyc").exists()


def test_two_edits_of_one_file_follow_each_other(installed, tmp_path):
    made = planting.copy(installed, tmp_path / "copy")
    edits = [Edit("package/module.py", "one", "two"), Edit("package/module.py", "two", "three")]
    assert planting.faults_of(_fault(*edits), made, "here") == []
    planting.in_environment(_fault(*edits), made)
    assert (_package(made) / "module.py").read_text(encoding="utf-8") == "number = 'three'\n"


@pytest.mark.parametrize(
    "edit, what",
    [
        (Edit("package/module.py", "absent", "x"), "module.py has 'absent' 0 times .* the package has moved on"),
        (Edit("package/module.py", "n", "x"), "module.py has 'n' 2 times .* give more of the text"),
        (Edit("package/gone.py", "one", "x"), "gone.py cannot be read .* give today's file in faults.toml"),
        (Edit("fixtures/driver/link.c", "int absent", "x"), "link.c has 'int absent' 0 times"),
    ],
)
def test_a_text_that_is_not_there_once_is_an_error_with_its_mend(installed, edit, what):
    [said] = planting.faults_of(_fault(edit), installed, "cuda12-ctypes@0.20.1")
    assert re.search(f"made-up: cuda12-ctypes@0.20.1: .*{what}", said)


def test_the_driver_is_built_of_a_copy_of_its_sources(tmp_path):
    before = {p: p.read_bytes() for p in planting.recording.SOURCES.iterdir()}
    edit = Edit("fixtures/driver/link.c", '{0, "-maxrregcount=%u"},', '{99, "-maxrregcount=%u"},')
    built = planting.in_driver(_fault(edit), tmp_path / "driver")
    assert (built / "libcuda.so.1").is_file()
    assert {p: p.read_bytes() for p in planting.recording.SOURCES.iterdir()} == before
    assert planting.in_driver(_fault(), tmp_path / "none") is None


def test_every_text_of_the_recording_driver_is_there_once():
    edited = {f.name: [e for e in f.edit if e.file.startswith(planted.DRIVER)] for f in FAULTS}
    unfit = [planting.faults_of(_fault(*edits), Path("none"), name) for name, edits in edited.items() if edits]
    assert unfit == [[]] * len(unfit) != []


# Catching, with made-up observations


CAUGHT, BESIDE = "options/max-registers-ptx-32-eager", "options/max-registers-ptx-64-lazy"


@pytest.fixture
def observing(monkeypatch, tmp_path):
    """A workshop in which what is observed is said by the test: statuses by scenario, with a fault or without."""

    def make(planted_status: dict[str, str], control_status: dict[str, str] | None = None) -> Workshop:
        def observe(self, folder, faults, fault):
            statuses = planted_status if fault else (control_status or {})
            return {name: {"status": status, "reason": f"it {status}"} for name, status in statuses.items()}

        monkeypatch.setattr(Bench, "_observe", observe)
        monkeypatch.setattr(Bench, "unfit", lambda self, faults: [])
        return Workshop(M, Path("python"), tmp_path)

    return make


def test_a_fault_is_caught_by_what_names_the_matter(observing):
    shop = observing({CAUGHT: "differs", "environment/import-and-link": "differs"})
    [outcome] = catch_all(shop, [_fault()], told=lambda text: None)
    assert outcome == Outcome("made-up", "cuda12-ctypes@0.20.1", (CAUGHT,), ("environment/import-and-link",))
    assert not outcome.survives


@pytest.mark.parametrize("seen", [{CAUGHT: "conforms"}, {CAUGHT: "deviates"}, {"lto/nothing-linked-unset": "differs"}])
def test_a_fault_that_nothing_which_names_it_notices_survives(observing, seen):
    told = []
    [outcome] = catch_all(observing(seen), [_fault()], told=told.append)
    assert outcome.survives
    assert "SURVIVES" in told[0]


def test_an_unstable_answer_is_noticed_too(observing):
    [outcome] = catch_all(observing({CAUGHT: "unstable"}), [_fault()], told=lambda text: None)
    assert outcome.caught_by == (CAUGHT,)


def test_where_the_environment_is_not_clean_nothing_is_said_of_faults(observing):
    shop = observing({CAUGHT: "differs"}, {CAUGHT: "differs", BESIDE: "conforms"})
    with pytest.raises(SuiteError, match=f"without any fault these differ.*\n.*{CAUGHT}: it differs"):
        catch_all(shop, [_fault()], told=lambda text: None)


def test_a_fault_for_a_device_is_neither_run_nor_counted_as_caught(observing):
    [outcome] = catch_all(observing({CAUGHT: "differs"}), [_fault(needs="device", reason="only there")], told=print)
    assert (outcome.caught_by, outcome.survives, outcome.device) == ((), False, "only there")


def test_faults_that_cannot_be_planted_are_told_together(observing, monkeypatch):
    shop = observing({})
    monkeypatch.setattr(Bench, "unfit", lambda self, faults: [f"{f.name} cannot be" for f in faults])
    with pytest.raises(SuiteError, match="first cannot be\n  second cannot be"):
        catch_all(shop, [_fault(name="first"), _fault(name="second")], told=print)


@pytest.mark.parametrize("status, code, said", [("differs", 0, "1 caught, 0 survive"), ("conforms", 1, "0 caught, 1 survive")])
def test_the_exit_code_says_whether_one_survives(observing, monkeypatch, capsys, tmp_path, status, code, said):
    observing({CAUGHT: status})
    monkeypatch.setenv("CONFORMANCE_CACHE", str(tmp_path))
    monkeypatch.setattr(planted, "load", lambda: [_fault()])
    assert catching.main([]) == code
    assert said in (out := capsys.readouterr().out)
    assert ("a scenario is missing" in out) == bool(code)
    assert list((tmp_path / "planted").iterdir()) == []


def test_the_list_says_what_each_would_bring(capsys):
    assert catching.main(["--list", "max-registers-always"]) == 0
    assert "A limit on registers holds for kernels that asked for none." in capsys.readouterr().out


def test_write_is_about_all():
    with pytest.raises(SuiteError, match="--write is about all faults"):
        catching.main(["--write", "notice-lost"])


# Real ones, end to end


def test_real_faults_are_caught_and_a_harmless_edit_is_not():
    """Two faults of a release and of the recording driver, and an edit that changes nothing."""
    cell = ["cuda12-ctypes@0.20.1"]
    chosen = planted.choose(FAULTS, ["max-registers-not-passed-to-the-driver", "kinds-mixed-up-by-the-driver"])
    real = [dataclasses.replace(f, cells=cell) for f in chosen]
    comment = Edit("numba_cuda/numba/cuda/codegen.py", "# Load\n", "# Load, without a change\n")
    harmless = _fault(comment, name="harmless", scenarios=["options/max-registers-ptx-32-eager"])
    python = environments.choose_python(M.common.python)
    shared = environments.environment(M.lock(M.environment("cuda12-ctypes"), M.release("0.20.1")), python)
    driver = next(shared.parents[1].glob("lib/*/site-packages")) / "numba_cuda/numba/cuda/cudadrv/driver.py"
    before = driver.read_bytes()
    with workshop(M, python) as shop:
        outcomes = {o.fault: o for o in catch_all(shop, [*real, harmless], told=print)}
    assert "options/max-registers-ptx-32-eager" in outcomes["max-registers-not-passed-to-the-driver"].caught_by
    assert "inputs/integers-object-path-eager" in outcomes["kinds-mixed-up-by-the-driver"].caught_by
    assert outcomes["harmless"].survives
    assert outcomes["harmless"].others == ()
    assert driver.read_bytes() == before
    assert not shop.folder.exists()


# The page


PAGE = faultpage.PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_planting_and_who_caught_it():
    lines = faultpage.section(PAGE, "planted").splitlines()[2:]
    told = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert [row[1] for row in told] == [cell for f in FAULTS for cell in f.cells]
    plantings = [(f, cell) for f in FAULTS for cell in f.cells]
    for (fault, cell), (what, _, by) in zip(plantings, told, strict=True):
        assert what == (f"**{fault.name}**: {fault.brings}" if cell == fault.cells[0] else ""), (fault.name, cell)
        if fault.needs:
            assert by == f"needs a device: {fault.reason}"
            continue
        names = re.findall("`(.*?)`", by)
        assert names, (fault.name, cell)
        assert all(fault.names(name) for name in names), (fault.name, names)
        assert all(n in catalogue() for n in names if not n.startswith(("selection/", "environment/")))


def test_the_pages_second_table_follows_from_the_matrices():
    assert faultpage.section(PAGE, "released") == faultpage.released_table(M), "run `nox -s faults -- --write`"


def test_a_table_is_put_between_its_marks_and_nowhere_else():
    empty = "before\n<!-- planted: x -->\n<!-- end of planted -->\nafter\n"
    assert faultpage._with(empty, "planted", "| new |\n") == empty.replace("x -->\n", "x -->\n| new |\n")
    filled = faultpage._with(PAGE, "released", "| new |\n")
    assert faultpage.section(filled, "released") == "| new |\n"
    assert faultpage.section(filled, "planted") == faultpage.section(PAGE, "planted")


def test_a_page_without_its_marks_is_an_error_that_names_them():
    with pytest.raises(SuiteError, match="lost its marks for 'planted'"):
        faultpage.section(PAGE.replace("<!-- planted:", "<!--"), "planted")


# Faults of released versions


ROWS = released.rows(M)


def test_each_row_is_a_release_with_the_fault_and_one_without():
    known = {d.reason: d for d in [*M.deviations, *M.selection_deviations]}
    assert len(ROWS) >= 25
    for row in ROWS:
        ranges = [d.releases for d in [*M.deviations, *M.selection_deviations] if d.reason == row.reason]
        found, clean = (place.partition("@")[2] for place in (row.found, row.clean))
        assert row.reason in known
        assert any(matrices.within(found, r) and not matrices.within(clean, r) for r in ranges), row
        assert row.found.partition("@")[0] == row.clean.partition("@")[0]


def test_what_has_no_row_is_in_every_release_or_at_times_only():
    shown = {row.reason for row in ROWS} | set(released.in_every_release(M))
    at_times = {d.reason for d in M.deviations if d.sometimes}
    assert {d.reason for d in [*M.deviations, *M.selection_deviations]} <= shown | at_times


def test_a_row_that_does_not_hold_is_told(monkeypatch, tmp_path):
    row = next(r for r in ROWS if r.subject.startswith("options/other-target"))
    monkeypatch.setattr(released, "rows", lambda m: [row])
    answers = {
        row.found: {"status": "conforms", "reason": ""},
        row.clean: {"status": "deviates", "reason": row.reason},
    }
    monkeypatch.setattr(released, "_observed", lambda m, p, cell, s, f: {row.subject: answers[cell]})
    said = released.check(M, Path("python"), tmp_path, lambda text: None)
    assert [line.split(": ")[0] for line in said] == [row.found, row.clean]
    answers[row.found], answers[row.clean] = {"status": "deviates", "reason": row.reason}, {"status": "conforms", "reason": ""}
    assert released.check(M, Path("python"), tmp_path, lambda text: None) == []
