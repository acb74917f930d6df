"""gate --candidate: what it runs, what it compares and what it says, with made-up records and a runner that writes them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from made_up import error, value, write

from conformance import candidate, candidate_gate, gate, matrices
from conformance.errors import SuiteError

PAIR = next(p for p in gate.pairs(matrices.load(), "ctypes") if p.old.name == "cuda13-ctypes")
BASE = PAIR.new_release
NAME = f"candidate-{BASE}"
FACTS = {"name": NAME, "base": BASE, "packages": {}, "changed": {}}


class Runner:
    """Stands in for `run.main`: writes the records that a run would, and keeps what it was called with."""

    def __init__(self, folder: Path, mine: list[dict], before: list[dict] | None = None):
        self.folder, self.mine, self.before = folder, mine, before or [value(), error()]
        self.calls: list[list[str]] = []

    def __call__(self, words: list[str]) -> int:
        self.calls.append(words)
        if "--numba-cuda" in words:
            write_candidate(self.folder, self.mine)
        else:
            write(self.folder, words[0], words[2], self.before)
        return 1


def write_candidate(folder: Path, observations: list[dict]) -> Path:
    """The candidate's record, which is of the base release's packages."""
    written = write(folder / "scratch", PAIR.new.name, BASE, observations, candidate=FACTS)
    path = folder / PAIR.new.name / f"{NAME}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return written.rename(path)


@pytest.fixture
def decide(monkeypatch, tmp_path):
    """Decides about a candidate whose packages are those of the newest release, with a stubbed runner."""
    part = candidate.Part("numba-cuda", "version", BASE, f"numba-cuda=={BASE}")
    monkeypatch.setattr(candidate, "find", lambda asked, python: part)
    monkeypatch.setattr(candidate_gate, "find", lambda name, release, results: _own(results, name, release))
    monkeypatch.setattr(gate, "find", lambda name, release, results: _own(results, name, release))

    def settle(m, environment, release, parts, words, python):
        return candidate.Candidate(NAME, release, m.lock(environment, release), FACTS, words)

    monkeypatch.setattr(candidate, "settle", settle)

    def run(mine, before=None, environment=PAIR.old.name):
        runner = Runner(tmp_path, mine, before)
        monkeypatch.setattr(candidate_gate.run, "main", runner)
        options = argparse.Namespace(
            candidate=BASE, remove="ctypes", environment=[environment], driver="device",
            python="", results=tmp_path, strict=True,
        )  # fmt: skip
        _, findings = candidate_gate.decide(matrices.load(), options)
        return runner.calls, findings

    return run


def _own(results: Path, name: str, release: str) -> Path | None:
    path = results / name / f"{release}.jsonl"
    return path if path.exists() else None


def since(findings) -> list[tuple[str, str]]:
    """Weight and scenarios of what changed since the release before."""
    return [(f.weight, *f.scenarios) for f in findings if f.kind.startswith("since the release")]


def test_every_cell_without_a_record_is_run_once(decide):
    calls, findings = decide([value(), error()])
    assert [words[:3] for words in calls] == [
        [PAIR.old.name, "--release", PAIR.old_release],
        [PAIR.new.name, "--release", BASE],
        [PAIR.new.name, "--numba-cuda", BASE],
    ]
    assert not since(findings)
    assert not any(f.weight == "missing" for f in findings)


def test_what_has_a_usable_record_is_not_run_again(decide, tmp_path):
    write(tmp_path, PAIR.old.name, PAIR.old_release, [value(), error()])
    write_candidate(tmp_path, [value(), error()])
    calls, _ = decide([])
    assert [words[:3] for words in calls] == [[PAIR.new.name, "--release", BASE]]


def test_a_stale_record_is_run_again(decide, tmp_path):
    write(tmp_path, PAIR.old.name, PAIR.old_release, [value(), error()], suite="another")
    calls, _ = decide([value(), error()])
    assert calls[0][:3] == [PAIR.old.name, "--release", PAIR.old_release]


def test_what_breaks_since_the_release_before_blocks(decide):
    broken = value(status="differs", outcome={"kind": "error", "phase": "complete", "type": "LinkerError"}, reason="no image")
    _, findings = decide([broken, error()])
    assert ("blocks", broken["scenario"]) in since(findings)
    assert gate.verdict(findings) == "blocked"


def test_an_extended_scenario_that_breaks_is_a_note(decide):
    before = [value(profile="extended"), error()]
    broken = value(profile="extended", status="differs", reason="no image")
    _, findings = decide([broken, error()], before)
    assert since(findings) == [("note", broken["scenario"])]


def test_a_scenario_that_the_candidate_did_not_run_is_missing(decide):
    _, findings = decide([value()])
    told = [f for f in findings if f.text == "not run with the candidate"]
    assert [(f.weight, f.scenarios) for f in told] == [("missing", [error()["scenario"]])]


def test_an_environment_without_a_pair_is_told(decide):
    with pytest.raises(SuiteError, match="no pair has cuda11-nvidia-mvc; there are "):
        decide([], environment="cuda11-nvidia-mvc")


@pytest.mark.parametrize(
    ("what", "told"),
    [("nonsense", "no such folder or wheel, and neither a version"), ("folder", "neither pyproject.toml nor setup.py")],
)
def test_what_is_no_candidate_is_one_line(tmp_path, monkeypatch, what, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(SuiteError, match=told) as raised:
        gate.main(["--remove", "ctypes", "--candidate", what])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("Building wheel...\nerror: Failed to build `/tmp/copy`\n  cause: No solution found\n  cause: x is unsatisfiable\n", "cause: x is unsatisfiable"),
        ("a.cpp:3:1: fatal error: Python.h: no such file\nerror: Failed to build `/tmp/copy`\n", "a.cpp:3:1: fatal error: Python.h: no such file"),
    ],
)
def test_a_failed_build_gives_its_reason_and_not_its_folder(log, told):
    assert candidate._first_error(log) == told
