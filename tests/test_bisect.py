"""nox -s bisect: the search, what it prints and refuses, with made-up releases; commits of a made-up repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from made_up import error, value

from conformance import bisect, bisect_commits, candidate, environments, matrices, registry, trial
from conformance.errors import SuiteError

SCENARIO = value()["scenario"]
ENDS = ["--environment", "cuda12-nvidia", "--scenario", SCENARIO]


@pytest.mark.parametrize("first", range(1, 9))
@pytest.mark.parametrize("unknown", [set(), {2, 3, 4}, set(range(1, 8))])
def test_the_first_bad_one_is_found_or_named_among_those_that_cannot_be_asked(first, unknown):
    asked = []

    def is_bad(name: str) -> bool | None:
        asked.append(int(name))
        return None if int(name) in unknown else int(name) >= first

    answer = bisect.search([str(i) for i in range(9)], is_bad)
    assert str(first) in [answer.first, *answer.skipped]
    assert {int(s) for s in answer.skipped} <= unknown
    assert len(asked) == len(set(asked)) <= 4 + len(unknown)


@pytest.fixture
def releases(monkeypatch, tmp_path):
    """Published releases with made-up outcomes: an observation, or why there is none."""
    outcomes: dict[str, dict | str] = {}

    def find(one: candidate.Asked, python: Path) -> candidate.Part:
        return candidate.Part(one.package, "version", one.value, "")

    def settle(m, environment, release, parts, words, python):
        if isinstance(outcomes[parts[0].version], str):
            raise SuiteError(outcomes[parts[0].version])
        return candidate.Candidate(parts[0].version, release, Path(), {}, words)

    def run(m, spot, interpreter, ids, folder, kind, subject):
        (folder / trial.RECORDS).touch()
        return dict.fromkeys(ids, outcomes[spot.release.version])

    monkeypatch.setattr(registry, "versions", lambda package, python, above, below: [*outcomes][1:-1])
    monkeypatch.setattr(candidate, "find", find)
    monkeypatch.setattr(candidate, "settle", settle)
    monkeypatch.setattr(environments, "environment", lambda lock, python: Path())
    monkeypatch.setattr(trial, "scenarios", run)

    def answer(made_up: dict[str, dict | str]) -> int:
        outcomes.update(made_up)
        good, *_, bad = made_up
        return bisect.main([*ENDS, "--good", good, "--bad", bad, "--results", str(tmp_path)])

    return answer


def test_each_step_and_the_answer_are_printed(releases, capsys, tmp_path):
    assert releases({"0.22.2": value(), "0.23.0": value(), "0.24.0": error(SCENARIO), "0.30.4": error(SCENARIO)}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith(("good ", "bad "))] == [
        ["good", "0.22.2"], ["bad", "0.30.4"], ["good", "0.23.0"], ["bad", "0.24.0"],
    ]  # fmt: skip
    assert "first bad: 0.24.0" in lines
    kept = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.jsonl"))
    assert kept[0] == f"bisect/{SCENARIO.replace('/', '-')}/cuda12-nvidia/0.22.2.jsonl"


def test_what_cannot_be_installed_is_skipped_and_makes_the_answer_uncertain(releases, capsys):
    broken = "uv could not install it"
    assert releases({"0.22.2": value(), "0.23.0": broken, "0.24.0": error(SCENARIO), "0.30.4": error(SCENARIO)}) == 2
    said = capsys.readouterr().out
    assert f"skip  0.23.0   {broken}" in said
    assert "first bad: 0.24.0\nor one of those before it that were skipped: 0.23.0" in said


def test_a_text_that_differs_is_not_bad(releases):
    other = error(SCENARIO, outcome={"message": "LinkerError: absent.ptx: not found"})
    with pytest.raises(SuiteError, match="0.30.4 does what 0.22.2 does, nothing is to be found"):
        releases({"0.22.2": error(SCENARIO), "0.30.4": other})


def test_two_skips_say_why(releases):
    skipped = value(status="skipped", outcome=None, reason="needs a device: memory is read")
    with pytest.raises(SuiteError, match=r"\(skipped: needs a device: memory is read\)"):
        releases({"0.22.2": skipped, "0.30.4": skipped})


def test_an_end_that_cannot_be_installed_ends_it(releases):
    with pytest.raises(SuiteError, match="no such thing"):
        releases({"0.22.2": value(), "0.30.4": "no such thing"})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--good", "0.30.4", "--bad", "0.22.2"], "--good 0.30.4 is not older than --bad 0.22.2"),
        (["--good", "main", "--bad", "0.22.2"], "--good 'main' is no version"),
        (["--scenario", "inputs/nonsense", "--good", "0.16.0", "--bad", "0.22.2"], "no scenario is called 'inputs/nonsense'"),
        (["--environment", "cuda9", "--good", "0.16.0", "--bad", "0.22.2"], "cuda9"),
    ],
)
def test_bad_input_is_one_line(words, told):
    with pytest.raises(SuiteError, match=told) as raised:
        bisect.main([*ENDS, *words])
    assert "\n" not in str(raised.value)


def test_an_environment_that_a_release_does_not_have_is_told(releases):
    with pytest.raises(SuiteError, match="cuda12-ctypes does not exist at 0.21.0: "):
        question = bisect.Question(matrices.load(), matrices.load().environment("cuda12-ctypes"), SCENARIO, Path(), "auto", Path())
        question.is_bad("0.21.0")


# -- commits ---------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "tag.gpgsign=false"]
    done = subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True, encoding="utf-8")
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A repository of ten commits, each with its number in a file; the first has a tag."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for number in range(10):
        (folder / "number").write_text(str(number), encoding="utf-8")
        git(folder, "add", "number")
        git(folder, "commit", "--quiet", "--message", f"change {number}")
        if not number:
            git(folder, "tag", "v1.0")
    return folder


@pytest.mark.parametrize(("unknown", "left"), [(set(), 0), ({3, 4, 5}, 3)])
def test_the_first_bad_commit_is_found_and_the_checkout_is_left_alone(checkout, unknown, left):
    (checkout / "number").write_text("mine", encoding="utf-8")
    before = (git(checkout, "status", "--porcelain"), git(checkout, "show-ref"), git(checkout, "worktree", "list"))

    def is_bad(name: str, folder: str) -> bool | None:
        number = int(Path(folder, "number").read_text(encoding="utf-8"))
        return None if number in unknown else number >= 6

    with bisect_commits.clone(checkout) as commits:
        first, others = commits.bisect(commits.find("v1.0"), commits.find("main"), is_bad)
    assert first.startswith("v1.0-6-g")
    assert first.endswith(" change 6")
    assert len(others) == left
    assert before == (git(checkout, "status", "--porcelain"), git(checkout, "show-ref"), git(checkout, "worktree", "list"))


def test_commits_that_cannot_be_bisected_are_told(checkout, tmp_path):
    with bisect_commits.clone(checkout) as commits:
        with pytest.raises(SuiteError, match="has no commit 'v9'"):
            commits.find("v9")
        with pytest.raises(SuiteError, match="is not before the bad one"):
            commits.check_ancestry(commits.find("main"), commits.find("v1.0"))
    with pytest.raises(SuiteError, match="in a git checkout only"), bisect_commits.clone(tmp_path):
        pass
