"""What is proposed for `matrices/deviations.toml`, from records made up for it."""

from __future__ import annotations

import random
import shutil

import pytest
from made_up import value, write

from conformance import cells, matrices, proposal
from conformance.deviation_file import DeviationFile, made, parse
from conformance.errors import SuiteError
from conformance.expectation import covers
from conformance.judged import gather
from conformance.scenario import ENVIRONMENT
from conformance.spots import Spot, takes

M = matrices.load()
ENV = "cuda12-nvidia"
RELEASES = [r.version for r in M.releases_of(M.environment(ENV))]
PTX, CU, CUBIN = (f"inputs/integers-{kind}-path-eager" for kind in ("ptx", "cu", "cubin"))
CRASH = {"kind": "crash", "phase": "complete", "type": None, "message": "killed by SIGSEGV", "digest": None}
ABORT = {**CRASH, "message": "killed by SIGABRT"}
ERROR = {"kind": "error", "phase": "add", "type": "LinkerError", "message": "LinkerError: line 12 is (wrong)", "digest": None}


def run(folder, environment: str, release: str, outcomes: dict, **changes) -> None:
    """Record what scenarios did in a cell on a device: an outcome each, None where it conforms."""
    linker = cells.expected(M, M.environment(environment), release).class_name
    told = [value(s, linker=linker, **({"outcome": o, "status": "differs"} if o else {})) for s, o in outcomes.items()]
    write(folder, environment, release, told, **changes)


def known(scenario: str = PTX, **values):
    """An entry about a crash in the environment, on a device."""
    usual = {"when": {"cuda": "cuda12", "binding": "nvidia", "pynvjitlink": "absent"}, "drivers": ["device"]}
    usual |= {"outcome": {"kind": "crash", "message": "SIGSEGV"}, "reason": "r", "upstream": "https://example.org/1"}
    return made(scenario=scenario, **(usual | values))


def proposed(folder, *entries):
    """The file and the proposal, which must hold: a second one finds nothing more to do."""
    file, evidence = DeviationFile("# Head.", list(entries)), gather(M, [folder])
    after, what = proposal.propose(file, evidence)
    again, nothing = proposal.propose(parse(after.text), evidence)
    assert nothing.changes == [] and again.text == after.text
    return after, what


def only(after: DeviationFile):
    [one] = after.entries
    return one.deviation


# -- nothing to do ----------------------------------------------------------------------------------------


def test_what_fits_stays_as_it_is(tmp_path):
    for release in RELEASES:
        run(tmp_path, ENV, release, {PTX: CRASH, CU: None})
    before = DeviationFile("# Head.", [known()])
    after, what = proposed(tmp_path, known())
    assert after.text == before.text
    assert (what.changes, what.remarks) == ([], [])


def test_what_was_not_run_stays_as_it_is(tmp_path):
    """One scenario in one release: nothing of what all others say is touched, not even by a record cut short."""
    run(tmp_path, ENV, "0.30.4", {CU: None}, footer=False)
    entries = [known(), known(CUBIN, when={}, drivers=[]), known("lto/*", when={"mvc": "on"})]
    after, what = proposed(tmp_path, *entries)
    assert what.changes == []
    assert {e.text for e in after.entries} == {e.text for e in entries}


# -- create -----------------------------------------------------------------------------------------------


def test_a_difference_gets_an_entry_no_wider_than_it_was_seen(tmp_path):
    for release in RELEASES:
        run(tmp_path, ENV, release, {PTX: ERROR if release in ("0.18.1", "0.19.2") else None, CU: None})
    after, what = proposed(tmp_path)
    d = only(after)
    assert d.scenario == PTX
    assert (d.releases, d.drivers) == (">=0.18,<0.20", ["device"])
    assert d.when == {"cuda": "cuda12", "binding": "nvidia", "pynvjitlink": "absent"}
    assert d.outcome == {"type": "LinkerError", "phase": "add", "message": r"line [0-9]+ is \(wrong\)"}
    assert what.changes == [f"create  {PTX}: differs in {ENV}@0.18.1 (device), {ENV}@0.19.2 (device)"]
    assert f"# nox -s {ENV} -- --release 0.18.1 --driver device --scenario {PTX}\n[[deviation]]" in after.text


