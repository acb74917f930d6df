"""gate: every reason to block or to ask for more evidence, planted one at a time in records that would pass."""

from __future__ import annotations

import dataclasses
import json

import pytest
from made_up import error, value, write

from conformance import evidence, gate, matrices
from conformance.errors import SuiteError
from conformance.model import Accepted

OTHER_ERROR = {"type": "nvJitLinkError", "bases": ["cuda.bindings.nvjitlink.nvJitLinkError", "builtins.Exception"]}
ACCEPTED = Accepted("ctypes", "mistakes/*", "error class", "nvJitLinkError", "decided", "https://example.invalid/1")


def fill(folder, linker="ctypes", new=None, old=None, **new_changes) -> None:
    """Records of every pair of cells that the gate asks for."""
    for pair in gate.pairs(matrices.load(), linker):
        write(folder, pair.old.name, pair.old_release, old or [value(), error()])
        write(folder, pair.new.name, pair.new_release, new or [value(), error()], **new_changes)


def decide(folder, linker="ctypes", accepted=(), strict=False, ignored=()) -> tuple[str, list[gate.Finding]]:
    """The gate's decision, where releases tell users of every setting that is not in `ignored`."""
    m = matrices.load()
    known = [d for d in m.selection_deviations if d.upstream.endswith(tuple(ignored))]
    m = dataclasses.replace(m, accepted=list(accepted), selection_deviations=known)
    _, findings = gate.gate(m, linker, folder, strict)
    return gate.verdict(findings), findings


@pytest.mark.parametrize("linker", ["ctypes", "cuda-python", "mvc", "pynvjitlink"])
def test_a_linker_that_is_matched_everywhere_is_removable(tmp_path, linker):
    fill(tmp_path, linker)
    assert decide(tmp_path, linker) == ("removable", [])


def test_kept_records_decide_where_there_are_no_others_and_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence")
    fill(tmp_path / "evidence" / "h200", "ctypes")
    verdict, findings = decide(tmp_path / "results")
    assert verdict == "removable"
    assert {(f.weight, f.kind) for f in findings} == {("note", "records")}
    assert all("evidence/h200" in f.text and "results/" in f.text for f in findings)
    first = gate.pairs(matrices.load(), "ctypes")[0]
    write(tmp_path / "results", first.old.name, first.old_release, [value(), error()])
    named = {f.cell for f in findings} - {f.cell for f in decide(tmp_path / "results")[1]}
    assert named == {f"{first.old.name}@{first.old_release}"}


@pytest.mark.parametrize(
    ("linker", "setting"), [("ctypes", "NUMBA_CUDA_USE_NVIDIA_BINDING"), ("pynvjitlink", "NUMBA_CUDA_ENABLE_PYNVJITLINK")]
)
def test_a_setting_that_is_ignored_in_silence_blocks(tmp_path, linker, setting):
    fill(tmp_path, linker)
    verdict, findings = decide(tmp_path, linker, ignored=["/479"])
    assert verdict == "blocked"
    assert {f.kind for f in findings} == {"settings"} and setting in findings[-1].text


def test_an_ignored_setting_can_be_accepted(tmp_path):
    fill(tmp_path)
    accepted = Accepted("ctypes", "*", "settings", "NVIDIA_BINDING", "decided", "https://example.invalid/1")
    verdict, findings = decide(tmp_path, accepted=[accepted], ignored=["/479"])
    assert verdict == "removable"
    assert {f.weight for f in findings} == {"accepted"} and "decided" in findings[0].text


@pytest.mark.parametrize(
    ("observation", "kind"),
    [
        (value(outcome={"kind": "value", "phase": "verify", "digest": "d2"}), "result"),
        (value(status="differs", reason="wrong"), "differs"),
        (value(status="unstable", reason="3 times gave ..."), "unstable"),
        (value(status="deviates", reason="known"), "deviates"),
        (value(warnings=[{"category": "UserWarning", "message": "beware"}]), "warning"),
    ],
)
def test_what_blocks_a_value(tmp_path, observation, kind):
    fill(tmp_path, new=[observation, error()])
    verdict, findings = decide(tmp_path)
    assert verdict == "blocked"
    assert {f.kind for f in findings} == {kind}


@pytest.mark.parametrize(
    ("change", "kind"),
    [(OTHER_ERROR, "error class"), ({"message": "LinkerError:"}, "error text"), ({"kind": "timeout"}, "outcome")],
)
def test_what_blocks_an_error(tmp_path, change, kind):
    fill(tmp_path, new=[value(), error(outcome=change)])
    verdict, findings = decide(tmp_path)
    assert verdict == "blocked" and {f.kind for f in findings} == {kind}


