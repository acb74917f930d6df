"""What a scenario is, and the register of all of them.

A scenario is a function that does what a user's program does. It takes a `Stage` and one value of
each of its axes; the decorator says the rest:

    @scenario(cases="C01", each={"kind": KINDS}, needs=lambda kind: [f"input:{kind}:path"])
    def link_by_path(stage, kind): ...

gives the scenarios `inputs/link-by-path-ptx`, `inputs/link-by-path-cu`, ... where `inputs` is the module.
This module and those under `scenarios/` import neither numba nor numpy at their top, so that the
catalogue can be read on any machine.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import itertools
import os
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from packaging.specifiers import SpecifierSet

from conformance.errors import SuiteError
from conformance.model import ExpectedWarning

PROFILES = ("core", "extended")
# The examination of a cell itself, before any scenario: import and a link without external code.
ENVIRONMENT = "environment/import-and-link"


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    needs: features of a linker's engine without which the failure documented for their lack is
        expected (`failures.toml`).
    fails: name of the failure in `failures.toml` that is expected on every linker; empty for a value.
    warnings: warnings that must come, beside those of the failure; any other warning is a difference.
    isolated: it can take the process down, so it runs in one of its own.
    repeats: it must give the same answer each time; `--repeat` says how often it is asked.
    device: why it tells nothing on a recording driver; empty where it does.
    releases: a specifier of the releases that have what the scenario is about; elsewhere it is skipped.
    """

    id: str
    title: str
    run: Callable = field(repr=False, compare=False)
    parameters: dict[str, object] = field(default_factory=dict)
    profile: str = "core"
    cases: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    fails: str = ""
    warnings: tuple[ExpectedWarning, ...] = ()
    isolated: bool = False
    repeats: bool = False
    device: str = ""
    releases: str = ""

    @property
    def family(self) -> str:
        """The part of the catalogue: the module that holds the scenario."""
        return self.id.split("/")[0]

    def left_out(self, release: str, driver: str) -> str:
        """Why a release on a kind of driver cannot run it; "" where it can."""
        if self.device and driver == "recording":
            return f"needs a device: {self.device}"
        if self.releases and not SpecifierSet(self.releases).contains(release, prereleases=True):
            return f"concerns numba-cuda {self.releases} only"
        return ""


_registered: dict[str, Scenario] = {}


def scenario(
    *,
    each: dict[str, Iterable] | None = None,
    when: Callable[..., bool] | None = None,
    **facts,
):
    """Register a function as one scenario for each combination of the values in `each`.

    Every fact (a field of Scenario) may be a value or a function of the combination; `when` drops
    combinations that mean nothing.
    """

    def register(function: Callable) -> Callable:
        axes = {name: list(values) for name, values in (each or {}).items()}
        for values in itertools.product(*axes.values()):
            parameters = dict(zip(axes, values))
            if when is None or when(**parameters):
                _add(_make(function, parameters, facts))
        return function

    return register


def _make(function: Callable, parameters: dict, facts: dict) -> Scenario:
    settled = {k: v(**parameters) if callable(v) else v for k, v in facts.items()}
    for name in ("cases", "needs", "warnings"):
        value = settled.get(name, ())
        settled[name] = (value,) if isinstance(value, (str, ExpectedWarning)) else tuple(value)
    family = function.__module__.rsplit(".", 1)[-1].replace("_", "-")
    words = [function.__name__.replace("_", "-"), *(_word(v) for v in parameters.values())]
    return Scenario(
        id=f"{family}/{'-'.join(words)}",
        title=(inspect.getdoc(function) or "").split("\n")[0],
        run=function,
        parameters=parameters,
        **settled,
    )


def _word(value: object) -> str:
    return str(value).lower().replace("_", "-").replace(" ", "-")


def _add(one: Scenario) -> None:
    if one.id in _registered:
        raise ValueError(f"two scenarios are called {one.id}")
    if one.profile not in PROFILES:
        raise ValueError(f"{one.id}: no profile {one.profile!r}; known: {', '.join(PROFILES)}")
    _registered[one.id] = one


@lru_cache
def catalogue() -> dict[str, Scenario]:
    """Every scenario by id, in the order of modules and definitions.

    `$CONFORMANCE_CATALOGUE` names one more module; the tests of the harness have their own scenarios.
    """
    from conformance import scenarios

    names = [f"{scenarios.__name__}.{module.name}" for module in pkgutil.iter_modules(scenarios.__path__)]
    for name in [*names, *os.environ.get("CONFORMANCE_CATALOGUE", "").split()]:
        importlib.import_module(name)
    return dict(_registered)


def select(ids: list[str]) -> list[Scenario]:
    """The scenarios of those ids, or all; an unknown id is an error that names the nearest."""
    known = catalogue()
    unknown = [i for i in ids if i not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, 5, 0.3)
        raise SuiteError(f"no scenario is called {unknown[0]!r}; near it: {', '.join(near)}")
    return [known[i] for i in ids] if ids else list(known.values())
