"""Short runs beside the records of a user's, on the recording driver unless told otherwise: some scenarios of a
cell, some configurations of the decision table. What is observed is handed back, and nothing of it is kept.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from conformance import candidate, cells, decide, decisions, planted, run
from conformance import driver as recording
from conformance.candidate import Candidate
from conformance.decisions import Configuration
from conformance.errors import SuiteError
from conformance.matrices import Matrices
from conformance.planted import Spot
from conformance.records import read
from conformance.toolchain import find_library

# What is run here takes a tenth of it, unless something hangs.
_SECONDS = 30
# The file of records in a folder.
RECORDS = "records.jsonl"


def scenarios(
    m: Matrices, spot: Spot, interpreter: Path, ids: list[str], folder: Path, driver: Path | None = None,
    kind: str = "recording", subject: Candidate | None = None,
) -> dict[str, dict]:  # fmt: skip
    """Run scenarios in an environment; what was observed, by id.

    folder: for the records. driver: a folder with another `libcuda.so.1` than the recording driver's.
    kind: what stands behind the driver API, as for `cells.choose_driver`. subject: what runs in the release's place.
    Raises SuiteError where the run does not come to its end.
    """
    chosen = cells.choose_driver(kind, spot.environment, interpreter)
    cell = cells.describe(m, spot.environment, spot.release, chosen, folder / RECORDS)
    cell = candidate.place(cell, subject) if subject else cell
    fixtures = cells.fixtures_for(spot.environment, chosen.compute_capability)
    cell = dataclasses.replace(cell, fixtures=str(fixtures))
    variables = cells.process_environment(cell)
    if driver:
        variables |= recording.environment(
            driver,
            version=chosen.version,
            compute_capability=chosen.compute_capability,
            nvjitlink=find_library(cells.toolchain_folder(spot.environment), "libnvJitLink.so.*"),
        )
    arguments = [f"--seconds={_SECONDS}", *(f"--scenario={i}" for i in ids)]
    with (folder / "output").open("w+", encoding="utf-8", errors="replace") as output:
        code = run._pytest(interpreter, cell, variables, arguments, _SECONDS, output)
        output.seek(0)
        said = " ".join(output.read().split())[-600:] or "it said nothing"
    records = read(Path(cell.results))
    if not records.complete:
        raise SuiteError(f"{spot.name}: the run did not finish (exit code {code}): {said}")
    return {o["scenario"]: o for o in records.observations}


def kept(m: Matrices, spot: Spot, interpreter: Path, ids: list[str], path: Path, **how) -> dict[str, dict]:
    """The same, with the records kept as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        seen = scenarios(m, spot, interpreter, ids, Path(scratch), **how)
        Path(scratch, RECORDS).replace(path)
    return seen


def places(m: Matrices, spot: Spot, configurations: list[Configuration]) -> dict[decide.Place, list[Configuration]]:
    """Where configurations of the decision table are asked; raises SuiteError for one without a rule."""
    found: dict[decide.Place, list[Configuration]] = {}
    for configuration in configurations:
        m.rule(configuration, spot.release.version)
        found.setdefault(decide.place_of(configuration, spot.release.version), []).append(configuration)
    return found


def table(m: Matrices, release: str, where: tuple, configurations: list[Configuration]) -> dict[str, dict]:
    """Ask the decision table where `decide.prepared` says; status and reason, by the configuration's name."""
    answers = decide.ask_in(m, where, configurations, False)
    seen = {}
    for configuration, answer in zip(configurations, answers, strict=True):
        judged = decide.judge(m, configuration, release, answer)
        name = f"{planted.SELECTION}/{decisions.title(m.decisions, configuration)}"
        seen[name] = {"status": judged.status, "reason": judged.reason, "effective": judged.effective}
    return seen
