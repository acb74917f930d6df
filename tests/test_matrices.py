"""The matrices: the real ones are whole and say what they must, and every fault of bad ones is told."""

from __future__ import annotations

import fnmatch
import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from conformance import cells, expectation, locks, matrices
from conformance.coverage import rows
from conformance.errors import SuiteError
from conformance.matrices import FOLDER, within
from conformance.model import Driver
from conformance.paths import LOCKS, ROOT
from conformance.plugin import ENVIRONMENT
from conformance.scenario import catalogue

M = matrices.load()
ENGINES = [engine for linker in M.linkers.values() for engine in linker.engines.values()]
CELLS = [(e, r) for e in M.environments.values() for r in M.releases_of(e)]
IDS = [f"{e.name}@{r.version}" for e, r in CELLS]

# Every environment that the matrix was asked for, by the releases in which it exists.
OLD_AND_NEW = "0.15.2 0.16.0 0.18.1 0.19.2 0.20.1 0.22.2 0.30.4".split()
WANTED = {
    "cuda11-ctypes": OLD_AND_NEW[:3],
    "cuda11-ctypes-mvc": OLD_AND_NEW[:3],
    "cuda11-nvidia": OLD_AND_NEW[:3],
    "cuda11-nvidia-mvc": OLD_AND_NEW[:3],
    "cuda12-ctypes": OLD_AND_NEW[:5],
    "cuda12-ctypes-pynvjitlink": OLD_AND_NEW[:5],
    "cuda12-ctypes-pynvjitlink-forced": OLD_AND_NEW[:5],
    "cuda12-ctypes-pynvjitlink-off": OLD_AND_NEW[:5],
    "cuda12-nvidia": OLD_AND_NEW,
    "cuda12-nvidia-pynvjitlink": OLD_AND_NEW,
    "cuda12-nvidia-pynvjitlink-forced": OLD_AND_NEW,
    "cuda12-nvidia-pynvjitlink-off": OLD_AND_NEW,
    "cuda13-ctypes": OLD_AND_NEW[3:5],
    "cuda13-nvidia": OLD_AND_NEW[3:],
}


# The real matrices


def test_the_environments_and_their_releases_are_those_that_were_asked_for():
    assert {e.name: [r.version for r in M.releases_of(e)] for e in M.environments.values()} == WANTED


def test_every_combination_is_there_once():
    assert [e.axes for e, _ in M.combinations] == [
        dict(zip(M.axes, values, strict=True)) for values in itertools.product(*M.axes.values())
    ]
    assert len(M.combinations) == 3 * 2 * 4 * 2
    assert len({e.name for e, _ in M.combinations}) == len(M.combinations)


def test_names_need_no_quotes_in_a_shell():
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in M.environments)


def test_what_cannot_exist_says_why_and_where_that_is_written():
    for entry in M.impossible:
        assert len(entry.reason.split()) > 3, entry
        assert entry.source.startswith("https://"), entry


@pytest.mark.parametrize("environment", M.environments.values(), ids=lambda e: e.name)
def test_every_absence_has_a_reason(environment):
    absent = {r.version for r in M.releases if M.absence(environment, r)}
    assert absent == {r.version for r in M.releases} - set(WANTED[environment.name])


def test_the_table_of_combinations_has_all():
    table = dict(rows(M))
    assert len(table) == len(M.combinations)
    assert table["cuda12-nvidia"] == " ".join(OLD_AND_NEW)
    assert table["cuda11-ctypes"].startswith("0.15.2 0.16.0 0.18.1; else numba-cuda 0.19.0 dropped CUDA 11")
    assert table["cuda11-ctypes-pynvjitlink"].startswith("impossible: pynvjitlink has wheels for CUDA 12")


@pytest.mark.parametrize("environment, release", CELLS, ids=IDS)
def test_exactly_one_rule_covers_a_cell(environment, release):
    configuration = M.meant(M.configuration(environment.axes))
    covering = [r.id for r in M.rules if M.covers(r, configuration, release.version)]
    assert covering == [M.rule(environment.axes, release.version).id]


