"""Spots into conditions: narrow, exact, and no more words than it takes."""

from __future__ import annotations

import random

import pytest

from conformance import matrices
from conformance.spots import DRIVERS, Spot, conditions, everywhere, takes

M = matrices.load()


def where(releases: str = "", drivers=DRIVERS, **when) -> set[Spot]:
    return {s for s in everywhere(M) if takes(M, s, releases, when, drivers)}


def found(wanted: set[Spot], unwanted: set[Spot]) -> list[dict]:
    """The conditions, which must take what is wanted and nothing that is not."""
    tables = conditions(M, wanted, unwanted)
    taken = {s for s in everywhere(M) if any(takes(M, s, **table) for table in tables)}
    assert wanted <= taken and not taken & unwanted
    return tables


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"when": {"mvc": "on"}},
        {"releases": ">=0.22"},
        {"releases": "<0.16", "when": {"pynvjitlink": ["present", "forced"]}},
        {"releases": ">=0.16,<0.30", "when": {"cuda": ["cuda12", "cuda13"], "binding": "nvidia"}},
        {"when": {"mvc": "off"}, "drivers": ["recording"]},
    ],
)
def test_conditions_come_back_from_the_spots_that_they_take(table):
    wanted = where(table.get("releases", ""), table.get("drivers", DRIVERS), **table.get("when", {}))
    [again] = found(wanted, set(everywhere(M)) - wanted)
    assert again == table


def test_they_reach_no_further_than_what_is_wanted_although_nothing_speaks_against_it():
    wanted = where(">=0.16,<0.19", ["recording"], cuda="cuda12", binding="ctypes", pynvjitlink="absent")
    [table] = found(wanted, set())
    assert table == {
        "releases": ">=0.16,<0.19",
        "when": {"cuda": "cuda12", "binding": "ctypes", "pynvjitlink": "absent"},
        "drivers": ["recording"],
    }


def test_what_excludes_nothing_that_exists_is_left_out():
    """CUDA 13 came with 0.19, and minor version compatibility is a matter of CUDA 11."""
    assert found(where(cuda="cuda13"), set()) == [{"when": {"cuda": "cuda13"}}]
    assert found(where(mvc="on"), set()) == [{"when": {"mvc": "on"}}]


def test_what_no_single_table_can_say_is_parted_where_it_takes_fewest():
    wanted = where("<0.16", pynvjitlink="forced") | where(">=0.16", cuda=["cuda12", "cuda13"], binding="nvidia")
    tables = found(wanted, set(everywhere(M)) - wanted)
    assert tables == [
        {"releases": "<0.16", "when": {"pynvjitlink": "forced"}},
        {"releases": ">=0.16", "when": {"cuda": ["cuda12", "cuda13"], "binding": "nvidia"}},
    ]


def test_releases_between_are_taken_along_unless_they_are_unwanted():
    ends = {s for s in where(mvc="on") if s.release in ("0.15.2", "0.18.1")}
    assert found(ends, set()) == [{"when": {"mvc": "on"}}]
    assert len(found(ends, where("==0.16.*"))) == 2


def test_a_series_that_two_releases_share_is_told_by_the_whole_version(monkeypatch):
    renamed = {"0.18.1": "0.16.1"}
    releases = [matrices.Release(renamed.get(r.version, r.version), r.note, r.pins) for r in M.releases]
    m = matrices.dataclasses.replace(M, releases=releases)
    wanted = {s for s in everywhere(m) if s.release >= "0.16.1"}
    assert conditions(m, wanted, set(everywhere(m)) - wanted) == [{"releases": ">=0.16.1"}]


def test_nothing_wanted_is_no_table():
    assert conditions(M, set(), where()) == []


def test_what_is_wanted_and_unwanted_is_refused():
    spot = everywhere(M)[0]
    with pytest.raises(ValueError, match=spot.environment):
        conditions(M, {spot}, {spot})


@pytest.mark.parametrize("seed", range(5))
def test_any_spots_are_told_apart(seed):
    drawn = random.Random(seed)
    spots = drawn.sample(everywhere(M), 60)
    found(set(spots[:25]), set(spots[25:]))
