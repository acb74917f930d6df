"""Records: what is written is read again, and no fault of a file or a disk goes unsaid."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.errors import SuiteError
from conformance.paths import ROOT
from conformance.records import SCHEMA, Recorder, read

ONE = {"scenario": "a/one", "status": "conforms"}
TWO = {"scenario": "a/two", "status": "differs", "reason": "Umlaute: äöü, a line\nbreak, 字"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "environment" / "1.0.jsonl"


@pytest.fixture(autouse=True)
def recorders(monkeypatch):
    """Closes the files of recorders that wrote no footer."""
    opened = []
    original = Recorder.__init__

    def noting(self, *arguments, **options):
        original(self, *arguments, **options)
        opened.append(self)

    monkeypatch.setattr(Recorder, "__init__", noting)
    yield opened
    for recorder in opened:
        recorder._file.close()


def written(path, *observations, footer=True):
    """A recorder that has written a header and observations."""
    recorder = Recorder(path)
    recorder.header(environment="e", release="1.0")
    for observation in observations:
        recorder.observation(observation)
    if footer:
        recorder.footer()
    return recorder


def test_what_is_written_is_read(path):
    written(path, ONE, TWO)
    run = read(path)
    assert run.header == {"kind": "header", "schema": SCHEMA, "environment": "e", "release": "1.0"}
    assert [one | {"kind": "observation"} | given == one for one, given in zip(run.observations, (ONE, TWO), strict=True)]
    assert run.footer == {"kind": "footer", "counts": {"conforms": 1, "differs": 1}}
    assert (run.complete, run.fault, run.path) == (True, "", path)


def test_the_file_is_one_line_of_json_for_each_record(path):
    written(path, ONE, TWO)
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert [json.loads(line)["kind"] for line in lines] == ["header", "observation", "observation", "footer"]


@pytest.mark.parametrize("text", ["a\nb", "\u2028", "\x85", "\x0c", "\x1c", "\x00", "\ud800", '"', "\\"])
def test_any_text_is_one_line_and_comes_back(path, text):
    written(path, {**ONE, "message": f"<{text}>"})
    [observation] = read(path).observations
    assert observation["message"] == f"<{text}>"
    assert path.read_bytes().count(b"\n") == 3


def test_records_are_in_the_file_as_they_happen(path):
    recorder = written(path, ONE, footer=False)
    assert [o["scenario"] for o in read(path).observations] == ["a/one"]
    recorder.observation(TWO)
    assert [o["scenario"] for o in read(path).observations] == ["a/one", "a/two"]


def test_a_killed_process_loses_nothing_that_it_wrote(path):
    script = f"""
import os, pathlib, signal
from conformance.records import Recorder
recorder = Recorder(pathlib.Path({str(path)!r}))
recorder.header()
recorder.observation({ONE!r})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == -9
    run = read(path)
    assert ([o["scenario"] for o in run.observations], run.complete) == (["a/one"], False)


def test_a_new_recorder_begins_anew(path):
    written(path, ONE)
    written(path, TWO)
    assert [o["scenario"] for o in read(path).observations] == ["a/two"]


def test_without_a_footer_the_run_is_not_complete(path):
    written(path, ONE, footer=False)
    run = read(path)
    assert (run.complete, run.footer, run.fault) == (False, None, "")
    assert len(run.observations) == 1


def test_an_empty_file_is_not_complete(path):
    path.parent.mkdir()
    path.touch()
    run = read(path)
    assert (run.header, run.observations, run.complete) == ({}, [], False)


def test_no_file_is_an_error(path):
    with pytest.raises(SuiteError, match=r"1\.0\.jsonl cannot be read \(No such file"):
        read(path)


def test_every_cut_gives_what_stands_before_it(path):
    """Wherever a file ends, every whole line is read, and only the whole file is complete."""
    written(path, ONE, TWO)
    whole = path.read_bytes()
    for end in range(len(whole) - 1):  # without the last line end it still has every record
        path.write_bytes(whole[:end])
        run = read(path)
        lines = whole[:end].count(b"\n")
        assert not run.complete
        assert len(run.observations) in (max(lines - 1, 0), max(lines, 0))
        assert run.fault in ("", f"line {lines + 1} is not a record; the file was cut off or edited")


