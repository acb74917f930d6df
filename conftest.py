"""pytest's options and parametrization; everything else is in `conformance/`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "what `nox -s ENVIRONMENT` gives to the suite")
    group.addoption("--cell", help="JSON file that describes the environment and release")
    group.addoption("--scenario", action="append", default=[], help="run this scenario only")
    group.addoption("--repeat", type=int, default=2, help="how often a scenario about stability runs")
    group.addoption("--seconds", type=float, default=60, help="a scenario that takes longer hangs")
    group.addoption("--resume", default="", help="go on after a process that died: what it took, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("cell"):
        from conformance.plugin import Suite

        config.pluginmanager.register(Suite(config), "conformance")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        from conformance.scenario import select

        chosen = select(metafunc.config.getoption("scenario"))
        metafunc.parametrize("scenario", chosen, ids=[s.id for s in chosen])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let `-k C13` find the scenarios of a case."""
    scenario = getattr(item, "callspec", None) and item.callspec.params.get("scenario")
    if scenario:
        item.extra_keyword_matches.update(scenario.cases)
