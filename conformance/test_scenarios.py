"""What pytest collects in a cell: every scenario of the catalogue, judged against the matrices."""

from __future__ import annotations

import pytest


def test_scenario(scenario, request, record_property):
    """One scenario does what the matrices say of this cell."""
    suite = request.config.pluginmanager.getplugin("conformance")
    if suite is None:
        pytest.fail("scenarios run in an environment: nox -s ENVIRONMENT (nox -l lists them)")
    record = suite.settle(scenario)
    record_property("record", record)
    if record["status"] == "skipped":
        pytest.skip(record["reason"])
    if record["status"] in ("differs", "unstable"):
        pytest.fail(f"{record['reason']}\nagain: {suite.cell.reproduce(scenario.id)}", pytrace=False)