def test_what_does_not_block(tmp_path):
    image = value()["image"] | {"size": 1}
    fill(tmp_path, new=[value(image=image), error(outcome={"phase": "complete"})])
    assert decide(tmp_path)[0] == "removable"


def test_extended_scenarios_are_listed_and_do_not_block(tmp_path):
    fill(tmp_path, old=[value(profile="extended")], new=[value(status="differs", reason="wrong")])
    verdict, findings = decide(tmp_path)
    assert verdict == "removable" and {f.weight for f in findings} == {"note"}


def test_what_the_old_linker_does_not_pass_is_not_asked_of_the_new(tmp_path):
    fill(tmp_path, old=[value(status="deviates")], new=[value(status="differs", reason="wrong")])
    assert decide(tmp_path)[0] == "removable"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"footer": False}, "did not run to its end"),
        ({"schema": 9}, "is damaged"),
        ({"driver": {"kind": "recording", "version": "12.9"}}, "nothing was launched"),
        ({"lock": "x@000000000000"}, "another lock"),
        ({"suite": "old"}, "other scenarios"),
        ({"device": "NVIDIA L4"}, "two kinds of device"),
        ({"new": [error()]}, "not run with the new linker"),
        ({"new": [value(status="skipped", outcome=None, reason="why"), error()]}, "skipped with the new linker: why"),
        ({"new": [value(evidence="linked"), error()]}, "only linked with the new linker"),
        ({"old": [value(evidence="emulated"), error()]}, "only emulated with the old linker"),
    ],
)
def test_what_is_not_enough_evidence(tmp_path, changes, says):
    fill(tmp_path, **changes)
    verdict, findings = decide(tmp_path)
    assert verdict == "not enough evidence"
    assert any(says in f.text for f in findings)
    assert all(f.command.startswith("nox -s ") for f in findings)


def test_cells_that_were_never_run_are_named_with_their_commands(tmp_path):
    verdict, findings = decide(tmp_path)
    assert verdict == "not enough evidence"
    assert "nox -s cuda12-ctypes -- --release 0.20.1 --driver device" in {f.command for f in findings}


def test_what_blocks_outweighs_what_is_missing(tmp_path):
    fill(tmp_path, new=[value(status="differs", reason="wrong"), error()], suite="old")
    assert decide(tmp_path)[0] == "blocked"


class TestAccepted:
    @pytest.fixture
    def results(self, tmp_path):
        fill(tmp_path, new=[value(), error(outcome=OTHER_ERROR)])
        return tmp_path

    def test_an_accepted_difference_does_not_block_and_is_reported(self, results):
        verdict, findings = decide(results, accepted=[ACCEPTED])
        assert verdict == "removable" and {f.weight for f in findings} == {"accepted"}
        assert "decided" in findings[0].text

    def test_strict_takes_none(self, results):
        assert decide(results, accepted=[ACCEPTED], strict=True)[0] == "blocked"

    def test_it_is_for_the_scenarios_that_it_names_only(self, results):
        other = dataclasses.replace(ACCEPTED, scenario="inputs/*")
        assert decide(results, accepted=[other])[0] == "blocked"

    def test_one_that_no_longer_occurs_blocks(self, tmp_path):
        fill(tmp_path)
        verdict, findings = decide(tmp_path, accepted=[ACCEPTED])
        assert verdict == "blocked" and "no longer occurs" in findings[0].text

    @pytest.mark.parametrize(("until", "verdict"), [("0.18", "blocked"), ("99", "removable")])
    def test_one_whose_time_has_come_blocks(self, results, until, verdict):
        found, findings = decide(results, accepted=[dataclasses.replace(ACCEPTED, until=until)])
        assert found == verdict
        assert verdict == "removable" or any("which has come" in f.text for f in findings)


def test_the_exit_code_is_the_verdict(tmp_path, capsys, monkeypatch):
    telling = dataclasses.replace(matrices.load(), selection_deviations=[])
    monkeypatch.setattr(matrices, "load", lambda: telling)
    assert gate.main(["--remove", "ctypes", "--results", str(tmp_path)]) == 2
    fill(tmp_path, new=[value(status="differs", reason="wrong"), error()])
    assert gate.main(["--remove", "ctypes", "--results", str(tmp_path)]) == 1
    fill(tmp_path)
    capsys.readouterr()
    assert gate.main(["--remove", "ctypes", "--results", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "removable"


@pytest.mark.parametrize(("linker", "says"), [("ctype", "known: ctypes"), ("cuda-core", "not to be removed")])
def test_a_linker_that_cannot_be_asked_about(tmp_path, linker, says):
    with pytest.raises(SuiteError, match=says):
        gate.gate(matrices.load(), linker, tmp_path)
