"""The decision table: every pair is tried, one rule for each, and what is wrong with it is told."""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from conformance import decide, decisions, matrices, tables
from conformance.errors import SuiteError
from conformance.matrices import FOLDER
from conformance.model import SelectionDeviation
from conformance.paths import ROOT
from conformance.records import read

M = matrices.load()
D = M.decisions
TRIED = decisions.configurations(M)
RELEASES = [r.version for r in M.releases]


# What is tried


@pytest.mark.parametrize("release", RELEASES)
def test_every_pair_that_can_occur_together_occurs(release):
    possible = [pair for pair in decisions.pairs(D) if decisions.can_occur(D, pair, release)]
    assert [p for p in possible if not any(p.items() <= c.items() for c in TRIED[release])] == []


@pytest.mark.parametrize("release", RELEASES)
def test_only_what_can_occur_is_tried_and_each_once(release):
    assert [c for c in TRIED[release] if decisions.refusal(D, c, release)] == []
    assert len({json.dumps(c) for c in TRIED[release]}) == len(TRIED[release])
    assert all(list(c) == list(D.axes) for c in TRIED[release])


def test_what_is_tried_is_always_the_same():
    assert decisions.configurations(copy.deepcopy(M)) == TRIED


def test_the_named_cells_are_tried():
    named = {n.case.partition(":")[0] for n in D.named}
    assert {"C04", "C05", "C06", "C07", "C08", "C27"} <= named
    for entry in D.named:
        wanted = D.usual | {axis: values[-1] for axis, values in entry.values.items()}
        assert any(wanted in tried for tried in TRIED.values()), entry.case


def test_what_cannot_occur_says_why():
    for entry in D.impossible:
        assert len(entry.reason.split()) > 3 and entry.source.startswith("https://")


# The rules


@pytest.mark.parametrize("release", RELEASES)
def test_exactly_one_rule_covers_a_configuration(release):
    for configuration in TRIED[release]:
        rule = M.rule(configuration, release)
        assert not rule.linker or matrices.within(release, M.linkers[rule.linker].releases)


def test_every_rule_notice_and_deviation_is_used():
    used = {M.rule(c, release).id for release in RELEASES for c in TRIED[release]}
    assert used == {rule.id for rule in M.rules}
    pairs = [(M.meant(c), c, release) for release in RELEASES for c in TRIED[release]]
    for table in [*M.notices, *M.selection_deviations]:
        literally = getattr(table, "literally", False)
        assert any(M.covers(table, c if literally else meant, release) for meant, c, release in pairs), table


def test_sources_are_links():
    assert [t for t in [*M.rules, *M.notices, *D.same] if not t.source.startswith("https://")] == []


def test_a_deviation_is_reported_or_has_its_page():
    for d in M.selection_deviations:
        page = ROOT / "docs" / "findings" / f"{d.finding}.md"
        assert page.is_file() if d.upstream == "unreported" else d.upstream.startswith("https://"), d.reason


@pytest.mark.parametrize("environment", M.environments.values(), ids=lambda e: e.name)
def test_an_environment_lies_where_its_settings_and_packages_put_it(environment):
    configuration = M.configuration(environment.axes)
    settings = [f"NUMBA_{name}" for name in D.settings.values()]
    said = {name: value for name, value in environment.settings.items() if name in settings}
    assert decisions.variables(D, configuration) == said
    assert configuration["driver"] == environment.driver
    installed = any("pynvjitlink" in p for p in environment.packages)
    assert (configuration["pynvjitlink"] == "present") == installed
    assert (configuration["mvc-packages"] == "both") == any("cubinlinker" in p for p in environment.packages)


# What a configuration is for a process


@pytest.mark.parametrize(
    "text, variables, config",
    [
        ("binding=0", {"NUMBA_CUDA_USE_NVIDIA_BINDING": "0"}, {}),
        ("binding=1 through=config", {}, {"CUDA_USE_NVIDIA_BINDING": True}),
        ("enable=1 through=both", {"NUMBA_CUDA_ENABLE_PYNVJITLINK": "1"}, {"CUDA_ENABLE_PYNVJITLINK": True}),
        ("enable=0 through=opposed", {"NUMBA_CUDA_ENABLE_PYNVJITLINK": "1"}, {"CUDA_ENABLE_PYNVJITLINK": 0}),
        ("enable=1 through=none", {"NUMBA_CUDA_ENABLE_PYNVJITLINK": "1"}, {"CUDA_ENABLE_PYNVJITLINK": None}),
        ("mvc=1 spelling=upper", {"NUMBA_CUDA_ENABLE_MINOR_VERSION_COMPATIBILITY": "TRUE"}, {}),
    ],
)
def test_settings(text, variables, config):
    configuration = decisions.parse(D, text)
    assert decisions.variables(D, configuration) == variables
    assert decisions.config(D, configuration) == config
    assert decisions.title(D, configuration) == text