@pytest.mark.parametrize(
    "line", ["x", "", "{}", "[]", "3", "null", '"kind"', '{"kind": "observation"', "\xff"]
)
def test_an_edited_line_is_told_and_ends_the_reading(path, line):
    written(path, ONE, TWO)
    lines = path.read_bytes().split(b"\n")
    lines[2] = line.encode("latin-1")
    path.write_bytes(b"\n".join(lines))
    run = read(path)
    assert run.fault == "line 3 is not a record; the file was cut off or edited"
    assert ([o["scenario"] for o in run.observations], run.complete) == (["a/one"], False)


@pytest.mark.parametrize("number, text", [(1, ""), (2, '{"kind": "observation"}\n'), (2, "{line}{line}")])
def test_an_observation_that_was_edited_or_left_out_is_told(path, number, text):
    written(path, ONE, TWO)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[number] = text.replace("{line}", lines[number])
    path.write_text("".join(lines), encoding="utf-8")
    run = read(path)
    assert (run.fault, run.complete) == ("the footer counts other observations; the file was edited", False)


@pytest.mark.parametrize("schema", [SCHEMA + 1, 0, None, "1"])
def test_another_schema_is_told(path, schema):
    written(path, ONE)
    path.write_text(path.read_text(encoding="utf-8").replace(f'"schema": {SCHEMA}', f'"schema": {json.dumps(schema)}'))
    run = read(path)
    assert (run.complete, run.fault) == (
        False,
        f"schema {schema} is not {SCHEMA}: run this environment again",
    )


# Going on after a process that died


def test_resuming_appends_and_goes_on_counting(path):
    written(path, ONE, TWO, footer=False)
    recorder = Recorder(path, resume=True)
    assert recorder.counts == {"conforms": 1, "differs": 1}
    recorder.observation(ONE)
    recorder.footer()
    run = read(path)
    assert len(run.observations) == 3
    assert (run.complete, run.footer["counts"]) == (True, {"conforms": 2, "differs": 1})


def test_resuming_drops_a_line_without_its_end(path):
    written(path, ONE, footer=False)
    with path.open("a") as file:
        file.write('{"kind": "observation", "scenario": "a/cut", "st')
    recorder = Recorder(path, resume=True)
    recorder.observation(TWO)
    recorder.footer()
    run = read(path)
    assert ([o["scenario"] for o in run.observations], run.complete) == (["a/one", "a/two"], True)


def test_resuming_where_there_is_nothing_is_an_error(path):
    with pytest.raises(SuiteError, match="No such file"):
        Recorder(path, resume=True)


# Disks


@pytest.mark.parametrize("folder", ["/proc/environment", "/dev/null/environment"])
def test_a_folder_that_cannot_be_made(folder):
    with pytest.raises(
        SuiteError, match=r"cannot be written \(.+\); .* choose another folder with --results"
    ):
        Recorder(Path(folder, "1.0.jsonl"))


def test_a_file_that_must_not_be_written(path):
    """Seen by a user without root's rights, who may enter the folder."""
    script = f"""
import os, pathlib
from conformance.records import Recorder
os.chdir({str(path.parent)!r})
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
Recorder(pathlib.Path({path.name!r}))
"""
    written(path, ONE)
    path.chmod(0o400)
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert "cannot be written (Permission denied)" in done.stderr
    assert read(path).complete


def test_a_folder_in_the_files_place(path):
    path.mkdir(parents=True)
    with pytest.raises(SuiteError, match=r"cannot be written \(Is a directory\)"):
        Recorder(path)


def test_a_full_disk_is_one_clear_error(path):
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    recorder = Recorder(path)
    with pytest.raises(
        SuiteError, match=r"\(No space left on device\); what it holds already is kept: make room"
    ):
        recorder.header()


def test_a_disk_that_fills_up_keeps_what_there_was(path):
    """With room for a header and one observation, under a limit that a process can set itself."""
    script = f"""
import pathlib, resource, signal
from conformance.records import Recorder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
recorder = Recorder(pathlib.Path({str(path)!r}))
recorder.header()
recorder.observation({ONE!r})
recorder.observation({{"scenario": "a/long", "status": "differs", "reason": "x" * 2000}})
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert "SuiteError" in done.stderr
    assert "cannot be written (File too large); what it holds already is kept" in done.stderr
    run = read(path)
    assert ([o["scenario"] for o in run.observations], run.complete) == (["a/one"], False)
