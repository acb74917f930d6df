"""The catalogue as a table, and what it and the records leave out."""

from __future__ import annotations

import dataclasses

import pytest
from made_up import value, write

from conformance import gaps, listing, matrices
from conformance.errors import SuiteError
from conformance.scenario import ENVIRONMENT, catalogue

M = matrices.load()
SCENARIOS = list(catalogue().values())
PTX = "inputs/integers-ptx-path-eager"
REGISTERS = "options/max-registers-ptx-32-eager"


def skipped(scenario: str, reason: str) -> dict:
    return value(scenario, status="skipped", outcome=None, linker="", reason=reason)


def runs(folder) -> list[gaps.Recorded]:
    return gaps.recorded(M, folder)


# -- the table ---------------------------------------------------------------------------------------------


def test_the_catalogue_is_a_line_for_each_scenario(capsys):
    assert listing.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(SCENARIOS)]] == list(catalogue())
    assert lines[-1] == f"{len(SCENARIOS)} scenarios"


def test_a_line_says_all_that_a_scenario_is():
    one = dataclasses.replace(catalogue()[PTX], profile="extended", cases=("C01",), needs=("option:lto",), isolated=True, repeats=True)
    assert listing.table([one]) == [f"{PTX}  extended  C01       option:lto  [isolated, repeats]"]


def test_a_family_is_listed_alone(capsys):
    assert listing.main(["--family", "lto"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split("/")[0] for line in lines if "/" in line} == {"lto"}
    with pytest.raises(SuiteError, match="no family is called 'nonsense'; known: .*lto"):
        listing.main(["--family", "nonsense"])


# -- the gaps ----------------------------------------------------------------------------------------------


def test_a_feature_that_no_scenario_needs_is_told():
    assert "option:lto" not in gaps.features(M, SCENARIOS)
    assert "option:lto" in gaps.features(M, [s for s in SCENARIOS if "option:lto" not in s.needs])


def test_what_is_skipped_everywhere_is_told_with_all_reasons(tmp_path):
    write(tmp_path, "cuda12-ctypes", "0.18.1", [skipped(PTX, "no device"), skipped(REGISTERS, "too old")])
    write(tmp_path, "cuda12-ctypes", "0.20.1", [skipped(PTX, "no weather"), value(REGISTERS)])
    assert gaps.skipped(runs(tmp_path)) == [f"{PTX}: no device; no weather"]


def test_what_was_never_recorded_is_told(tmp_path):
    write(tmp_path, "cuda12-ctypes", "0.18.1", [value(PTX), skipped(REGISTERS, "too old")])
    absent = gaps.absent(SCENARIOS, runs(tmp_path))
    assert len(absent) == len(SCENARIOS) - 2
    assert not {PTX, REGISTERS} & set(absent)


def test_values_that_nothing_touches_are_told(tmp_path):
    write(tmp_path, "cuda12-ctypes", "0.18.1", [value(ENVIRONMENT), value(PTX)])
    write(tmp_path, "cuda12-nvidia-pynvjitlink", "0.15.2", [value(ENVIRONMENT), skipped(PTX, "x")], driver={"kind": "recording"})
    assert gaps.values(M, runs(tmp_path)) == [
        "cuda=cuda11: nothing is recorded",
        "cuda=cuda13: nothing is recorded",
        "binding=nvidia: all that is recorded was skipped",
        "pynvjitlink=present: all that is recorded was skipped",
        "pynvjitlink=forced: nothing is recorded",
        "pynvjitlink=off: nothing is recorded",
        "mvc=on: nothing is recorded",
        "release=0.15.2: all that is recorded was skipped",
        *(f"release={r}: nothing is recorded" for r in ("0.16.0", "0.19.2", "0.20.1", "0.22.2", "0.30.4")),
        "driver=recording: all that is recorded was skipped",
        "linker=cuda-python/driver: nothing is recorded",
        "linker=mvc/cubinlinker: nothing is recorded",
        "linker=pynvjitlink/nvjitlink: all that is recorded was skipped",
        "linker=cuda-core/nvjitlink: nothing is recorded",
        "linker=cuda-core/driver: nothing is recorded",
    ]


def test_a_pair_counts_for_the_engine_that_ran_it(tmp_path):
    def missing() -> dict[str, str]:
        return dict(line.split(" with ") for line in gaps.pairs(M, SCENARIOS, runs(tmp_path)))

    write(tmp_path, "cuda11-nvidia", "0.18.1", [value(PTX, linker="_Linker")])
    before = missing()
    write(tmp_path, "cuda11-nvidia", "0.18.1", [value(REGISTERS, linker="_Linker")])
    after = missing()
    there = "cuda-core/driver: max-registers"
    assert set(before[there].split(", ")) - set(after[there].split(", ")) == {"ptx"}
    assert {k: v for k, v in before.items() if k != there} == {k: v for k, v in after.items() if k != there}


@pytest.mark.parametrize("seen", [skipped(REGISTERS, "x"), value(REGISTERS, linker="MVCLinker")])
def test_what_was_skipped_or_linked_by_another_is_no_pair(tmp_path, seen):
    write(tmp_path, "cuda12-ctypes", "0.18.1", [seen])
    [line] = [line for line in gaps.pairs(M, SCENARIOS, runs(tmp_path)) if line.startswith("ctypes/driver: max-registers")]
    assert "ptx" in line


def test_a_scenario_may_be_about_an_option_that_it_can_do_without(tmp_path):
    one = "options/max-registers-of-assembled-cubin"
    assert catalogue()[one].needs == ()
    write(tmp_path, "cuda12-ctypes", "0.18.1", [value(one)])
    [line] = [line for line in gaps.pairs(M, SCENARIOS, runs(tmp_path)) if line.startswith("ctypes/driver: max-registers")]
    assert "cubin" not in line


def test_records_of_unknown_cells_are_left_out(tmp_path):
    write(tmp_path, "cuda12-ctypes", "0.18.1", [value(PTX)])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cuda12-ctypes/0.18.1.jsonl").rename(tmp_path / "elsewhere/0.18.1.jsonl")
    assert runs(tmp_path) == []


def test_the_command_prints_every_kind_of_gap(tmp_path, capsys):
    write(tmp_path, "cuda12-ctypes", "0.18.1", [skipped(PTX, "no device"), value(REGISTERS)])
    assert listing.main(["--gaps", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"wherever they were recorded, and why: 1\n  {PTX}: no device\n" in said
    assert f"never recorded: {len(SCENARIOS) - 2}\n" in said
    assert "\n  mvc=on: nothing is recorded\n" in said
    assert "\n  ctypes/driver: lineinfo with archive, cu, " in said
    assert said.endswith(f"from 1 runs in {tmp_path}\n")


def test_a_folder_without_records_is_told(tmp_path):
    with pytest.raises(SuiteError, match="run an environment first"):
        listing.main(["--gaps", "--results", str(tmp_path / "absent")])
