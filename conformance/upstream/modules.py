"""Runs one module of upstream's tests in a process of its own, and goes on after one that dies."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from conformance.model import Cell
from conformance.run import _cause_of_death
from conformance.upstream.names import FAMILY, module_name

# pytest's exit codes for a run that came to its end: passed, failed, nothing to run.
_ENDED = (0, 1, 5)


@dataclass(frozen=True)
class Runner:
    """What the modules of a cell are run with; scenarios: ids of the tests that are wanted, or of their modules."""

    interpreter: Path
    cell: Cell
    variables: dict[str, str]
    package: Path
    seconds: float
    scenarios: list[str]

    def run(self, module: str) -> tuple[dict, list[dict]]:
        """The facts of the record's header, and an observation for each test."""
        with tempfile.TemporaryDirectory(prefix="upstream-") as scratch:
            folder = Path(scratch)
            self._prepare(folder)
            records = folder / "records"
            while lost := self._lost(module, folder, *self._pytest(folder, module)):
                with records.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lost) + "\n")
                if lost["scenario"] == f"{FAMILY}/{module}":
                    break
            lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
        kinds = [line.pop("kind") for line in lines]
        facts = next((line for line, kind in zip(lines, kinds, strict=True) if kind == "header"), {})
        return facts, [line for line, kind in zip(lines, kinds, strict=True) if kind == "observation"]

    def _prepare(self, folder: Path) -> None:
        # Without one of its own pytest takes the configuration of whatever lies above the environment. What upstream
        # calls a package, numba_cuda/numba, has no __init__.py.
        (folder / "pytest.ini").write_text("[pytest]\nconsider_namespace_packages = true\n", encoding="utf-8")
        (folder / "records").touch()
        task = {
            "cell": self.cell.to_json(), "records": str(folder / "records"), "in_flight": str(folder / "in-flight"),
            "seconds": self.seconds, "scenarios": self.scenarios,
        }  # fmt: skip
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")

    def _pytest(self, folder: Path, module: str) -> tuple[int, str]:
        command = [
            # pytest's own use of faulthandler takes back the time limit once something fails.
            self.interpreter, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "conformance.upstream.inside", "--quiet", "--tb=short",
            "-c", "pytest.ini", f"--rootdir={self.package.parent}", f"--confcutdir={self.package}",
            "--upstream-task=task.json", "--pyargs", module_name(module),
        ]  # fmt: skip
        done = subprocess.run(
            command, check=False, cwd=folder, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
        return done.returncode, done.stdout

    def _lost(self, module: str, folder: Path, code: int, said: str) -> dict:
        """The record of the test, or of the whole module, that a process died of; empty where it came to its end."""
        in_flight = folder / "in-flight"
        word = json.loads(in_flight.read_text(encoding="utf-8")) if in_flight.exists() else {}
        in_flight.unlink(missing_ok=True)
        seen = '"observation"' in (folder / "records").read_text(encoding="utf-8")
        if not word and (seen or code in _ENDED):
            return {}
        late = word and code == 1 and time.time() - word["since"] >= self.seconds - 0.5
        kind, why = ("timeout", f"no end after {self.seconds:g} s") if late else ("crash", _cause_of_death(code))
        scenario = word.get("scenario") or f"{FAMILY}/{module}"
        if scenario == f"{FAMILY}/{module}":
            why = f"{why}: {' '.join(said.split())[-300:]}"
        return {
            "kind": "observation",
            "scenario": scenario,
            "profile": "extended",
            "status": "differs",
            "outcome": {"kind": kind, "phase": "configure", "type": None, "message": why, "digest": None},
            "expected": {"kind": "value", "linker": ""},
            "evidence": "selected",
            "linker": "",
            "engine": "",
            "warnings": [],
            "image": None,
            "milliseconds": {},
            "reason": f"{kind}: {why}",
        }
