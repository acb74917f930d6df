"""Kept records: what is kept is what was recorded, and the kept ones of this repository hold."""

from __future__ import annotations

import fnmatch
import json

import pytest
from made_up import error, value, write

from conformance import cells, environments, evidence, matrices
from conformance.differences import differences
from conformance.errors import SuiteError
from conformance.records import read
from conformance.scenario import catalogue
from conformance.selectors import places


def test_a_kept_record_reads_like_the_fresh_one(tmp_path):
    fresh = write(tmp_path / "results", "cuda12-ctypes", "0.18.1", [value(), error()])
    evidence.keep(tmp_path / "results", tmp_path / "kept")
    kept = read(tmp_path / "kept/cuda12-ctypes/0.18.1.jsonl")
    ours = {o["scenario"]: o for o in read(fresh).observations}
    assert kept.complete and kept.header == read(fresh).header
    assert [o["scenario"] for o in kept.observations] == sorted(ours)
    for observation in kept.observations:
        assert differences(ours[observation["scenario"]], observation) == []
        assert observation["milliseconds"] == ours[observation["scenario"]]["milliseconds"]


def test_times_do_not_change_the_facts(tmp_path):
    for name, milliseconds in (("a", {"add": 1.0}), ("b", {"add": 2.0})):
        write(tmp_path / name, "cuda12-ctypes", "0.18.1", [value(milliseconds=milliseconds)])
        evidence.keep(tmp_path / name, tmp_path / f"kept-{name}")
    a, b = ((tmp_path / f"kept-{n}/cuda12-ctypes/0.18.1.jsonl").read_text() for n in "ab")
    assert a == b


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"footer": False}, "no footer"), ({"driver": {"kind": "recording"}}, "a recording driver"), ({"schema": 9}, "schema")],
)
def test_what_is_no_evidence_is_not_kept(tmp_path, changes, says):
    write(tmp_path / "results", "cuda12-ctypes", "0.18.1", [value()])
    write(tmp_path / "results", "cuda12-ctypes", "0.16.0", [value()], **changes)
    with pytest.raises(SuiteError, match=f"cuda12-ctypes@0.16.0: .*{says}"):
        evidence.keep(tmp_path / "results", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_the_users_own_device_run_counts_before_a_kept_one(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence")
    kept = write(tmp_path / "evidence/h200", "cuda12-ctypes", "0.18.1", [value()])
    results = tmp_path / "results"
    assert evidence.find("cuda12-ctypes", "0.18.1", results) == kept
    write(results, "cuda12-ctypes", "0.18.1", [value()], driver={"kind": "recording"})
    assert evidence.find("cuda12-ctypes", "0.18.1", results) == kept
    own = write(results, "cuda12-ctypes", "0.18.1", [value()])
    assert evidence.find("cuda12-ctypes", "0.18.1", results) == own
    assert evidence.find("cuda12-ctypes", "0.20.1", results) is None


# -- what this repository keeps ----------------------------------------------------------------------

KEPT = [(folder.name, place) for folder in evidence.folders() for place in places(folder)]
IDS = [f"{name}/{place.name}" for name, place in KEPT]


@pytest.mark.parametrize("folder", evidence.folders(), ids=lambda f: f.name)
def test_kept_evidence_has_every_environment_and_release(folder):
    m = matrices.load()
    wanted = {f"{e.name}@{r.version}" for e in m.environments.values() for r in m.releases_of(e)}
    assert {place.name for place in places(folder)} == wanted


@pytest.mark.parametrize(("folder", "place"), KEPT, ids=IDS)
class TestKept:
    def test_it_is_complete_and_not_stale(self, folder, place):
        m, run = matrices.load(), place.read()
        lock = m.lock(m.environment(place.environment), m.release(place.release))
        assert run.complete
        assert run.header["suite"] == cells.suite_digest(), "stale: record it again (docs/evidence.md)"
        assert run.header["lock"] == f"{lock.stem}@{environments.digest(lock)}"
        assert {o["scenario"] for o in run.observations} >= set(catalogue())

    def test_it_has_nothing_that_differs(self, folder, place):
        wrong = {o["scenario"]: o["reason"] for o in place.read().observations if o["status"] in ("differs", "unstable")}
        assert wrong == {}

    def test_nothing_of_the_machines_user_is_in_it(self, folder, place):
        text = place.path.read_text()
        assert not any(word in text for word in ("/root/", "/home/", "/Users/"))


def test_every_deviation_agrees_with_what_is_kept():
    """A deviation of a device that no kept record shows is stale, or was never seen there."""
    if not KEPT:
        pytest.skip("no records are kept: run the bundle on a device, then nox -s evidence")
    shown = {
        (place.environment, place.release, o["scenario"])
        for _, place in KEPT
        for o in place.read().observations
        if o["status"] == "deviates"
    }
    m = matrices.load()
    unseen = []
    for d in m.deviations:
        if d.sometimes or "device" not in (d.drivers or ["device"]):
            continue
        fits = [
            s
            for e, r, s in shown
            if fnmatch.fnmatchcase(s, d.scenario)
            and matrices.within(r, d.releases)
            and matrices.matches(m.environment(e).axes, d.when)
        ]
        if not fits:
            unseen.append(json.dumps([d.scenario, d.reason]))
    assert unseen == []
