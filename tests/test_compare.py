"""compare: one planted difference of every kind, and what makes two runs hard to compare."""

from __future__ import annotations

import json

import pytest
from made_up import error, value, write

from conformance import compare, history, matrices
from conformance.differences import differences
from conformance.errors import SuiteError
from conformance.selectors import pairs, select

OTHER_ERROR = {"type": "nvJitLinkError", "bases": ["cuda.bindings.nvjitlink.nvJitLinkError", "builtins.Exception"]}
CHILD = {"type": "MissingFile", "bases": ["new.MissingFile", *error()["outcome"]["bases"]]}


def image(**changes) -> dict:
    return value()["image"] | changes


def kernel(**changes) -> dict:
    return image(kernels={"kernel": value()["image"]["kernels"]["kernel"] | changes})


@pytest.mark.parametrize(
    ("a", "b", "kind", "weight"),
    [
        (value(), value(outcome={"kind": "value", "phase": "verify", "digest": "d2"}), "result", "breaking"),
        (value(), value(outcome=error()["outcome"]), "outcome", "breaking"),
        (error(), error(outcome={"kind": "value"}), "outcome", "visible"),
        (value(), value(outcome={"kind": "crash", "phase": "load", "type": None, "digest": None}), "outcome", "breaking"),
        (value(), value(status="unstable"), "unstable", "breaking"),
        (error(), error(outcome=OTHER_ERROR), "error class", "breaking"),
        (error(), error(outcome=CHILD), "error class", "visible"),
        (error(), error(outcome={"phase": "complete"}), "error phase", "visible"),
        (error(), error(outcome={"message": "LinkerError: no"}), "error text", "breaking"),
        (error(), error(outcome={"message": "LinkerError: b.ptx not found"}), "error text", "cosmetic"),
        (value(), value(warnings=[{"category": "UserWarning", "message": "beware"}]), "warning", "visible"),
        (value(warnings=[{"category": "UserWarning", "message": "beware"}]), value(), "warning", "visible"),
        (value(), value(image=image(line_info=True)), "image", "visible"),
        (value(), value(image=image(debug_info=True)), "image", "visible"),
        (value(), value(image=image(functions=[])), "image", "visible"),
        (value(), value(image=image(architecture="sm_80")), "image", "visible"),
        (value(), value(image=image(size=9000)), "image", "cosmetic"),
        (value(), value(image=image(kernels={})), "image", "visible"),
        (value(), value(image=kernel(registers=40)), "image", "visible"),
        (value(), value(image=kernel(local=8)), "image", "visible"),
        (value(), value(image=kernel(code=999)), "image", "cosmetic"),
        (value(), value(status="skipped", outcome=None, reason="needs a device"), "skipped", "visible"),
    ],
)
def test_every_kind_of_difference_is_found(a, b, kind, weight):
    assert [(d.kind, d.weight) for d in differences(a, b)] == [(kind, weight)]


def test_what_does_not_differ_is_not_reported():
    assert differences(value(), value()) == []
    assert differences(error(), error()) == []


def test_a_text_that_never_named_the_file_has_lost_nothing():
    silent = error(outcome={"message": "LinkerError: no"})
    assert differences(silent, silent) == []
    assert differences(silent, error()) != []


def test_a_twice_given_warning_is_new():
    warning = {"category": "UserWarning", "message": "beware"}
    assert [d.text for d in differences(value(warnings=[warning]), value(warnings=[warning] * 2))] == ["new UserWarning: beware"]


@pytest.fixture
def results(tmp_path):
    """Two cells that differ in one error's class."""
    write(tmp_path, "cuda12-ctypes", "0.18.1", [value(), error()])
    write(tmp_path, "cuda12-nvidia", "0.18.1", [value(), error(outcome=OTHER_ERROR)])
    return tmp_path


def run(capsys, *arguments) -> tuple[int, str]:
    code = compare.main([*arguments])
    return code, capsys.readouterr().out


def test_exit_codes_and_the_worst_first(results, capsys):
    write(results, "cuda13-nvidia", "0.30.4", [value(), error()])
    code, out = run(capsys, "cuda12-ctypes", "cuda12-nvidia", "--results", str(results))
    assert code == 1
    assert "`except LinkerError`, `except RuntimeError` no longer catches" in out
    assert "1 scenarios the same; 1 breaking, 0 visible, 0 cosmetic" in out
    assert run(capsys, "cuda12-ctypes", "cuda13-nvidia", "--results", str(results))[0] == 0


@pytest.mark.parametrize("selector", ["ctypes", "cuda12-ctypes", "cuda12-ctypes@0.18.1"])
def test_selectors(results, selector):
    m = matrices.load()
    assert [p.name for p in select(m, selector, results)] == ["cuda12-ctypes@0.18.1"]


