"""The bundle: what is packed comes back, each content once; damage is one clear error. No environment is built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from conformance import bundle, matrices
from conformance.errors import SuiteError
from conformance.paths import ROOT

VERSION = "%d.%d" % sys.version_info[:2]
# Stands for the harness's interpreter: says what it was asked to do, and fails for one release.
FAKE = """#!/bin/sh
echo "$@" in "$PWD" with "$CONFORMANCE_CACHE"
case "$*" in *0.16.0*) exit 1;; esac
"""


@pytest.fixture
def made(tmp_path):
    """A bundle of a few files, with a stand-in for the harness's interpreter."""
    source, folder = tmp_path / "source", tmp_path / "bundle"
    (source / "bin").mkdir(parents=True)
    folder.mkdir()
    (source / "pyvenv.cfg").write_text("home = /elsewhere/bin\nversion = 3\n")
    (source / "bin" / "python").symlink_to("/elsewhere/bin/python")
    (source / "random").write_bytes(os.urandom(200_000))
    shutil.copy(source / "random", source / "twin")
    names = [*(p for p in sorted(source.rglob("*")) if p.is_symlink() or p.is_file())]
    files = [(f"cache/environments/harness-1/{p.relative_to(source)}", p) for p in names]
    files.append(("suite/README.md", ROOT / "README.md"))
    parts = bundle.pack(files, folder, 90_000, 2)
    cells = [["cuda12-ctypes", "0.15.2"], ["cuda12-ctypes", "0.16.0"], ["cuda12-nvidia", "0.15.2"]]
    manifest = {"python": VERSION, "source": "abc", "suite": "def", "cells": cells, "parts": parts}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    shutil.copy(ROOT / "conformance" / "bundled_run.py", folder / "run")
    return folder


def run(folder, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, folder / "run", *arguments], capture_output=True, text=True)


def unpacked(folder):
    """Unpack by a run that fails for lack of a real interpreter, and put the stand-in there."""
    run(folder)
    python = folder / "unpacked/cache/environments/harness-1/bin/python"
    python.unlink()
    python.write_text(FAKE)
    python.chmod(0o755)
    return folder / "unpacked"


def test_what_is_packed_comes_back(made, tmp_path):
    home = unpacked(made) / "cache/environments/harness-1"
    assert (home / "random").read_bytes() == (tmp_path / "source/random").read_bytes()
    assert (home / "twin").read_bytes() == (home / "random").read_bytes()
    assert (made / "unpacked/suite/README.md").read_text() == (ROOT / "README.md").read_text()
    assert (made / "unpacked/suite/REVISION").read_text() == "abc"


def test_a_content_is_stored_once_and_no_part_is_too_large(made):
    parts = json.loads((made / "manifest.json").read_text())["parts"]
    assert len(parts) > 2 and all(p["size"] <= 90_000 for p in parts)
    assert sum(p["size"] for p in parts) < 300_000


def test_environments_are_pointed_at_this_interpreter(made):
    run(made)
    home = made / "unpacked/cache/environments/harness-1"
    assert (home / "bin/python").resolve() == (home / "bin/python").readlink()
    assert "/elsewhere" not in (home / "pyvenv.cfg").read_text()


def test_cells_run_and_failures_are_named(made):
    unpacked(made)
    done = run(made, "cuda12-ctypes", "-j", "2", "--", "-k", "ltoir")
    assert done.returncode == 1
    assert "cuda12-ctypes@0.15.2: ok" in done.stdout and "cuda12-ctypes@0.16.0: FAILED, see " in done.stdout
    assert "1 of 2 cells as expected" in done.stdout
    log = (made / "results/logs/cuda12-ctypes@0.15.2.log").read_text()
    assert "conformance.run cuda12-ctypes --release 0.15.2" in log and "-k ltoir in" in log


def test_one_cell_can_be_asked_for(made):
    unpacked(made)
    done = run(made, "cuda12-nvidia@0.15.2")
    assert done.returncode == 0 and "1 of 1 cells as expected" in done.stdout


def _damage(folder):
    data = bytearray((folder / "part.01").read_bytes())
    data[500] ^= 1
    (folder / "part.01").write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_damage, "part.01"),
        (lambda f: (f / "part.01").unlink(), "part.01 is missing"),
        (lambda f: (f / "part.01").write_bytes(b""), "part.01"),
        (lambda f: (f / "manifest.json").unlink(), "manifest.json cannot be read"),
        (lambda f: (f / "manifest.json").write_text("{"), "manifest.json cannot be read"),
        (
            lambda f: (f / "manifest.json").write_text((f / "manifest.json").read_text().replace(VERSION, "3.7")),
            "for CPython 3.7",
        ),
    ],
    ids=["flipped bit", "missing part", "empty part", "no manifest", "cut manifest", "another Python"],
)
def test_what_is_damaged_is_one_clear_error(made, spoil, says):
    spoil(made)
    done = run(made)
    assert done.returncode != 0 and says in done.stderr and "Traceback" not in done.stderr
    assert not (made / "unpacked/complete").exists()


def test_a_mended_part_is_taken(made):
    good = (made / "part.01").read_bytes()
    _damage(made)
    run(made)
    (made / "part.01").write_bytes(good)
    unpacked(made)
    assert run(made, "cuda12-nvidia").returncode == 0


def test_what_the_bundle_does_not_have_is_said(made):
    done = run(made, "cuda13-ctypes")
    assert done.returncode != 0 and "not in this bundle: cuda13-ctypes" in done.stderr


def test_names_and_tags_choose():
    m = matrices.load()
    assert [e.name for e in bundle.choose(m, ["cuda12-ctypes", "mvc"])] == [
        "cuda11-ctypes-mvc",
        "cuda11-nvidia-mvc",
        "cuda12-ctypes",
    ]
    assert len(bundle.choose(m, [])) == len(m.environments)
    with pytest.raises(SuiteError, match="cuda14; tags: .*cuda11"):
        bundle.choose(m, ["cuda14"])


@pytest.mark.parametrize(("text", "size"), [("58M", 58 << 20), ("900K", 900 << 10), ("2G", 2 << 30), ("17", 17)])
def test_sizes(text, size):
    assert bundle.bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "0", "M", "58MB", "-1", "many"])
def test_what_is_no_size(text):
    with pytest.raises(SuiteError, match="is no size"):
        bundle.bytes_of(text)


def test_a_folder_with_something_else_is_kept(tmp_path):
    (tmp_path / "mine").write_text("")
    with pytest.raises(SuiteError, match="holds something else"):
        bundle._prepare(tmp_path)
    assert (tmp_path / "mine").exists()