@pytest.mark.parametrize(
    "name, release, linker",
    [
        ("cuda11-ctypes-mvc", "0.15.2", "mvc/cubinlinker"),
        ("cuda11-nvidia-mvc", "0.18.1", "mvc/cubinlinker"),
        ("cuda11-nvidia", "0.15.2", "cuda-python/driver"),
        ("cuda11-nvidia", "0.16.0", "cuda-core/driver"),
        ("cuda12-ctypes", "0.20.1", "ctypes/driver"),
        ("cuda12-ctypes-pynvjitlink", "0.15.2", "pynvjitlink/nvjitlink"),
        ("cuda12-ctypes-pynvjitlink", "0.16.0", "ctypes/driver"),
        ("cuda12-ctypes-pynvjitlink-forced", "0.16.0", "/"),
        ("cuda12-nvidia-pynvjitlink-off", "0.15.2", "cuda-python/driver"),
        ("cuda12-nvidia-pynvjitlink-forced", "0.15.2", "pynvjitlink/nvjitlink"),
        ("cuda13-nvidia", "0.30.4", "cuda-core/nvjitlink"),
    ],
)
def test_the_linker_of_a_cell(name, release, linker):
    rule = M.rule(M.environment(name).axes, release)
    assert f"{rule.linker}/{rule.engine}" == linker
    assert bool(rule.error) == (linker == "/")


@pytest.mark.parametrize("environment, release", CELLS, ids=IDS)
def test_a_linker_is_chosen_in_releases_that_have_it(environment, release):
    rule = M.rule(environment.axes, release.version)
    assert not rule.linker or within(release.version, M.linkers[rule.linker].releases)


def test_all_five_linkers_are_chosen_somewhere():
    assert {M.rule(e.axes, r.version).linker for e, r in CELLS} - {""} == set(M.linkers)


@pytest.mark.parametrize("kind", ["device", "recording"])
@pytest.mark.parametrize("environment, release", CELLS, ids=IDS)
def test_every_scenario_has_an_expectation(environment, release, kind):
    cell = cells.describe(M, environment, release, Driver(kind, environment.driver, "9.0"), Path("results"))
    silent = []
    concerned = [s for s in catalogue().values() if within(release.version, s.releases)]
    # Where numba.cuda itself must not import there is no linker, and every scenario is skipped.
    for scenario in concerned if cell.expected.linker else []:
        try:
            expectation.of(scenario, cell)
        except SuiteError as error:
            silent.append(str(error))
    assert not silent


def test_every_scenario_needs_a_feature_that_some_linker_has():
    offered = set().union(*(engine.features() for engine in ENGINES))
    explained = {feature for failure in M.failures.values() for feature in failure.features}
    for scenario in catalogue().values():
        assert set(scenario.needs) <= offered | explained, scenario.id
        assert not scenario.fails or scenario.fails in M.failures, scenario.id


def test_sources_are_links():
    tables = [*M.rules, *M.linkers.values(), *ENGINES]
    tables += [o for failure in M.failures.values() for o in failure.outcomes]
    assert [t for t in tables if not t.source.startswith("https://")] == []


# Deviations


def _shown(deviation) -> str:
    return f"{deviation.scenario} {deviation.releases} {json.dumps(deviation.when)} {deviation.reason}"


def test_a_deviation_concerns_a_scenario_and_a_cell_that_exist():
    known = [ENVIRONMENT, *catalogue()]
    for d in M.deviations:
        assert fnmatch.filter(known, d.scenario), f"no scenario: {_shown(d)}"
        concerned = [
            r for e, r in CELLS if within(r.version, d.releases) and matrices.matches(e.axes, d.when)
        ]
        assert concerned, f"no cell: {_shown(d)}"


def test_a_deviation_is_reported_or_has_its_page():
    for d in M.deviations:
        assert d.reason, _shown(d)
        if d.upstream == "unreported":
            assert (ROOT / "docs" / "findings" / f"{d.finding}.md").is_file(), _shown(d)


# Locks

NEEDED = locks.requirements(M)


def _pins(name: str) -> dict[str, list[Requirement]]:
    """The requirements of a lock by name, several where they differ between Pythons."""
    text = (LOCKS / f"{name}.txt").read_text()
    lines = [line.split("\\")[0] for line in text.splitlines() if re.match("[a-zA-Z0-9]", line)]
    pins: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, lines):
        pins.setdefault(requirement.name, []).append(requirement)
    return pins