def test_unknown_words_list_the_known():
    with pytest.raises(SuiteError, match="driver=11: no such value; known: 12.9, 11.8, "):
        decisions.parse(D, "driver=11")
    with pytest.raises(SuiteError, match="drive=11.8: no such axis; known: cuda, driver, "):
        decisions.parse(D, "drive=11.8")


def test_a_hidden_package_is_not_found():
    from conformance.probe import Without

    finders = [Without(finder, ["email"]) for finder in sys.meta_path]
    assert [f.find_spec("email", None) for f in finders] == [None] * len(finders)
    assert [f.find_spec("email.mime", None) for f in finders] == [None] * len(finders)
    assert any(f.find_spec("json", None) for f in finders)


# Judging


def _answer(linker: str = "_Linker", engine: str = "nvJitLink", warnings: tuple = (), **outcome) -> dict:
    whole = {"kind": "value", "phase": "load", "type": "", "message": "", **outcome}
    return {"outcome": whole, "linker": linker, "engine": engine, "warnings": list(warnings)}


NEEDLESS = {"category": "UserWarning", "message": "Explicitly enabling pynvjitlink is no longer necessary."}


@pytest.mark.parametrize(
    "text, release, answer, status, reason",
    [
        ("", "0.18.1", _answer(), "conforms", ""),
        ("", "0.18.1", _answer("CtypesLinker", ""), "differs", "linked by CtypesLinker instead of _Linker"),
        ("", "0.18.1", _answer(engine="driver"), "differs", "linked with driver instead of nvjitlink"),
        ("", "0.18.1", _answer(warnings=[NEEDLESS]), "differs", "unexpected UserWarning"),
        ("", "0.18.1", _answer("", kind="crash", message="killed"), "differs", "crash in phase"),
        ("enable=1", "0.18.1", _answer(warnings=[NEEDLESS]), "conforms", ""),
        ("enable=1", "0.18.1", _answer(warnings=[NEEDLESS] * 2), "differs", "came 2 times"),
        ("pynvjitlink=present", "0.18.1", _answer(warnings=[NEEDLESS]), "deviates", "merely installed"),
        ("pynvjitlink=present", "0.18.1", _answer(), "differs", "strike it out"),
        ("enable=1", "0.30.4", _answer(), "deviates", "ignored in silence since 0.21.0"),
        ("enable=1", "0.30.4", _answer(warnings=[NEEDLESS]), "differs", "strike it out"),
        ("enable=1", "0.30.4", _answer("CtypesLinker", ""), "differs", "linked by CtypesLinker"),
    ],
)
def test_an_answer_is_judged(text, release, answer, status, reason):
    judged = decide.judge(M, decisions.parse(D, text), release, answer)
    assert (judged.status, reason in judged.reason) == (status, True), judged.reason


def test_a_deviation_that_shows_nowhere_is_told(capsys):
    idle = SelectionDeviation({"driver": "12.9"}, "https://x", "does nothing", "==0.18.1")
    m = dataclasses.replace(M, selection_deviations=[*M.selection_deviations, idle])
    everything_else = set(range(len(M.selection_deviations)))
    assert decide._report_idle(m, m.release("0.18.1"), everything_else) == 1
    assert "no configuration shows 'does nothing': strike it out" in capsys.readouterr().out
    assert decide._report_idle(m, m.release("0.16.0"), everything_else) == 0


# Bad tables


