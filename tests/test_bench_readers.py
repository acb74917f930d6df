"""The readers' benchmark: its records are real ones in form, and every command does its work on them."""

from __future__ import annotations

import pytest

from conformance import bench_readers, bench_records, matrices
from conformance.compare import compare_all
from conformance.errors import SuiteError
from conformance.records import read
from conformance.selectors import pairs, places


def test_made_up_records_are_complete_and_differ_here_and_there(tmp_path):
    for side in ("a", "b"):
        bench_records.year(tmp_path / side, ["cuda12-ctypes", "cuda12-nvidia"], 5, 300)
    a, b = places(tmp_path / "a"), places(tmp_path / "b")
    assert len(a) == 5
    assert all(read(p.path).complete and len(read(p.path).observations) == 300 for p in a + b)
    compared = compare_all(pairs(a, b, matrices.load()))
    assert [c.a.name for c in compared] == [c.b.name for c in compared] == [p.name for p in a]
    assert {d.kind for c in compared for _, d in c.found} == {"image", "error text", "skipped"}
    assert all(150 < c.same < 300 for c in compared)


def test_every_command_is_measured_on_what_was_made(tmp_path, capsys):
    assert bench_readers.main(["--files", "4", "--observations", "20", "--folder", str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows[1:5]] == ["compare", "history", "gate", "report"]
    assert [int(row[1]) for row in rows[1:3]] == [4, 2]
    assert all(float(cell) > 0 for row in rows[1:5] for cell in row[2:])


def test_what_cannot_be_measured_is_an_error(tmp_path):
    with pytest.raises(SuiteError, match="give at least 2 files, and observations up to the catalogue's"):
        bench_readers.main(["--files", "1"])
    with pytest.raises(SuiteError, match=r"conformance\.compare ended with 2: conformance: .* is no folder of results"):
        bench_readers.measure(["conformance.compare", f"{tmp_path}/none/", str(tmp_path)])
