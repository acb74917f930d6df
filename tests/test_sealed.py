"""Sealed observations: opened they are what a reader gives, and two are the same only where nothing can be told apart."""

from __future__ import annotations

import itertools
import json

import pytest
from made_up import error, value, write

from conformance import compare, evidence, records, sealed
from conformance.differences import differences
from conformance.selectors import places

MANY = [
    value(),
    value(milliseconds={"construct": 5.0, "add": 5.0, "complete": 5.0}),
    value(outcome={"kind": "value", "phase": "verify", "digest": "d2"}),
    value(outcome=None),
    value(status="unstable"),
    value(status="skipped", outcome=None, image=None, reason="needs a device"),
    value(status="skipped", outcome=None, image=None, reason="needs another device"),
    value(warnings=[{"category": "UserWarning", "message": "beware"}]),
    value(image=None),
    value(image=value()["image"] | {"debug_info": True}),
    error(),
    error() | {"expected": {"kind": "error", "message": "absent"}},
    error(outcome={"phase": "complete"}),
    error(outcome={"message": "half a surrogate: \ud800"}),
    error(outcome={"message": "lines\u2028and\nlines"}),
]


def _sealed(tmp_path, observation: dict) -> sealed.Sealed:
    [one] = sealed.read(write(tmp_path, "cuda12-ctypes", "0.18.1", [observation])).observations
    return one


def test_opened_they_are_what_a_reader_gives(tmp_path):
    path = write(tmp_path, "cuda12-ctypes", "0.18.1", MANY)
    assert [o.open() for o in sealed.read(path).observations] == records.read(path).observations
    assert [o.scenario for o in sealed.read(path).observations] == [o["scenario"] for o in MANY]


def test_same_ones_have_no_differences_and_only_they_are_the_same(tmp_path):
    pairs = list(itertools.product(MANY, MANY))
    same = [pair for pair in pairs if _sealed(tmp_path, pair[0]).same(_sealed(tmp_path, pair[1]))]
    assert all(differences(a, b) == [] for a, b in same)
    assert (MANY[0], MANY[1]) in same  # other times are no difference
    assert (MANY[10], MANY[10]) in same
    told = [(a, b) for a, b in pairs if differences(a, b)]
    assert all(pair not in told for pair in same)
    assert len(same) + len(told) <= len(pairs)


@pytest.mark.parametrize("observation", MANY)
def test_their_times_are_those_of_a_reader(tmp_path, observation):
    one = _sealed(tmp_path, observation)
    assert compare.link_time(one.timed()) == compare.link_time(one.open())


def test_a_kept_records_times_are_found(tmp_path):
    path = write(tmp_path / "results", "cuda12-ctypes", "0.18.1", [value(), error()])
    evidence.keep(tmp_path / "results", tmp_path / "kept")
    kept = tmp_path / "kept" / path.parent.name / path.name
    assert "milliseconds" not in kept.read_text(encoding="utf-8")
    assert [compare.link_time(o.timed()) for o in sealed.read(kept).observations] == [4.0, 0]
    assert [o.open()["milliseconds"] for o in sealed.read(kept).observations] == [value()["milliseconds"]] * 2


@pytest.mark.parametrize("line", ["x", "", "{}", "[]", "3", "null", '{"kind": "observation"}', '{"kind": "observation"', '{"kind": 3}'])
def test_damage_is_told_as_by_a_reader(tmp_path, line):
    path = write(tmp_path, "cuda12-ctypes", "0.18.1", [value(), error()])
    lines = path.read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join([*lines[:2], line, *lines[3:]]), encoding="utf-8")
    ours, theirs = sealed.read(path), records.read(path)
    assert ours.fault
    assert (ours.complete, theirs.complete) == (False, False)
    assert len(ours.observations) <= len(theirs.observations)


@pytest.mark.parametrize("cut", [1, 40, 300, 1200, 2000])
def test_a_cut_file_is_told_as_by_a_reader(tmp_path, cut):
    path = write(tmp_path, "cuda12-ctypes", "0.18.1", [value(), error()])
    path.write_bytes(path.read_bytes()[:-cut])
    ours, theirs = sealed.read(path), records.read(path)
    assert (ours.fault, ours.complete, ours.header) == (theirs.fault, theirs.complete, theirs.header)
    assert [o.open() for o in ours.observations] == theirs.observations


def test_an_observation_of_another_form_is_opened_and_compared(tmp_path):
    odd = value(milliseconds={"construct": "1 ms"})
    one = _sealed(tmp_path, odd)
    assert one.open()["milliseconds"] == {"construct": "1 ms"}
    assert not one.same(one)


def test_many_pairs_are_compared_as_few_are(tmp_path):
    nights = [f"0.31.0.dev{n}" for n in range(compare._MANY + 1)]
    for n, night in enumerate(nights):
        for side in ("a", "b"):
            observations = [value(), error(), value("lto/other", image=None) if n % 7 or side == "a" else error("lto/other")]
            path = write(tmp_path / side, "cuda12-ctypes", "0.18.1", observations)
            path.rename(path.with_name(f"{night}.jsonl"))
    chosen = list(zip(places(tmp_path / "a"), places(tmp_path / "b"), strict=True))
    assert len(chosen) >= compare._MANY
    one_by_one = [compare.compare(*pair) for pair in chosen]
    assert compare.compare_all(chosen) == one_by_one
    assert sum(c.same for c in one_by_one) == 3 * len(nights) - len(range(0, len(nights), 7))
    assert json.loads(compare.as_json(one_by_one))[1]["link_time_ratio"] == 1