def test_every_lock_that_is_needed_exists_and_no_other():
    assert {path.stem for path in LOCKS.iterdir()} == set(NEEDED)
    assert {M.lock(e, r).stem for e, r in CELLS} <= set(NEEDED)


@pytest.mark.parametrize("environment, release", CELLS, ids=IDS)
def test_a_lock_pins_the_release_that_it_is_named_for(environment, release):
    pins = _pins(M.lock(environment, release).stem)
    assert [str(p.specifier) for p in pins["numba-cuda"]] == [f"=={release.version}"]


@pytest.mark.parametrize("name", NEEDED)
def test_a_lock_satisfies_what_the_matrices_ask_for(name):
    packages, constraints = NEEDED[name]
    pins = _pins(name)
    for wanted in map(Requirement, packages):
        assert wanted.name in pins, wanted
    for wanted in map(Requirement, [*packages, *constraints]):
        for pin in pins.get(wanted.name, []):
            version = str(pin.specifier).removeprefix("==")
            assert wanted.specifier.contains(version, prereleases=True), (wanted, pin)


@pytest.mark.parametrize("name", NEEDED)
def test_a_lock_has_hashes_and_exact_versions_and_names_no_host(name):
    text = (LOCKS / f"{name}.txt").read_text()
    assert not re.search(r"://|--(extra-)?index|--find-links|@ ", text)
    whole = re.sub(r"\\\n\s*", "", text)  # one line for each requirement
    for line in filter(lambda line: line and not line.startswith("#"), whole.splitlines()):
        assert re.match(r"[\w.-]+==[\w.+!]+ ?(;|--hash)", line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line


# Toolchains


def test_every_environment_has_a_toolchain_of_its_cuda_major():
    for e in M.environments.values():
        assert M.toolchains[e.toolchain].version.startswith(f"{e.cuda_major}."), e.name
        assert M.toolchains[e.toolchain].version == e.driver, "products must load on the driver"


@pytest.mark.parametrize("name", M.toolchains)
def test_compute_capabilities_are_in_order_and_have_the_devices_of_the_suite(name):
    capabilities = M.toolchains[name].compute_capabilities
    assert capabilities == sorted(capabilities, key=lambda c: tuple(map(int, c.split("."))))
    assert {"7.5", "8.0", "9.0"} <= set(capabilities)


# Sessions


def _nox(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_there_is_a_session_for_each_environment_with_title_and_tags():
    done = _nox("-l", "--json", "-t", "cuda11", "cuda12", "cuda13")
    listed = json.loads(done.stdout)
    assert {s["session"]: (s["description"], s["tags"]) for s in listed} == {
        e.name: (e.title, e.tags) for e in M.environments.values()
    }


def test_a_tag_selects_its_environments():
    listed = json.loads(_nox("-l", "--json", "-t", "mvc").stdout)
    assert {s["session"] for s in listed} == {"cuda11-ctypes-mvc", "cuda11-nvidia-mvc"}


def test_nox_lists_the_other_sessions_too():
    said = _nox("-l").stdout
    for session in [*M.environments, "environments", "lock", "tests"]:
        assert re.search(rf"^[-*] {session} (\[.*\] )?-> \S", said, re.M), session


# Bad matrices


@pytest.fixture
def bad(tmp_path):
    """The real matrices in a folder of their own, to be spoilt."""
    folder = tmp_path / "matrices"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("locks"))
    return Bad(folder)


class Bad:
    def __init__(self, folder: Path):
        self.folder = folder

    def replace(self, file: str, old: str, new: str) -> None:
        """Replace a text where it stands first; it must be there."""
        path = self.folder / f"{file}.toml"
        text = path.read_text()
        assert old in text, f"{file}.toml has no {old!r} any more: mend this test"
        path.write_text(text.replace(old, new, 1))

    def append(self, file: str, text: str) -> None:
        with (self.folder / f"{file}.toml").open("a") as whole:
            whole.write("\n" + text + "\n")

    def faults(self) -> list[str]:
        """The lines of the one error that loading gives."""
        with pytest.raises(SuiteError) as caught:
            matrices.load(self.folder)
        first, *faults = str(caught.value).split("\n  ")
        assert first == "the matrices have faults:"
        return faults


# A fault: the file, what is replaced by what, and what the one line about it says.
REPLACED = {
    "unknown key": (
        "releases", 'note = "the change', 'remark = 1\nnote = "the change',
        "releases.toml: release.1.remark: no such key (got 1)",
    ),
    "unknown key in an axis": (
        "environments", 'suffix = "mvc"', 'suffix = "mvc"\nsufix = "m"',
        "environments.toml: axes.mvc.on.sufix: no such key (got 'm')",
    ),
    "wrong type": (
        "linkers", 'class_name = "MVCLinker"', "class_name = 3",
        "linkers.toml: linkers.mvc.class_name: Input should be a valid string (got 3)",
    ),
    "no coercion": (
        "linkers", "emulated = true", 'emulated = "yes"',
        "linkers.toml: linkers.ctypes.engines.driver.emulated: Input should be a valid boolean (got 'yes')",
    ),
    "missing key": (
        "linkers", 'class_name = "MVCLinker"\n', "",
        "linkers.toml: linkers.mvc.class_name: missing",
    ),
    "invalid TOML": (
        "selection", "[[rule]]", "[[rule",
        r"selection.toml: not TOML \(.*line \d+.*\)",
    ),
    "invalid specifier of a rule": (
        "selection", 'releases = "<0.16"', 'releases = "0.16 and older"',
        "selection.toml: old-no-driver: releases: '0.16 and older' is not a version specifier",
    ),
    "invalid specifier of a linker": (
        "linkers", 'releases = "<0.20"', 'releases = "<<0.20"',
        "linkers.toml: mvc: releases: '<<0.20' is not a version specifier",
    ),
    "invalid specifier of what cannot exist": (
        "environments", 'releases = "<0.19"', 'releases = "=0.19"',
        r"environments.toml: impossible.3: releases: '=0.19' is not a version specifier",
    ),
    "bad version": (
        "releases", 'version = "0.16.0"', 'version = "sixteen"',
        "releases.toml: release.1: version: 'sixteen' is not a version",
    ),
    "release twice": (
        "releases", 'version = "0.16.0"', 'version = "0.15.2"',
        "releases.toml: release: 0.15.2 stands there twice",
    ),
    "bad pin": (
        "releases", "numba==0.61.2", "numba equals 0.61.2",
        "releases.toml: 0.15.2: pins: 'numba equals 0.61.2' is not a requirement",
    ),
    "unknown axis of a rule": (
        "selection", 'mvc = "1", mvc-packages = "both" }', 'mcv = "1" }',
        "selection.toml: old-mvc: when.mcv: no such axis; known: cuda, driver, binding, .*",
    ),
    "unknown axis of what cannot exist": (
        "environments", 'when = { cuda = "cuda13" }', 'when = { kuda = "cuda13" }',
        "environments.toml: impossible.3: when.kuda: no such axis; known: cuda, binding, pynvjitlink, mvc",
    ),
    "unknown value": (
        "selection", 'mvc = "1", mvc-packages = "both" }', 'mvc = "maybe" }',
        "selection.toml: old-mvc: when.mvc: no value 'maybe'; known: unset, 1",
    ),
    "unknown linker of a rule": (
        "selection", 'linker = "ctypes"', 'linker = "ctype"',
        "selection.toml: old-ctypes: linker: no linker 'ctype'",
    ),
    "unknown replacement": (
        "linkers", 'replaced_by = "cuda-core"', 'replaced_by = "cuda-kernel"',
        "linkers.toml: ctypes: replaced_by: no linker 'cuda-kernel'",
    ),
    "unknown linker of a failure": (
        "failures", 'linkers = ["ctypes", "cuda-python", "mvc"]', 'linkers = ["ctypes", "cuda-pyton", "mvc"]',
        "failures.toml: lto-unavailable.outcomes.0: linkers: no linker 'cuda-pyton'",
    ),
    "unknown engine": (
        "selection", 'engine = "cubinlinker"', 'engine = "nvjitlink"',
        "selection.toml: old-mvc: engine: mvc has no engine 'nvjitlink'",
    ),
    "linker without engine": (
        "selection", 'engine = "cubinlinker"\n', "",
        "selection.toml: old-mvc: give either a linker with its engine or an error",
    ),
    "linker and error": (
        "selection", "error = {", 'linker = "ctypes"\nengine = "driver"\nerror = {',
        "selection.toml: no-bindings: give either a linker with its engine or an error",
    ),
    "doubled rule": (
        "selection", 'id = "old-nvidia"', 'id = "old-ctypes"',
        "selection.toml: rule: two rules are called old-ctypes",
    ),
    "unknown kind": (
        "linkers", 'inputs.memory = ["cu"]', 'inputs.memory = ["cuh"]',
        "linkers.toml: mvc: engines.cubinlinker.inputs.memory: no such word: 'cuh'; known: ptx, cu, .*",
    ),
    "unknown place": (
        "linkers", 'inputs.memory = ["cu"]', 'inputs.memroy = ["cu"]',
        "linkers.toml: mvc: engines.cubinlinker.inputs: no such word: 'memroy'; known: path, memory",
    ),
    "unknown feature": (
        "failures", '"input:ptx:memory"', '"input:ptx:ram"',
        "failures.toml: memory-unsupported: features: no such feature: 'input:ptx:ram'",
    ),
    "unknown phase": (
        "failures", 'phase = ["construct", "configure"]', 'phase = ["constrict", "configure"]',
        "failures.toml: lto-unavailable.outcomes.0: error.phase: no such word: 'constrict'; .*",
    ),
    "bad pattern": (
        "failures", 'message = "Don\'t know how to link"', 'message = "(Don\'t know"',
        r"""failures.toml: kind-unsupported.outcomes.\d: error.message: "\(Don't know" is not a regular .*""",
    ),
    "unknown toolchain": (
        "environments", 'toolchain = "cu13"', 'toolchain = "cu14"',
        "environments.toml: axes.cuda.cuda13: toolchain: no toolchain 'cu14'; known: cu11, cu12, cu13",
    ),
    "no driver version": (
        "environments", 'driver = "13.0"\n', "",
        "environments.toml: axes.cuda.cuda13: driver: '' is not of the form 12.9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", REPLACED)
def test_a_fault_is_one_line_with_file_table_and_key(bad, fault):
    file, old, new, line = REPLACED[fault]
    bad.replace(file, old, new)
    [said] = bad.faults()
    assert said == line or re.fullmatch(line, said)


DEVIATION = """
[[deviation]]
scenario = "x/y"
outcome = { kind = "value" }
upstream = "unreported"
reason = "for this test"
finding = "page"
"""
DEVIATIONS = {
    "axis": ("finding", 'when = { cud = "cuda12" }\nfinding', "when.cud: no such axis; known: cuda, .*"),
    "value": ("finding", 'when = { cuda = ["cuda9"] }\nfinding', "when.cuda: no value 'cuda9'; known: .*"),
    "specifier": ("finding", 'releases = "x"\nfinding', "releases: 'x' is not a version specifier"),
    "outcome": ('kind = "value"', 'tpye = "E"', "outcome: no such word: 'tpye'; known: .*"),
    "kind": ('kind = "value"', 'kind = "valu"', "outcome.kind: no such word: 'valu'; known: .*"),
    "phase": ('kind = "value"', 'phase = "end"', "outcome.phase: no such word: 'end'; known: .*"),
    "message": ('kind = "value"', 'message = "("', r"outcome.message: '\(' is not a regular expression"),
    "expected": ("finding", 'expected = "valu"\nfinding', "expected: no such word: 'valu'; known: .*"),
    "driver": ("finding", 'drivers = ["real"]\nfinding', "drivers: no such word: 'real'; known: .*"),
    "upstream": ('"unreported"', '"somewhere"', "upstream: give a link, or `unreported`"),
    "finding": ('finding = "page"', "", "finding: missing for what is unreported"),
}


@pytest.mark.parametrize("fault", DEVIATIONS)
def test_a_fault_of_a_deviation(bad, fault):
    old, new, line = DEVIATIONS[fault]
    assert old in DEVIATION
    bad.append("deviations", DEVIATION.replace(old, new))
    [said] = bad.faults()
    assert re.fullmatch(f"deviations.toml: x/y: {line}", said)


def test_two_rules_that_cover_a_cell(bad):
    pynvjitlink = 'when = { driver = ["12.0", "12.9", "13.0"], pynvjitlink = "present", enable = ["unset", "1"] }'
    bad.replace("selection", pynvjitlink, "when = {}")
    faults = bad.faults()
    assert all(f.startswith("selection.toml: exactly one rule must cover") for f in faults)
    assert any(f.endswith("but: old-pynvjitlink, old-mvc") for f in faults)


def test_a_cell_without_a_rule(bad):
    bad.replace("selection", 'when = { mvc = "unset", binding = "0" }', 'when = { mvc = "unset", binding = "0", enable = "0" }')
    faults = bad.faults()
    assert [f for f in faults if not f.endswith("at 0.15.2, but: none")] == []
    assert len(faults) == 2, "CUDA 11 and 12 with the ctypes binding"


def test_a_linker_that_the_release_lacks(bad):
    bad.replace("linkers", 'releases = "<0.20"', 'releases = "<0.18"')
    assert bad.faults() == [
        f"selection.toml: mvc: linker: mvc is not in 0.18.1, which cuda11-{binding}-mvc has (linkers.toml)"
        for binding in ("ctypes", "nvidia")
    ]


def test_a_doubled_name(bad):
    bad.replace("environments", 'suffix = "pynvjitlink-off"', 'suffix = "pynvjitlink"')
    assert bad.faults() == [
        f"environments.toml: axes: two environments are called cuda12-{binding}-pynvjitlink"
        for binding in ("ctypes", "nvidia")
    ]


def test_a_missing_file(bad):
    (bad.folder / "deviations.toml").unlink()
    assert bad.faults() == ["deviations.toml: cannot be read (No such file or directory)"]


def test_a_file_that_is_not_text(bad):
    (bad.folder / "deviations.toml").write_bytes(b"\xff\xfe\x00")
    [said] = bad.faults()
    assert said.startswith("deviations.toml: not TOML (")


def test_all_faults_of_all_files_come_together(bad):
    """Those that a file shows by itself and those between files, whichever of them cannot be read."""
    expected = []
    for fault in ("unknown key", "wrong type", "unknown value", "unknown feature", "no driver version"):
        file, old, new, line = REPLACED[fault]
        bad.replace(file, old, new)
        expected.append(line)
    bad.replace("selection", 'id = "old-nvidia"', 'id = "old-ctypes"')
    expected.append("selection.toml: rule: two rules are called old-ctypes")
    bad.append("deviations", DEVIATION.replace("finding", 'when = { cuda = "cuda9" }\nfinding'))
    expected.append("deviations.toml: x/y: when.cuda: no value 'cuda9'; known: cuda11, cuda12, cuda13")
    (bad.folder / "toolchains.toml").write_text("[")
    found = bad.faults()
    [broken] = [f for f in found if f.startswith("toolchains.toml: not TOML")]
    assert sorted(found) == sorted([*expected, broken])


def test_several_faults_of_one_file(bad):
    bad.replace("linkers", 'class_name = "MVCLinker"', "class_name = 3")
    bad.replace("linkers", 'class_name = "PyNvJitLinker"', 'tittle = "PyNvJitLinker"')
    assert sorted(bad.faults()) == [
        "linkers.toml: linkers.mvc.class_name: Input should be a valid string (got 3)",
        "linkers.toml: linkers.pynvjitlink.class_name: missing",
        "linkers.toml: linkers.pynvjitlink.tittle: no such key (got 'PyNvJitLinker')",
    ]


def test_faulty_matrices_end_nox_with_all_of_them(bad):
    """The noxfile prints them in place of a traceback."""
    bad.replace("releases", 'version = "0.16.0"', 'version = "sixteen"')
    script = (
        "import conformance.matrices as m, pathlib, runpy\n"
        f"m.load.__wrapped__.__defaults__ = (pathlib.Path({str(bad.folder)!r}),)\n"
        f"runpy.run_path({str(ROOT / 'noxfile.py')!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "releases.toml: release.1: version: 'sixteen' is not a version" in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_names_list_the_known():
    with pytest.raises(SuiteError, match="no environment is called 'cuda14'; known: cuda11-ctypes, "):
        M.environment("cuda14")
    with pytest.raises(SuiteError, match="no release is called '1'; known: 0.15.2, .*0.30.4"):
        M.release("1")
