"""The pytest plugin of a cell: runs scenarios, judges and records them, and sums up.

One process writes the records: pytest's own, or under xdist its controller. Whoever runs scenarios
(that process, or each worker) imports numba.cuda once.
"""

from __future__ import annotations

import faulthandler
import json
import os
import time
import traceback
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from conformance import examine, expectation
from conformance.isolated import lost, observe_isolated
from conformance.model import Cell
from conformance.observe import run_scenario
from conformance.records import Recorder, read
from conformance.scenario import Scenario, catalogue
from conformance.summary import summarise

# The examination of the cell itself: import and a link without external code.
ENVIRONMENT = "environment/import-and-link"
# pytest's ways of coming to an end, as against being cut short. With nothing collected the
# examination is still an observation.
_ENDED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)


class Suite:
    """What one pytest process knows of its cell."""

    def __init__(self, config: pytest.Config):
        self.config = config
        self.cell = Cell.from_json(json.loads(Path(config.getoption("cell")).read_text()))
        self.worker = hasattr(config, "workerinput")
        self.parallel = bool(config.getoption("numprocesses", None))
        self.repeat: int = config.getoption("repeat")
        self.seconds: float = config.getoption("seconds")
        self.observations: list[dict] = []
        self.recorder: Recorder | None = None
        self.in_flight = Path(self.cell.results + ".in-flight")
        self.failed_import = ""
        self.done: set[str] = set()

    # -- the session ------------------------------------------------------------------------

    def pytest_sessionstart(self) -> None:
        """Enter the cell; the process that records examines it and writes the header."""
        self.spy, observation = examine.examine(self.cell)
        if observation["outcome"]["phase"] == "import":
            self.failed_import = observation["outcome"]["message"]
        if not self.worker:
            self._open_records(observation)

    def _open_records(self, observation: dict) -> None:
        resume = self.config.getoption("resume")
        path = Path(self.cell.results)
        self.recorder = Recorder(path, resume=bool(resume))
        if resume:
            self.observations = list(read(path).observations)
            self._record_lost(resume)
        else:
            self.recorder.header(**examine.header(self.cell))
            self._record(self._judged(ENVIRONMENT, "core", observation, self._cell_expectation()))
        self.done = {o["scenario"] for o in self.observations}

    def _cell_expectation(self) -> expectation.Expectation:
        expected = self.cell.expected
        return expectation.Expectation(
            expected.class_name, expected.engine, expected.error, expected.warnings
        )

    def _record_lost(self, what: str) -> None:
        """A process before this one died: record the scenario that it took along."""
        kind, _, message = what.partition(":")
        try:
            marker = json.loads(self.in_flight.read_text())
        except (OSError, ValueError):
            return
        scenario = catalogue()[marker["scenario"]]
        observation = lost(kind, marker["phase"], message)
        self._record(self._judged(scenario.id, scenario.profile, observation, expectation.of(scenario, self.cell)))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the footer, unless the run was cut short; what differs fails the run."""
        if self.worker:
            return
        self.in_flight.unlink(missing_ok=True)
        if exitstatus not in _ENDED:
            return
        self.recorder.footer()
        wrong = any(o["status"] in ("differs", "unstable") for o in self.observations)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if wrong else pytest.ExitCode.OK

    # -- one scenario -----------------------------------------------------------------------

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what an earlier process of the same run has recorded."""
        if self.done:
            items[:] = [i for i in items if i.callspec.params["scenario"].id not in self.done]

    def settle(self, scenario: Scenario) -> dict:
        """Observe and judge one scenario: its complete record. A fault of the suite is recorded too."""
        reason = self._skip_reason(scenario)
        if reason:
            return _skipped(scenario, reason)
        try:
            return self._settle(scenario, expectation.of(scenario, self.cell))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            what = f"fault of the suite at {Path(where.filename).name}:{where.lineno}: {error!r}"
            return {**_skipped(scenario, what), "status": "differs"}

    def _settle(self, scenario: Scenario, expected: expectation.Expectation) -> dict:
        self._mark_in_flight(scenario)
        times = self.repeat if scenario.repeats else 1
        seen = [self._observe(scenario) for _ in range(times)]
        record = self._judged(scenario.id, scenario.profile, seen[0], expected)
        answers = list(dict.fromkeys(_answer(o) for o in seen))
        if len(answers) > 1:
            record.update(status="unstable", reason=f"{times} times gave: {' | '.join(answers)}")
        return record

    def _observe(self, scenario: Scenario) -> dict:
        if scenario.isolated:
            return observe_isolated(scenario.id, self.cell, self.seconds)
        faulthandler.dump_traceback_later(self.seconds, exit=True)
        try:
            return run_scenario(scenario, self.cell, self.spy)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _skip_reason(self, scenario: Scenario) -> str:
        if self.failed_import:
            return "numba.cuda does not import in this environment and release"
        if scenario.device and self.cell.driver.kind == "recording":
            return f"needs a device: {scenario.device}"
        if scenario.releases and not _within(self.cell.release, scenario.releases):
            return f"concerns numba-cuda {scenario.releases} only"
        return ""

    def _mark_in_flight(self, scenario: Scenario) -> None:
        """Leave word of what runs, for the case that the process does not live to tell."""
        if self.parallel or self.worker:
            return  # xdist tells which scenario a dead worker ran

        def note(phase: str) -> None:
            self.in_flight.write_text(
                json.dumps({"scenario": scenario.id, "phase": phase, "since": time.time()})
            )

        note("configure")
        self.spy.on_phase = note

    def _judged(self, scenario: str, profile: str, observation: dict, expected) -> dict:
        status, reason = expectation.judge(scenario, observation, expected, self.cell)
        return {
            "scenario": scenario,
            "profile": profile,
            "status": status,
            "outcome": observation["outcome"],
            "expected": expected.to_json(),
            **{k: v for k, v in observation.items() if k != "outcome"},
            "reason": reason,
        }

    # -- records ----------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record what a process of this run has settled."""
        if self.recorder and report.when == "call":
            for name, value in report.user_properties:
                if name == "record":
                    self._record(value)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str) -> None:
        """Record a scenario whose xdist worker died under it."""
        name = crashitem.split("[", 1)[1].removesuffix("]")
        scenario = catalogue()[name]
        observation = lost("crash", "configure", "the worker process died")
        self._record(self._judged(name, scenario.profile, observation, expectation.of(scenario, self.cell)))

    def _record(self, record: dict) -> None:
        self.observations.append(record)
        self.recorder.observation(record)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        """Say what was seen, and how to see again what differs."""
        if not self.worker:
            terminalreporter.section("conformance")
            for line in summarise(self.cell, self.observations):
                terminalreporter.write_line(line)


def _within(release: str, specifier: str) -> bool:
    return SpecifierSet(specifier).contains(release, prereleases=True)


def _answer(observation: dict) -> str:
    outcome = observation["outcome"]
    parts = (outcome["kind"], outcome["phase"], outcome.get("type"), outcome.get("digest"))
    return " ".join(str(p) for p in parts if p)


def _skipped(scenario: Scenario, reason: str) -> dict:
    return {
        "scenario": scenario.id,
        "profile": scenario.profile,
        "status": "skipped",
        "outcome": None,
        "expected": None,
        "evidence": None,
        "linker": "",
        "engine": "",
        "warnings": [],
        "image": None,
        "milliseconds": {},
        "reason": reason,
    }
