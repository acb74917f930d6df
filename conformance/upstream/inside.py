"""The pytest plugin that runs upstream's tests within an environment: one line of JSON for each test, as it ends.

    python -m pytest -p conformance.upstream.inside --upstream-task TASK.json --pyargs numba.cuda.tests.cudadrv.test_linker

A test that launches cannot pass on the recording driver, which counts what it refuses: such a test is skipped, with
the reason, whatever it made of the refusal.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import time
from pathlib import Path

import pytest

from conformance import examine
from conformance.model import Cell
from conformance.observe import _evidence, _only, describe, describe_warning, shorten
from conformance.upstream.names import scenario_of

NEEDS_DEVICE = "needs a device: it launches a kernel"
_LONGEST = 300


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--upstream-task", help="JSON: cell, records, seconds")
    # Of upstream's own conftest.py, which its wheels leave out.
    parser.addoption("--dump-failed-filechecks", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("upstream_task"):
        task = json.loads(Path(config.getoption("upstream_task")).read_text(encoding="utf-8"))
        config.pluginmanager.register(Watch(**task), "upstream")


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """What upstream's conftest.py gives its test cases."""
    request.cls._dump_failed_filechecks = False


class Watch:
    """Watches a module's tests.

    records: the file that lines are appended to; what it has already is not run again. in_flight: says which test runs,
    for the case that the process does not live to tell. scenarios: what is wanted, or all.
    """

    def __init__(self, cell: dict, records: str, in_flight: str, seconds: float, scenarios: list[str]):
        self.cell, self.scenarios = Cell.from_json(cell), scenarios
        self.records, self.in_flight, self.seconds = Path(records), Path(in_flight), seconds
        self.reports: list[pytest.TestReport] = []
        self.error: BaseException | None = None
        self.warnings: list[dict] = []
        self.launches = 0

    # -- the module ----------------------------------------------------------------------------

    def pytest_sessionstart(self) -> None:
        """Import numba.cuda and watch its linkers."""
        self._begin("")
        self.spy, failed = examine.enter(self.cell)
        self._write({"kind": "header", **examine.header(self.cell)})
        if failed:
            pytest.exit(f"numba.cuda does not import: {failed['message'].splitlines()[0]}", returncode=1)
        self._count_launches()

    def pytest_collection_finish(self) -> None:
        """The module is imported: what dies from now on is a test."""
        self._end()

    def _count_launches(self) -> None:
        """Note every launch that a device took."""
        from numba.cuda import dispatcher

        original = dispatcher._Kernel.launch

        def launch(kernel, *args, **kwargs):
            result = original(kernel, *args, **kwargs)
            self.launches += 1
            return result

        dispatcher._Kernel.launch = launch

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what an earlier process has recorded."""
        done = {json.loads(line).get("scenario") for line in self.records.read_text(encoding="utf-8").splitlines()}
        items[:] = [item for item in items if self._is_wanted(scenario_of(item.nodeid)) and scenario_of(item.nodeid) not in done]

    def _is_wanted(self, scenario: str) -> bool:
        return not self.scenarios or any(f"{scenario}/".startswith(f"{wanted}/") for wanted in self.scenarios)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a module that cannot be imported, or skips itself, in the place of its tests."""
        if report.outcome != "passed":
            self.spy.reset()
            self._write(self._record(report.nodeid, [report]))

    # -- one test ------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        """Watch a test from its set-up to the end of its tear-down, when pytest tells its warnings."""
        self._begin(scenario_of(item.nodeid))
        # The first failing subtest is what is recorded; hundreds may follow it where no launch is to be had.
        item.failfast = True
        self.spy.reset()
        self.reports, self.error, self.warnings, self.launches = [], None, [], 0
        refused = self._refusals()
        try:
            return (yield)
        finally:
            self._write(self._record(item.nodeid, self.reports, self._refusals() - refused))
            self._end()

    def _begin(self, scenario: str) -> None:
        word = {"scenario": scenario, "since": time.time()}
        self.in_flight.write_text(json.dumps(word), encoding="utf-8")
        faulthandler.dump_traceback_later(self.seconds, exit=True)

    def _end(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self.in_flight.unlink(missing_ok=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo):
        """Keep the exception that a test ended with, since reports hold its text only."""
        report = yield  # of a unittest's failure the call knows from here on only
        if call.excinfo and not self.error:
            self.error = call.excinfo.value
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what is reported of set-up, call and tear-down."""
        self.reports.append(report)

    def pytest_warning_recorded(self, warning_message, when: str) -> None:
        """Keep the warnings of a test."""
        if when == "runtest":
            self.warnings.append(describe_warning(warning_message, self.cell))

    def _refusals(self) -> int:
        if self.cell.driver.kind != "recording":
            return 0
        return ctypes.CDLL("libcuda.so.1").recordingLaunchCount()

    # -- its record ----------------------------------------------------------------------------

    def _record(self, node: str, reports: list, refused: int = 0) -> dict:
        failed = next((r for r in reports if r.outcome == "failed"), None)
        skipped = next((r for r in reports if r.outcome == "skipped"), None)
        status, reason = "conforms", ""
        if refused:
            status, reason = "skipped", NEEDS_DEVICE
        elif failed:
            status, reason = "differs", self._first_line(failed)
        elif skipped:
            status, reason = "skipped", self._why_skipped(skipped)
        outcome = self._outcome(failed) if status != "skipped" else None
        return {
            "kind": "observation",
            "scenario": scenario_of(node),
            "profile": "extended",
            "status": status,
            "outcome": outcome,
            "expected": {"kind": "value", "linker": ""},
            "evidence": _evidence(outcome, bool(self.launches), self.cell, self.spy) if outcome else None,
            "linker": _only(self.spy.linkers),
            "engine": self.spy.engine,
            "warnings": self.warnings,
            "image": None,
            "milliseconds": {phase: round(t, 3) for phase, t in self.spy.milliseconds.items()},
            "reason": reason,
        }

    def _outcome(self, failed) -> dict:
        if not failed:
            return {"kind": "value", "phase": "verify", "digest": None}
        if self.error:
            return {"kind": "error", "phase": self.spy.phase, **describe(self.error, self.cell)}
        # A module that cannot be collected, or a subtest: there is a text only.
        text = shorten(str(failed.longrepr), self.cell)[-_LONGEST:]
        return {"kind": "error", "phase": "import", "type": "CollectError", "bases": ["builtins.Exception"], "message": text, "digest": None}

    def _first_line(self, failed) -> str:
        error = describe(self.error, self.cell) if self.error else None
        if error:
            return f"{error['type']}: {error['own_message'].partition(chr(10))[0]}"[:_LONGEST]
        lines = [line[2:].strip() for line in str(failed.longrepr).splitlines() if line.startswith("E ")]
        return shorten((lines or str(failed.longrepr).splitlines() or [""])[-1], self.cell)[:_LONGEST]

    def _why_skipped(self, skipped) -> str:
        if hasattr(skipped, "wasxfail"):
            return f"upstream expects it to fail{': ' * bool(skipped.wasxfail)}{skipped.wasxfail}"
        text = skipped.longrepr[2] if isinstance(skipped.longrepr, tuple) else str(skipped.longrepr)
        return shorten(text.removeprefix("Skipped: "), self.cell)[:_LONGEST]

    def _write(self, record: dict) -> None:
        with self.records.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