def _spoilt(tmp_path: Path, file: str, old: str, new: str) -> str:
    folder = tmp_path / "matrices"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("locks"))
    spoilt = folder / f"{file}.toml"
    text = spoilt.read_text()
    assert old in text, f"{spoilt.name} has no {old!r} any more: mend this test"
    spoilt.write_text(text.replace(old, new, 1))
    try:
        m = matrices.load(folder)
        for release, tried in TRIED.items():
            for configuration in tried:
                m.rule(configuration, release)
    except SuiteError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "file, old, new, said",
    [
        # no rule, two rules
        ("selection", '"11.8", mvc = "1", mvc-packages = "both"', '"12.0", mvc = "1"', "0.15.2, but: none"),
        ("selection", '["bindings-required", "no-driver"]', "[]", "but: no-driver, one-linker"),
        # names that there are not
        ("selection", 'unless = ["no-bindings"]', 'unless = ["nobindings"]', "unless: no rule 'nobindings'"),
        ("selection", 'when = { driver = "none" }', 'when = { river = "none" }', "when.river: no such axis"),
        ("decisions", 'instead = { enable = "0" }', 'instead = { enable = "2" }', "enable: no value '2'"),
        ("decisions", 'lto = ["unset", "true"]', "lto = []", "axes.lto: there are no values"),
        ("decisions", "12.2.140", "twelve", "'nvidia-nvjitlink-cu12==twelve' is not a requirement"),
        ("environments", 'decides = { binding = "0"', 'decides = { bindin = "0"', "bindin: no such axis"),
        ("selection-deviations", 'finding = "mvc-beside-nvjitlink"', "", "finding: missing"),
        ("selection-deviations", 'releases = "<0.16"', 'releases = "old"', "not a version specifier"),
    ],
)
def test_a_fault_of_the_tables_is_told(tmp_path, file, old, new, said):
    assert said in _spoilt(tmp_path, file, old, new)


def test_from_without_to():
    with pytest.raises(SuiteError, match="--from and --to belong together"):
        decide.main(["--from", "0.15.2"])
    with pytest.raises(SuiteError, match="--names wants --from and --to"):
        decide.main(["--names"])


# On real packages: a sample. The whole is `nox -s selection`.

SAMPLE = {
    "0.15.2": ["mvc=1", "pynvjitlink=present", "cuda=cuda11 driver=11.8 nvjitlink=missing mvc=1 lto=true"],
    "0.18.1": ["pynvjitlink=present binding=0 enable=1", "nvjitlink=missing", "binding=1 bindings=no-cuda"],
    "0.20.1": ["binding=1 through=config", "binding=0 enable=1 spelling=upper", "driver=none lto=true"],
    "0.30.4": ["nvjitlink=too-old", "binding=0 bindings=no-bindings", "cuda=cuda13 driver=13.0 lto=true"],
}


@pytest.mark.parametrize("release", SAMPLE)
def test_a_forked_answer_is_that_of_a_process_of_its_own(release):
    python = Path(sys.executable)
    for text in SAMPLE[release]:
        configuration = decisions.parse(D, text)
        place = decide.place_of(configuration, release)
        forked, separate = (decide.ask(M, place, [configuration], python, way) for way in (False, True))
        assert forked == separate, text
        assert decide.judge(M, configuration, release, forked[0]).status in ("conforms", "deviates"), text


# The tables that are printed


@pytest.fixture
def runs(tmp_path):
    """Records of two releases, made up."""

    def record(release: str, answers: dict[str, dict], names: dict[str, str]):
        said = {json.dumps(decisions.parse(D, text)): answer for text, answer in answers.items()}
        decide._record(M, M.release(release), said, names, tmp_path)
        return read(decide.file_of(tmp_path, release))

    same = {"": _answer(), "lto=true": _answer()}
    ctypes = {"binding=0": _answer("CtypesLinker", "")}
    before = record("0.16.0", {**same, **ctypes}, {"Linker": "a()", "MVCLinker": "b()"})
    after = record("0.30.4", {**same, "binding=0": _answer()}, {"Linker": "a(cc)"})
    return before, after


@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_what_changed_is_named(runs, form):
    said = tables.changes(M, *runs, form)
    assert "0.16.0 -> 0.30.4: 1 of 3 configurations changed" in said
    assert "CtypesLinker" in said and "_Linker over nvJitLink" in said and "binding=0 lto=unset" in said
    names = tables.names(M, *runs, form)
    assert "2 of 2 names changed" in names and "MVCLinker" in names and "a(cc)" in names


def test_a_table_of_one_release_has_every_configuration(runs):
    said = tables.table(M, runs[0], "terminal")
    assert "3 configurations" in said and "all as usual\n" in said + "\n" and "binding=0 lto=unset" in said


def test_counts_are_in_words():
    assert tables.counts(Counter(conforms=3, differs=1, _stale=2)) == "3 conforms, 1 differs"