def test_a_new_entry_is_no_good_until_somebody_has_looked(tmp_path):
    """It names no report and no finding, so the check of the matrices refuses it."""
    run(tmp_path / "results", ENV, "0.30.4", {PTX: CRASH})
    after, _ = proposed(tmp_path / "results")
    shutil.copytree(M.folder, tmp_path / "matrices")
    (tmp_path / "matrices/deviations.toml").write_text(after.text, encoding="utf-8")
    with pytest.raises(SuiteError, match="finding: missing"):
        matrices.load(tmp_path / "matrices")


def test_what_differs_alike_shares_an_entry(tmp_path):
    alike = [s for s in gather(M, []).scenarios if s.startswith("chains/order-")]
    run(tmp_path, ENV, "0.30.4", {**dict.fromkeys(alike, CRASH), PTX: CRASH, CU: ABORT})
    after, _ = proposed(tmp_path)
    assert [e.deviation.scenario for e in after.entries].count("chains/order-*") == 1
    assert len(after.entries) == 3


def test_an_unexpected_warning_gets_an_entry(tmp_path):
    warned = value(PTX, linker="_Linker", warnings=[{"category": "UserWarning", "message": "beware of 3"}])
    write(tmp_path, ENV, "0.30.4", [warned])
    after, _ = proposed(tmp_path)
    assert only(after).outcome == {"kind": "value", "warning": "beware of [0-9]+"}


def test_the_examination_is_judged_as_well(tmp_path):
    run(tmp_path, ENV, "0.30.4", {ENVIRONMENT: CRASH, PTX: None})
    after, _ = proposed(tmp_path)
    assert only(after).scenario == ENVIRONMENT


def test_the_verdict_of_the_day_does_not_count(tmp_path):
    write(tmp_path, ENV, "0.30.4", [value(PTX, linker="_Linker", outcome=CRASH, status="conforms")])
    assert len(proposed(tmp_path)[0].entries) == 1


# -- fix --------------------------------------------------------------------------------------------------


def test_an_outcome_that_is_another_now_is_fixed(tmp_path):
    run(tmp_path, ENV, "0.30.4", {PTX: ABORT})
    after, what = proposed(tmp_path, known(releases=">=0.30"))
    d = only(after)
    assert d.outcome == {"kind": "crash", "phase": "complete", "message": "killed by SIGABRT"}
    assert (d.releases, d.reason) == (">=0.30", "r")
    assert what.changes[0].startswith(f"fix     {PTX}: the outcome is now")


def test_an_outcome_stays_beside_another_one_where_not_all_was_run(tmp_path):
    run(tmp_path, ENV, "0.30.4", {PTX: ABORT})
    d = only(proposed(tmp_path, known(outcome={"kind": "crash", "phase": "add", "message": "SIGSEGV"}))[0])
    assert d.outcome == {"kind": "crash", "phase": ["add", "complete"], "message": "SIGSEGV|killed by SIGABRT"}


def test_a_range_grows_to_where_the_same_is_seen(tmp_path):
    for release in RELEASES:
        run(tmp_path, ENV, release, {PTX: None if release == "0.30.4" else CRASH})
    after, what = proposed(tmp_path, known(releases=">=0.16,<0.20"))
    assert only(after).releases == "<0.30"
    assert what.changes == [f"fix     {PTX}: it happens in {ENV}@0.15.2 (device), {ENV}@0.20.1 (device), {ENV}@0.22.2 (device) as well"]


def test_a_range_does_not_grow_over_another_scenario_that_conforms(tmp_path):
    for release in ("0.22.2", "0.30.4"):
        run(tmp_path, ENV, release, {PTX: CRASH, CU: CRASH if release == "0.30.4" else None})
    entries = proposed(tmp_path, known("inputs/*", releases=">=0.30"))[0].entries
    assert {(e.deviation.scenario, e.deviation.releases) for e in entries} == {("inputs/*", ">=0.30"), (PTX, ">=0.22,<0.30")}


