"""The word that a process leaves of what it is at: always the last one, whole, and gone at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from conformance.last_word import LastWord
from conformance.paths import ROOT


@pytest.fixture
def word(tmp_path):
    one = LastWord(tmp_path / "word")
    yield one
    one.end()


def _read(word) -> dict:
    return json.loads(word.path.read_text(encoding="utf-8"))


def test_the_last_word_is_what_is_read_also_after_a_longer_one(word):
    for scenario, phase in (("a/one", "configure"), ("a/one-with-a-long-name", "construct"), ("b", "add")):
        word.leave(scenario, phase, 1.5)
        assert _read(word) == {"scenario": scenario, "phase": phase, "since": 1.5}
    assert word.path.stat().st_size < 200


def test_a_word_of_a_process_before_is_written_over(word):
    word.path.write_text("x" * 500, encoding="utf-8")
    word.leave("a/one", "add", 0)
    assert _read(word)["scenario"] == "a/one"


def test_taken_back_there_is_none_and_then_another(word):
    word.take_back()
    word.leave("a/one", "add", 0)
    word.take_back()
    assert word.path.read_bytes() == b""
    word.leave("b", "add", 0)
    assert _read(word)["scenario"] == "b"
    word.end()
    assert not word.path.exists()
    word.end()


def test_it_is_there_once_the_process_is_not(word):
    script = f"""
import os, pathlib, signal
from conformance.last_word import LastWord
LastWord(pathlib.Path({str(word.path)!r})).leave("a/one", "complete", 1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)
    assert (done.returncode, _read(word)["phase"]) == (-signal.SIGKILL, "complete")


def test_where_it_cannot_be_written_nothing_happens(tmp_path):
    word = LastWord(tmp_path / "none" / "word")
    word.leave("a/one", "add", 0)
    word.take_back()
    word.end()
    full = LastWord(tmp_path / "full")
    os.symlink("/dev/full", full.path)
    full.leave("a/one", "add", 0)
    full.end()
