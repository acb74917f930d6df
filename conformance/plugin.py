"""The pytest plugin of a cell: runs scenarios, judges and records them, and sums up.

One process writes the records: pytest's own, or under xdist its controller. Whoever runs scenarios
(that process, or each worker) imports numba.cuda once.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import time
import traceback
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from conformance import examine, expectation
from conformance.errors import SuiteError
from conformance.isolated import lost, observe_isolated
from conformance.last_word import LastWord
from conformance.model import Cell
from conformance.observe import run_scenario
from conformance.records import Recorder, read
from conformance.scenario import ENVIRONMENT, Scenario, catalogue
from conformance.summary import summarise

_NO_IMPORT = "numba.cuda does not import in this environment and release"
# pytest's ways of coming to an end, as against being cut short. With nothing collected the
# examination is still an observation.
_ENDED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)


@contextmanager
def _clear_faults():
    """End pytest with the one line that a fault of the suite has to say, and no traceback."""
    try:
        yield
    except SuiteError as error:
        pytest.exit(f"conformance: {error}", returncode=pytest.ExitCode.INTERNAL_ERROR)


class Suite:
    """What one pytest process knows of its cell."""

    def __init__(self, config: pytest.Config):
        self.config = config
        self.cell = Cell.from_json(json.loads(Path(config.getoption("cell")).read_text()))
        self.worker = hasattr(config, "workerinput")
        self.repeat: int = config.getoption("repeat")
        self.seconds: float = config.getoption("seconds")
        self.observations: list[dict] = []
        self.recorder: Recorder | None = None
        self.last_word = LastWord(Path(self.cell.results + ".in-flight" + self._worker_suffix()))
        # What a process before this one took along when it died (`run._lost`).
        self.lost: dict = json.loads(config.getoption("resume") or "{}")
        self.deadly = self.lost.get("scenario") == ENVIRONMENT
        self.failed_import = ""
        self.done: set[str] = set()
        self.collected: set[str] = set()

    def _worker_suffix(self) -> str:
        return f".{self.config.workerinput['workerid']}" if self.worker else ""

    # -- the session ------------------------------------------------------------------------

    def pytest_sessionstart(self) -> None:
        """Enter the cell; the process that records examines it and writes the header."""
        with _clear_faults():
            if not self.worker:
                self._open_records()
            if not self.deadly:
                self._examine()
        _collect_less()
        self.done = {o["scenario"] for o in self.observations}

    def _open_records(self) -> None:
        path = Path(self.cell.results)
        self.recorder = Recorder(path, resume=bool(self.lost))
        if self.lost:
            self.observations = list(read(path).observations)
            # First of all, for this process may die as well.
            self._record_lost(**self.lost)

    def _examine(self) -> None:
        first = not self.worker and not self.lost
        leave_word = self._word(ENVIRONMENT) if first else None
        try:
            with self._time_limit():
                self.spy, observation = examine.examine(self.cell, leave_word)
        except BaseException:
            self.last_word.end()  # this end is pytest's to tell
            raise
        self.spy.on_phase = None
        if observation["outcome"]["phase"] == "import":
            self.failed_import = observation["outcome"]["message"]
        if first:
            self._record_environment(observation)

    def _record_environment(self, observation: dict) -> None:
        self.recorder.header(**examine.header(self.cell))
        self._record(self._judged(ENVIRONMENT, "core", observation, expectation.of_examination(self.cell)))

    def _record_lost(self, scenario: str, kind: str, phase: str, message: str) -> None:
        """A process died: record the scenario that it took along."""
        observation = lost(kind, phase, message)
        if scenario == ENVIRONMENT:
            return self._record_environment(observation)
        one = catalogue()[scenario]
        self._record(self._judged(one.id, one.profile, observation, expectation.of(one, self.cell)))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the footer, unless the run was cut short; what differs fails the run."""
        self.last_word.end()
        if self.worker:
            return
        missing = self.collected - {o["scenario"] for o in self.observations}
        if exitstatus not in _ENDED or missing:
            session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
            return
        with _clear_faults():
            self.recorder.footer()
        wrong = any(o["status"] in ("differs", "unstable") for o in self.observations)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if wrong else pytest.ExitCode.OK

    # -- one scenario -----------------------------------------------------------------------

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what an earlier process of the same run has recorded."""
        if self.done:
            items[:] = [i for i in items if i.callspec.params["scenario"].id not in self.done]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which scenarios must be recorded by the end."""
        self.collected.update(i.callspec.params["scenario"].id for i in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """The same under xdist, where workers collect."""
        self.collected.update(_scenario_of(i) for i in ids)

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
        times = self.repeat if scenario.repeats else 1
        seen = [
            self._judged(scenario.id, scenario.profile, self._observe(scenario), expected)
            for _ in range(times)
        ]
        answers = list(dict.fromkeys(_answer(record) for record in seen))
        if len(answers) > 1:
            seen[0].update(status="unstable", reason=f"{times} times gave: {' | '.join(answers)}")
        return seen[0]

    def _observe(self, scenario: Scenario) -> dict:
        self._mark_in_flight(scenario)
        if scenario.isolated:
            return observe_isolated(scenario.id, self.cell, self.seconds)
        with self._time_limit():
            return run_scenario(scenario, self.cell, self.spy)

    @contextmanager
    def _time_limit(self):
        """End the process, whatever it is at, where this takes longer than a scenario may."""
        faulthandler.dump_traceback_later(self.seconds, exit=True)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _skip_reason(self, scenario: Scenario) -> str:
        if self.deadly:
            return "no process lives through the import and the first link in this environment and release"
        if self.failed_import:
            return _NO_IMPORT
        return scenario.left_out(self.cell.release, self.cell.driver.kind)

    def _mark_in_flight(self, scenario: Scenario) -> None:
        """Leave word of what runs, for the case that the process does not live to tell."""
        self.spy.on_phase = self._word(scenario.id)
        self.spy.on_phase("configure")

    def _word(self, scenario: str) -> Callable[[str], None]:
        """What leaves word of a scenario's phases from now on."""
        since = time.time()
        return lambda phase: self.last_word.leave(scenario, phase, since)

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
        name = _scenario_of(crashitem)
        word = self._last_word(name)
        kind, message = "crash", "the worker process died"
        if time.time() - word["since"] >= self.seconds - 0.5:
            kind, message = "timeout", f"no end after {self.seconds:g} s"
        with _clear_faults():
            self._record_lost(name, kind, word["phase"], message)

    def _last_word(self, scenario: str) -> dict:
        """What a worker left of the scenario under which it died."""
        own = self.last_word.path
        for file in own.parent.glob(own.name + ".*"):
            with suppress(OSError, ValueError):  # a worker that lives is at its own file
                word = json.loads(file.read_text())
                if word["scenario"] == scenario:
                    file.unlink()
                    return word
        return {"phase": "configure", "since": time.time()}

    def _record(self, record: dict) -> None:
        if record["reason"] == _NO_IMPORT and self._has_imported():
            why = "numba.cuda does not import in this process, although it did in another"
            record = {**record, "status": "differs", "reason": why}
        with _clear_faults():
            self.recorder.observation(record)
        self.observations.append(record)
        self.last_word.take_back()

    def _has_imported(self) -> bool:
        return self.observations[0]["outcome"]["phase"] != "import"

    def pytest_terminal_summary(self, terminalreporter) -> None:
        """Say what was seen, and how to see again what differs."""
        if not self.worker:
            terminalreporter.section("conformance")
            for line in summarise(self.cell, self.observations):
                terminalreporter.write_line(line)


def _collect_less() -> None:
    """Keep the collector from going through all that numba holds whenever a compilation made garbage.

    It costs a tenth of the run otherwise; a scenario that needs a collection asks for one.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _scenario_of(node: str) -> str:
    """The scenario's id in a pytest node's."""
    return node.split("[", 1)[1].removesuffix("]")


def _answer(record: dict) -> str:
    """All of a record that must be the same each time; texts may hold counters, so they need not."""
    outcome = record["outcome"]
    parts = (outcome["kind"], outcome["phase"], outcome.get("type"), outcome.get("digest"))
    warned = [warning["category"] for warning in record["warnings"]]
    return " ".join(str(p) for p in (*parts, record["linker"], *warned, record["status"]) if p)


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