def test_where_it_differs_otherwise_the_range_ends_and_a_new_entry_begins(tmp_path):
    for release in RELEASES:
        run(tmp_path, ENV, release, {PTX: ABORT if release == "0.30.4" else CRASH})
    after, what = proposed(tmp_path, known())
    assert {e.deviation.releases: e.deviation.outcome["message"] for e in after.entries} == {
        "<0.30": "SIGSEGV",
        ">=0.30": "killed by SIGABRT",
    }
    assert [c.split()[0] for c in what.changes] == ["fix", "create"]


# -- trim -------------------------------------------------------------------------------------------------


def test_a_release_in_which_it_conforms_is_trimmed(tmp_path):
    for release in RELEASES:
        run(tmp_path, ENV, release, {PTX: None if release == "0.30.4" else CRASH})
    after, what = proposed(tmp_path, known())
    assert only(after).releases == "<0.30"
    assert only(after).when == known().deviation.when
    assert what.changes == [f"trim    {PTX}: conforms in {ENV}@0.30.4 (device)"]


def test_what_conforms_wherever_it_is_said_to_happen_is_struck_out(tmp_path):
    for release in RELEASES:
        run(tmp_path, ENV, release, {PTX: None})
    after, what = proposed(tmp_path, known())
    assert after.entries == []
    assert what.changes[0].startswith(f"strike  {PTX}: conforms in {ENV}@0.15.2")


def test_what_conforms_where_it_was_run_is_kept_for_where_it_was_not(tmp_path):
    """Another environment, another driver and another release may still be as the entry says."""
    run(tmp_path, ENV, "0.30.4", {PTX: None})
    after, _ = proposed(tmp_path, known(when={}, drivers=[]))
    there = Spot(ENV, "0.30.4", "device")
    not_run = [s for s in proposal.everywhere(M) if s != there]
    claimed = [e.deviation for e in after.entries]
    assert not any(takes(M, there, d.releases, d.when, d.drivers) for d in claimed)
    assert all(any(takes(M, s, d.releases, d.when, d.drivers) for d in claimed) for s in not_run)


def test_a_skipped_scenario_was_not_run(tmp_path):
    write(tmp_path, ENV, "0.30.4", [value(PTX, status="skipped", outcome=None, reason="numba.cuda does not import")])
    assert proposed(tmp_path, known(releases=">=0.30"))[1].changes == []


def test_a_scenario_that_conforms_beside_others_is_left_out(tmp_path):
    for release in RELEASES:
        run(tmp_path, ENV, release, {PTX: CRASH, CU: None, CUBIN: CRASH if release < "0.20" else None})
    after, _ = proposed(tmp_path, known("inputs/integers-*-path-eager"))
    found = {e.deviation.scenario: e.deviation for e in after.entries}
    assert found["inputs/integers-*-path-eager"].apart_from == [CU, CUBIN]
    assert found["inputs/integers-*-path-eager"].releases == ""
    assert found[CUBIN].releases == "<0.20"
    assert len(found) == 2


def test_what_happens_sometimes_is_not_trimmed(tmp_path):
    for release in RELEASES:
        run(tmp_path, ENV, release, {PTX: None})
    after, what = proposed(tmp_path, known(sometimes="the weather"))
    assert only(after) == known(sometimes="the weather").deviation
    assert what.remarks == [f"{PTX}: never seen here (r; the weather)"]


@pytest.mark.parametrize("entry", [known("inputs/nowhere-*"), known(releases="<0.1"), known(expected="error")])
def test_what_is_about_nothing_is_struck_out(tmp_path, entry):
    run(tmp_path, ENV, "0.30.4", {CU: None})
    after, what = proposed(tmp_path, entry)
    assert after.entries == []
    assert "it is about no scenario" in what.changes[0]