def test_a_results_folder_against_another(results, tmp_path_factory, capsys):
    other = tmp_path_factory.mktemp("other")
    write(other, "cuda12-ctypes", "0.18.1", [value(), error()], device="NVIDIA L4")
    code, out = run(capsys, str(results), str(other))
    assert code == 0 and "! another device: NVIDIA H200 and NVIDIA L4" in out


def test_cells_of_the_same_release_are_paired(results):
    write(results, "cuda12-ctypes", "0.16.0", [value()])
    write(results, "cuda12-nvidia", "0.16.0", [value()])
    m = matrices.load()
    found = pairs(select(m, "cuda12-ctypes", results), select(m, "cuda12-nvidia", results), m)
    assert [(a.release, b.release) for a, b in found] == [("0.16.0", "0.16.0"), ("0.18.1", "0.18.1")]


def test_cells_that_have_nothing_in_common_are_an_error(results):
    write(results, "cuda13-nvidia", "0.20.1", [value()])
    write(results, "cuda13-nvidia", "0.22.2", [value()])
    m = matrices.load()
    with pytest.raises(SuiteError, match="name one cell on each side"):
        pairs(select(m, "cuda12-ctypes", results), select(m, "cuda13-nvidia", results), m)


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ("cuda12-ctype", "near it: cuda12-ctypes"),
        ("cuda12-ctypes@0.15.2", "nox -s cuda12-ctypes -- --release 0.15.2"),
        ("mvc", "no records of mvc"),
        ("no/such/folder", "no folder of results"),
    ],
)
def test_a_selector_that_stands_for_nothing_is_one_clear_error(results, selector, says):
    with pytest.raises(SuiteError, match=says.replace(".", r"\.")):
        select(matrices.load(), selector, results)


@pytest.mark.parametrize(
    ("changes", "says", "code"),
    [
        ({"footer": False}, "B has no footer", 2),
        ({"schema": 9}, "B is damaged: schema 9 is not 1", 2),
        ({"driver": {"kind": "recording", "version": "12.9"}}, "another driver: device and recording", 0),
        ({"compute_capability": "8.0"}, "another compute capability: 9.0 and 8.0", 0),
        ({"suite": "old"}, "another suite", 0),
        ({"python": "3.10.1"}, "another Python: 3.12 and 3.10", 0),
    ],
)
def test_what_makes_runs_hard_to_compare_is_said(tmp_path, capsys, changes, says, code):
    write(tmp_path, "cuda12-ctypes", "0.18.1", [value()])
    write(tmp_path, "cuda12-nvidia", "0.18.1", [value()], **changes)
    result, out = run(capsys, "cuda12-ctypes", "cuda12-nvidia", "--results", str(tmp_path))
    assert says in out and result == code


def test_scenarios_of_one_side_only_are_said(tmp_path, capsys):
    write(tmp_path, "cuda12-ctypes", "0.18.1", [value(), error()])
    write(tmp_path, "cuda12-nvidia", "0.18.1", [value()])
    _, out = run(capsys, "cuda12-ctypes", "cuda12-nvidia", "--results", str(tmp_path))
    assert "1 scenarios only in A: mistakes/missing-file-ptx" in out


def test_formats(results, capsys):
    _, out = run(capsys, "cuda12-ctypes", "cuda12-nvidia", "--results", str(results), "--format", "json")
    (document,) = json.loads(out)
    assert document["a"] == "cuda12-ctypes@0.18.1"
    assert [d["kind"] for d in document["differences"]] == ["error class"]
    _, out = run(capsys, "cuda12-ctypes", "cuda12-nvidia", "--results", str(results), "--format", "markdown")
    assert "| breaking | error class | 1 |" in out


def test_history_shows_where_an_outcome_changed(tmp_path, capsys):
    write(tmp_path, "cuda12-nvidia", "0.15.2", [error()])
    write(tmp_path, "cuda12-nvidia", "0.16.0", [error(outcome=OTHER_ERROR)])
    write(tmp_path, "cuda12-nvidia", "0.18.1", [error(outcome=OTHER_ERROR)])
    history.main(["--scenario", "mistakes/missing-file-ptx", "--results", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["cuda12-nvidia", "0.15.2", "0.16.0", "0.18.1"]
    assert ["<-" in line for line in lines] == [False, False, True, False]


def test_history_of_an_unknown_scenario_names_the_nearest(tmp_path):
    with pytest.raises(SuiteError, match="mistakes/missing-file-ptx"):
        history.main(["--scenario", "mistakes/missing-file-pt", "--results", str(tmp_path)])
