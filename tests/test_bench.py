"""The linkers' benchmark: its cases, its numbers from made-up links, and a tiny real run."""

from __future__ import annotations

import json

import pytest

from conformance import bench, cells, matrices
from conformance.bench_inside import STEPS
from conformance.bench_links import SUFFIXES, Case
from conformance.errors import SuiteError
from conformance.model import Driver
from conformance.products import BASIC_KINDS

M = matrices.load()


def _cases(environment: str, release: str) -> list[Case]:
    of = M.environment(environment)
    return list(bench.cases(cells.describe(M, of, M.release(release), Driver("recording", of.driver, "9.0"), "none")))


def _link(*times: float) -> dict[str, float]:
    return dict(zip(STEPS, times, strict=True))


def test_the_kinds_files_are_named_as_they_are_built():
    assert SUFFIXES == BASIC_KINDS


def test_each_linker_is_given_what_it_takes_and_lto_where_that_matters():
    old, new = _cases("cuda12-ctypes", "0.20.1"), _cases("cuda12-nvidia", "0.20.1")
    assert {c.kind for c in new} - {c.kind for c in old} == {"ltoir"}
    assert not any(c.lto for c in old)
    assert {c.kind for c in new if c.lto} == {"cu", "ltoir"}
    assert all(c.lto for c in new if c.kind == "ltoir")
    assert {(c.functions, c.inputs) for c in new} == {(1, 1), (10, 1), (100, 1), (1, 10), (1, 100)}
    assert {c.kind for c in _cases("cuda11-ctypes-mvc", "0.18.1")} == {"ptx", "cu", "cubin", "fatbin"}


def test_the_first_link_is_no_part_of_the_medians():
    links = [_link(9, 9, 9, 9), _link(1, 2, 3, 4), _link(1, 2, 5, 4)]
    assert bench.later(links, "complete") == [3, 5]
    assert bench.later(links) == [10, 12]


def test_the_ratio_is_to_the_first_cell():
    def one(linker, links):
        facts = {"process": {"import": 1.0}, "linker": linker, "driver": {"kind": "recording"}, "launch": {}}
        return {**facts, "cases": {"ptx 1x1": links, **({"ltoir+lto 1x1": links} if linker == "New" else {})}}

    old, new = [_link(9, 9, 9, 9), *[_link(1, 1, 1, 1)] * 3], [_link(9, 9, 9, 9), *[_link(2, 2, 2, 2)] * 3]
    lines = bench.table({"a@1": one("Old", old), "b@1": one("New", new)})
    rows = [line.split() for line in lines if "1x1" in line]
    assert [row[-1] for row in rows] == ["1.00", "2.00", "-"]
    assert [row[-3] for row in rows] == ["4.00", "8.00", "8.00"]


def test_without_a_release_it_is_the_newest_that_all_have():
    def newest(*names):
        return {release.version for _, release in bench._places(M, list(names), [])}

    assert newest("cuda12-ctypes", "cuda12-nvidia") == {"0.20.1"}
    assert newest("cuda12-nvidia") == {M.releases_of(M.environment("cuda12-nvidia"))[-1].version}


def test_environments_without_a_common_release_are_an_error_that_names_the_mend():
    with pytest.raises(SuiteError, match="no release has all of cuda11-nvidia, cuda13-nvidia: say which with --release"):
        bench._places(M, ["cuda11-nvidia", "cuda13-nvidia"], [])
    with pytest.raises(SuiteError, match="none of cuda13-nvidia exists at 0.15.2"):
        bench._places(M, ["cuda13-nvidia"], ["0.15.2"])
    with pytest.raises(SuiteError, match="--repeat: .* give at least 2"):
        bench.main(["cuda12-nvidia", "--repeat", "1"])


def test_a_real_run_times_every_step_of_every_case(tmp_path, capsys):
    arguments = ["--driver", "recording", "--kind", "cubin", "--repeat", "2", "--results", str(tmp_path)]
    assert bench.main(["cuda12-ctypes", *arguments]) == 0
    kept = json.loads((tmp_path / "bench" / "cuda12-ctypes" / "0.20.1.json").read_text(encoding="utf-8"))
    assert kept["linker"] == "CtypesLinker"
    assert list(kept["cases"]) == [f"cubin {size}" for size in ("1x1", "10x1", "100x1", "1x10", "1x100")]
    for links in kept["cases"].values():
        assert len(links) == 2
        assert all(set(link) == set(STEPS) and min(link.values()) > 0 for link in links)
    assert kept["launch"] == {}
    assert "CtypesLinker  recording driver" in capsys.readouterr().out
