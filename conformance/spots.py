"""Where something is so and where it is not, put into the conditions that a table of the matrices can have.

A spot is a cell as it was recorded: an environment, a release, and the kind of driver behind it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from conformance.matrices import Matrices, matches, within

DRIVERS = ("device", "recording")


@dataclass(frozen=True, order=True)
class Spot:
    """An environment at a release on a kind of driver (`device` or `recording`)."""

    environment: str
    release: str
    driver: str

    @property
    def name(self) -> str:
        """The cell as people write it."""
        return f"{self.environment}@{self.release}"


@lru_cache
def everywhere(m: Matrices) -> tuple[Spot, ...]:
    """Every spot that there can be."""
    cells = [(e.name, r.version) for e in m.environments.values() for r in m.releases_of(e)]
    return tuple(Spot(*cell, driver) for cell, driver in itertools.product(cells, DRIVERS))


def takes(m: Matrices, spot: Spot, releases: str = "", when: dict | None = None, drivers: Collection[str] = ()) -> bool:
    """Whether conditions, as a table has them, take a spot."""
    axes = m.environments[spot.environment].axes
    return within(spot.release, releases) and matches(axes, when or {}) and spot.driver in (drivers or DRIVERS)


def conditions(m: Matrices, wanted: Collection[Spot], unwanted: Collection[Spot]) -> list[dict]:
    """The narrowest conditions that take every wanted spot and no unwanted one.

    Each is a table of `releases`, `when` and `drivers` that reaches no further than the wanted spots do on any
    axis; what excludes nothing that exists is left out. There are several where one would take an unwanted spot.
    What is neither wanted nor unwanted falls on either side.
    """
    if not wanted:
        return []
    if set(wanted) & set(unwanted):
        raise ValueError(f"wanted and unwanted: {set(wanted) & set(unwanted)}")
    box = _box(m, wanted)
    if any(_inside(m, spot, box) for spot in unwanted):
        return [table for part in _parts(m, wanted, unwanted) for table in conditions(m, part, unwanted)]
    return [_table(m, _without_idle(m, box))]


# A box has a list of values for each axis. `since` and `until` are two axes, so that either may be left out.


@lru_cache
def _axes(m: Matrices) -> dict[str, list[str]]:
    """Every axis with all of its values, in the matrices' order."""
    versions = [r.version for r in m.releases]
    axes = {axis: list(values) for axis, values in m.axes.items()}
    return {"since": versions, "until": versions, **axes, "driver": list(DRIVERS)}


def _value(m: Matrices, spot: Spot, axis: str) -> str:
    if axis in ("since", "until"):
        return spot.release
    return spot.driver if axis == "driver" else m.environments[spot.environment].axes[axis]


def _box(m: Matrices, spots: Collection[Spot]) -> dict[str, list[str]]:
    """The values of the spots on every axis; all releases from the oldest on, and all up to the newest."""
    has = {axis: {_value(m, spot, axis) for spot in spots} for axis in _axes(m)}
    box = {axis: [v for v in values if v in has[axis]] for axis, values in _axes(m).items()}
    versions = _axes(m)["since"]
    first, last = versions.index(box["since"][0]), versions.index(box["until"][-1])
    return {**box, "since": versions[first:], "until": versions[: last + 1]}


def _inside(m: Matrices, spot: Spot, box: dict[str, list[str]]) -> bool:
    return all(_value(m, spot, axis) in values for axis, values in box.items())


def _without_idle(m: Matrices, box: dict[str, list[str]]) -> dict[str, list[str]]:
    """The fewest of a box's axes that take the same of what exists."""
    spots = everywhere(m)
    outside = [spot for spot in spots if not _inside(m, spot, box)]
    for count in range(len(box) + 1):
        for chosen in itertools.combinations(box, count):
            smaller = {axis: box[axis] for axis in chosen}
            if not any(_inside(m, spot, smaller) for spot in outside):
                return smaller
    raise AssertionError("the box itself takes what it takes")


def _parts(m: Matrices, wanted: Collection[Spot], unwanted: Collection[Spot]) -> tuple[set[Spot], set[Spot]]:
    """The wanted spots in two parts, apart on one axis, whose boxes hold fewest unwanted spots."""

    def cost(parts: tuple[set[Spot], set[Spot]]) -> int:
        boxes = [_box(m, part) for part in parts]
        return sum(_inside(m, spot, box) for spot in unwanted for box in boxes)

    return min(_cuts(m, set(wanted)), key=cost)


def _cuts(m: Matrices, spots: set[Spot]) -> Iterator[tuple[set[Spot], set[Spot]]]:
    """Every way to part spots on one axis: releases into older and newer ones, else a value from the others."""
    for axis, values in _axes(m).items():
        if axis == "since":
            sides = [values[:at] for at in range(1, len(values))]
        else:
            sides = [] if axis == "until" else [[value] for value in values]
        for side in sides:
            here = {spot for spot in spots if _value(m, spot, axis) in side}
            if here and here != spots:
                yield here, spots - here


def _table(m: Matrices, box: dict[str, list[str]]) -> dict:
    when = {axis: values[0] if len(values) == 1 else values for axis, values in box.items() if axis in m.axes}
    table = {"releases": _specifier(m, box), "when": when, "drivers": box.get("driver", [])}
    return {key: value for key, value in table.items() if value}


def _specifier(m: Matrices, box: dict[str, list[str]]) -> str:
    """A specifier of releases as short as it can be: `>=0.16,<0.19`."""
    versions = _axes(m)["since"]
    since = [f">={_series(versions, versions.index(box['since'][0]))}"] if "since" in box else []
    until = [f"<{_series(versions, len(box['until']))}"] if "until" in box else []
    return ",".join(since + until)


def _series(versions: list[str], at: int) -> str:
    """The beginning of a release's series, `0.16` for 0.16.0, unless the release before is of it as well."""
    series = ".".join(versions[at].split(".")[:2])
    before = at > 0 and within(versions[at - 1], f">={series}")
    return versions[at] if before else series