# -- what only people can settle ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"linker": "CtypesLinker", "outcome": CRASH}, "linked by CtypesLinker instead of _Linker: no deviation"),
        ({"status": "unstable", "reason": "2 times gave: a | b"}, "unstable: 2 times gave"),
        ({"status": "differs", "outcome": None, "reason": "fault of the suite at x.py:1"}, "fault of the suite"),
    ],
)
def test_what_no_entry_can_cover_is_told(tmp_path, changes, says):
    write(tmp_path, ENV, "0.30.4", [value(PTX, **{"linker": "_Linker", **changes})])
    after, what = proposed(tmp_path)
    assert after.entries == []
    [remark] = what.remarks
    assert f"{ENV}@0.30.4 (device) {PTX}: {says}" in remark


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"suite": "old"}, "it is stale: it was recorded with other scenarios"),
        ({"lock": "old"}, "it is stale: its packages are of another lock"),
        ({"candidate": {"name": "mine"}}, "it is of a candidate"),
        ({"driver": None}, "its header is missing"),
    ],
)
def test_records_of_something_else_are_not_looked_at(tmp_path, changes, says):
    run(tmp_path, ENV, "0.30.4", {PTX: CRASH}, **changes)
    after, what = proposed(tmp_path)
    assert after.entries == []
    assert says in what.remarks[0]


def test_of_two_records_of_a_cell_the_first_folders_counts(tmp_path):
    run(tmp_path / "a", ENV, "0.30.4", {PTX: CRASH})
    run(tmp_path / "b", ENV, "0.30.4", {PTX: None})
    assert [len(gather(M, [tmp_path / x, tmp_path / y]).judged[0].reasons) for x, y in ("ab", "ba")] == [1, 0]


# -- anything at all ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_proposal_covers_what_differs_and_nothing_that_conforms(tmp_path, seed):
    """And a second one has nothing to add (see `proposed`)."""
    drawn = random.Random(seed)
    for environment, release in ((e, r) for e in (ENV, "cuda12-ctypes", "cuda13-nvidia") for r in RELEASES):
        if M.absence(M.environment(environment), M.release(release)) is None and drawn.random() < 0.8:
            run(tmp_path, environment, release, {s: drawn.choice([None, CRASH, ABORT]) for s in (PTX, CU, CUBIN)})
    globs = ("inputs/*", "inputs/integers-*", PTX, CU, "*")
    entries = [known(glob, releases=r, outcome={"kind": "crash"}) for glob, r in zip(globs, ("", ">=0.16", "<0.20", "", ""))]
    deviations = [e.deviation for e in proposed(tmp_path, *entries)[0].entries]
    for j in gather(M, [tmp_path]).judged:
        about = [d for d in deviations if d.concerns(j.scenario, j.expected) and takes(M, j.spot, d.releases, d.when, d.drivers)]
        assert any(covers(d, j.observation) for d in about) == bool(j.reasons)
        assert j.reasons or not about


# -- the command -------------------------------------------------------------------------------------------


def test_the_command_writes_to_a_file_of_its_own_and_prints_the_difference(tmp_path, capsys):
    current = M.folder / "deviations.toml"
    before = current.read_text(encoding="utf-8")
    run(tmp_path / "results", ENV, "0.30.4", {PTX: CRASH})
    output = tmp_path / "new" / "proposal.toml"
    assert proposal.main(["--results", str(tmp_path / "results"), "--output", str(output)]) == 0
    said = capsys.readouterr().out
    assert f'+scenario = "{PTX}"\n' in said and "--- matrices/deviations.toml" in said
    assert f"changes: 1\n  create  {PTX}" in said
    assert "nothing is applied" in said
    assert f'scenario = "{PTX}"' in output.read_text(encoding="utf-8")
    assert current.read_text(encoding="utf-8") == before


def test_the_command_does_not_put_it_in_place(tmp_path):
    run(tmp_path, ENV, "0.30.4", {PTX: CRASH})
    with pytest.raises(SuiteError, match="not put in place by itself"):
        proposal.main(["--results", str(tmp_path), "--output", str(M.folder / "deviations.toml")])


def test_a_folder_without_records_is_told(tmp_path):
    with pytest.raises(SuiteError, match="run an environment first"):
        proposal.main(["--results", str(tmp_path / "absent"), "--output", str(tmp_path / "p.toml")])


def test_records_that_say_nothing_are_told(tmp_path):
    run(tmp_path, ENV, "0.30.4", {PTX: CRASH}, suite="old")
    with pytest.raises(SuiteError, match="nothing was recorded that can be judged.*\n.*it is stale"):
        proposal.main(["--results", str(tmp_path), "--output", str(tmp_path / "p.toml")])
    assert not (tmp_path / "p.toml").exists()
