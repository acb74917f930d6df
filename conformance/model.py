"""The words of the suite as types: what a matrix says, what a cell is, what a scenario may expect.

Plain frozen dataclasses, so that the host can have them checked against the TOML files (pydantic,
see `matrices.py`) and a cell can rebuild them from JSON beside any old numba release (dacite).
"""

from __future__ import annotations

import dataclasses
import fnmatch
from dataclasses import field
from typing import Optional

# How a linker ends, in the order in which a user's program meets them.
PHASES = ("import", "configure", "construct", "add", "complete", "load", "launch", "verify")
# How far an observation reached, weakest first.
EVIDENCE = ("selected", "emulated", "linked", "launched")
STATUSES = ("conforms", "deviates", "differs", "unstable", "skipped")
OUTCOMES = ("value", "error", "crash", "timeout")
# Numba's seven kinds of linkable code, named as in this suite's matrices and scenarios.
KINDS = ("ptx", "cu", "cubin", "fatbin", "object", "archive", "ltoir")


def record(cls):
    """A frozen dataclass whose TOML form admits no unknown key and no value of another type.

    The attribute is all that pydantic needs; it is not imported here, for cells do not have it.
    """
    cls.__pydantic_config__ = {"extra": "forbid", "strict": True}
    return dataclasses.dataclass(frozen=True)(cls)


@record
class AxisValue:
    """One value of one axis of the matrix, and what it brings to an environment."""

    title: str = ""
    suffix: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    lock: str = ""
    extra: str = ""
    driver: str = ""
    toolchain: str = ""
    reports: str = ""
    decides: dict[str, str] = field(default_factory=dict)


@record
class Impossible:
    """Why a combination of axis values does not exist, at all or in some releases."""

    when: dict[str, str | list[str]]
    reason: str
    source: str
    releases: str = ""


@record
class Release:
    """A published numba-cuda version and the pins that every environment of it needs."""

    version: str
    note: str
    pins: list[str]


@record
class Engine:
    """What does the linking for a linker, and what it takes there.

    `inputs` maps where the code lies (`path`, `memory`) to the kinds that are taken from there;
    `options` names the link options that are honoured; `emulated` says that the engine lives inside
    the driver, so that a recording driver can only emulate it.
    """

    inputs: dict[str, list[str]]
    options: list[str]
    source: str
    emulated: bool = False

    def features(self) -> set[str]:
        """All that a scenario may need, as words: `input:ptx:path`, `option:lto`."""
        taken = {f"input:{kind}:{place}" for place, kinds in self.inputs.items() for kind in kinds}
        return taken | {f"option:{name}" for name in self.options}


@record
class Linker:
    """One of numba-cuda's linkers: its class, the releases that have it, what replaces it.

    replacement: the axes that a user of this linker changes to get what replaces it.
    """

    title: str
    class_name: str
    engines: dict[str, Engine]
    releases: str = ""
    replaced_by: str = ""
    replacement: dict[str, str] = field(default_factory=dict)
    source: str = ""


@record
class ExpectedWarning:
    """A warning that must come: category's class name, a pattern searched in its text, how often."""

    category: str
    message: str
    times: int = 1


@record
class ExpectedError:
    """An error that must come: its exact class name, where, and a pattern searched in its text.

    `phase` may name several phases where the linker's documents leave it open which of them it is.
    `message` is searched in the texts of the whole exception chain.
    """

    type: str
    phase: list[str]
    message: str = ""


@record
class Rule:
    """Which linker a configuration gets, or which error, and the warnings on the way.

    unless: ids of rules that stop a program before this one; what they cover is not covered here.
    """

    id: str
    when: dict[str, str | list[str]]
    source: str
    releases: str = ""
    unless: list[str] = field(default_factory=list)
    linker: str = ""
    engine: str = ""
    error: Optional[ExpectedError] = None
    warnings: list[ExpectedWarning] = field(default_factory=list)


@record
class Notice:
    """A warning for some configurations, whichever rule covers them.

    literally: look at the settings as they are spelled, before `same` in decisions.toml.
    """

    id: str
    when: dict[str, str | list[str]]
    warning: ExpectedWarning
    source: str
    releases: str = ""
    unless: list[str] = field(default_factory=list)
    literally: bool = False


@record
class Same:
    """Configurations that mean the same as those with other values instead."""

    when: dict[str, str | list[str]]
    instead: dict[str, str]
    source: str


@record
class Named:
    """Configurations that matter by themselves: all combinations of the values, the usual ones elsewhere."""

    case: str
    values: dict[str, list[str]]


@record
class Decisions:
    """What decides which linker a user gets: axes, what cannot occur together, what is tried for sure."""

    axes: dict[str, list[str]]
    settings: dict[str, str] = field(default_factory=dict)
    spellings: dict[str, list[str]] = field(default_factory=dict)
    hidden: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    packages: dict[str, list[str]] = field(default_factory=dict)
    impossible: list[Impossible] = field(default_factory=list)
    same: list[Same] = field(default_factory=list)
    named: list[Named] = field(default_factory=list)

    @property
    def usual(self) -> dict[str, str]:
        """The usual value of every axis."""
        return {axis: values[0] for axis, values in self.axes.items()}


@record
class SelectionDeviation:
    """A release that decides otherwise than the rules say; see matrices/selection-deviations.toml."""

    when: dict[str, str | list[str]]
    upstream: str
    reason: str
    releases: str = ""
    unless: list[str] = field(default_factory=list)
    instead: dict[str, str] = field(default_factory=dict)
    error: Optional[ExpectedError] = None
    warnings: list[ExpectedWarning] = field(default_factory=list)
    finding: str = ""


@record
class FailureOutcome:
    """How a documented failure shows on some linkers (`linker` or `linker/engine`), releases and axes."""

    linkers: list[str]
    source: str
    releases: str = ""
    when: dict[str, str | list[str]] = field(default_factory=dict)
    error: Optional[ExpectedError] = None
    warnings: list[ExpectedWarning] = field(default_factory=list)


@record
class Failure:
    """A documented failure by name (`missing-file`), and how each linker shows it.

    `features` are the features whose absence in an engine leads to this failure: a scenario that
    needs one of them is expected to end so where the engine lacks it.
    """

    title: str
    outcomes: list[FailureOutcome]
    features: list[str] = field(default_factory=list)


@record
class Deviation:
    """A known departure from an expectation: what is seen instead, where, and where it is reported.

    scenario: a glob over scenario ids, and apart_from: globs over those that it matches and that are not
    concerned. outcome: what is seen: any of `kind`, `phase` and `type` (a value or several), `message`
    (a pattern), `warning` (a pattern). when: values of environment axes.
    releases: a version specifier. expected: only scenarios that expect a `value`, or an `error`.
    sometimes: what it depends on that no expectation can know (the order of inputs); conforming is
    right as well then. upstream: a link, or `unreported`. finding: a page in docs/findings.
    """

    scenario: str
    outcome: dict[str, str | list[str]]
    upstream: str
    reason: str
    when: dict[str, str | list[str]] = field(default_factory=dict)
    releases: str = ""
    expected: str = ""
    sometimes: str = ""
    finding: str = ""
    drivers: list[str] = field(default_factory=list)
    apart_from: list[str] = field(default_factory=list)

    def concerns(self, scenario: str, expected: str) -> bool:
        """Whether it is about a scenario, of that id, from which a `value` or an `error` is expected."""
        matched = fnmatch.fnmatchcase(scenario, self.scenario) and self.expected in ("", expected)
        return matched and not any(fnmatch.fnmatchcase(scenario, glob) for glob in self.apart_from)


@record
class Accepted:
    """A difference that maintainers have accepted when a linker is removed (`matrices/accepted.toml`).

    linker: the one to be removed. scenario: a glob. kind and text (a pattern): the gate's words for the
    difference. until: the release from which it is accepted no longer; empty for good.
    """

    linker: str
    scenario: str
    kind: str
    text: str
    reason: str
    link: str
    until: str = ""


@record
class Environment:
    """One column of the matrix: a value on every axis, and what follows from them.

    driver: the driver version that a recording driver says (`12.9`). reports: the driver version that
    numba-cuda must be told whatever the machine's driver is, or "".
    """

    name: str
    title: str
    tags: list[str]
    axes: dict[str, str]
    settings: dict[str, str]
    packages: list[str]
    constraints: list[str]
    lock: str
    extra: str
    driver: str
    toolchain: str
    reports: str

    @property
    def cuda_major(self) -> int:
        """The CUDA major version of the packages."""
        return int(self.axes["cuda"].removeprefix("cuda"))


@record
class Driver:
    """What stands behind the driver API: `device` (the machine's own) or `recording`."""

    kind: str
    version: str
    compute_capability: str
    device: Optional[str] = None


@record
class Expected:
    """What a cell is expected to do at import and selection."""

    linker: str
    engine: str
    class_name: str
    emulated: bool
    features: list[str]
    warnings: list[ExpectedWarning]
    error: Optional[ExpectedError] = None


@record
class Cell:
    """One environment at one release, complete: all that the processes inside it need to know.

    Written as JSON by the host, read by the pytest plugin inside the environment.

    failures: how each documented failure shows here, by name; unmet: the failure to expect for the
    lack of a feature, in the order of failures.toml; linker_classes: every linker's class name;
    lock: the lock's name and hash; source: the suite's git revision; suite: digest of what an
    observation follows from in the suite (scenarios, device code, what observes); fixtures and results: paths;
    notes: what was done to make this driver serve this release, for the record; candidate: what runs in the
    release's place, for the record (`candidate.py`); words: the options that give it.
    """

    environment: Environment
    release: str
    driver: Driver
    expected: Expected
    failures: dict[str, FailureOutcome]
    unmet: dict[str, str]
    deviations: list[Deviation]
    linker_classes: list[str]
    lock: str
    source: str
    suite: str
    fixtures: str
    results: str
    notes: list[str] = field(default_factory=list)
    candidate: Optional[dict] = None
    words: str = ""

    @property
    def subject(self) -> str:
        """What runs: the release, or the candidate's name."""
        return self.candidate["name"] if self.candidate else self.release

    def reproduce(self, scenario: str) -> str:
        """The one command that runs a scenario in this cell again."""
        session = f"upstream -- {self.environment.name}" if scenario.startswith("upstream/") else f"{self.environment.name} --"
        return (
            f"nox -s {session} --release {self.release} {self.words}{' ' * bool(self.words)}"
            f"--driver {self.driver.kind} --scenario {scenario}"
        )

    def to_json(self) -> dict:
        """The cell as JSON-serialisable values."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(document: dict) -> Cell:
        """The inverse of `to_json`; needs dacite, which every cell has."""
        import dacite

        return dacite.from_dict(Cell, document, dacite.Config(strict=True))
