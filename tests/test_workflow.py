"""The jobs of a CI service, the workflows that run them, and the same on one machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from conformance import jobs, matrices, together
from conformance.errors import SuiteError
from conformance.paths import ROOT
from conformance.run import parser as cell_parser

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CONFORMANCE = ROOT / ".github" / "workflows" / "conformance.yml"


def tool(name: str) -> str:
    return shutil.which(name, path=sysconfig.get_path("scripts")) or name


def load(path: Path) -> dict:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


class TestJobs:
    def test_they_are_the_whole_matrix(self):
        m = matrices.load()
        found = jobs.jobs(m, [], [], "release", {"recording": "x"})
        cells = {(e.name, f"--release {r.version}") for e in m.environments.values() for r in m.releases_of(e)}
        assert {(j["environment"], j["releases"]) for j in found} == cells and len(found) == len(cells)
        whole = jobs.jobs(m, [], [], "environment", {"recording": "x"})
        assert [j["environment"] for j in whole] == list(m.environments)

    def test_names_artifacts_and_drivers_are_told_apart(self):
        found = jobs.jobs(matrices.load(), [], [], "release", {"recording": "a", "device": "b"})
        for key in ("name", "artifact"):
            assert len({j[key] for j in found}) == len(found)
        assert all(j["artifact"].startswith(f"records-{j['driver']}-") for j in found)
        # What GitHub refuses in the name of an artifact.
        assert not any(re.search(r'["<>|*?:\\/\r\n]', j["artifact"]) for j in found)

    @pytest.mark.parametrize(
        ("names", "releases", "environments"),
        [
            (["cuda13"], [], ["cuda13-ctypes", "cuda13-nvidia"]),
            (["mvc"], [], ["cuda11-ctypes-mvc", "cuda11-nvidia-mvc"]),
            (["cuda12-n*-off"], [], ["cuda12-nvidia-pynvjitlink-off"]),
            (["cuda13"], ["newest"], ["cuda13-nvidia"]),
        ],
    )
    def test_globs_tags_and_releases_choose(self, names, releases, environments):
        found = jobs.jobs(matrices.load(), names, releases, "environment", {"recording": "x"})
        assert [j["environment"] for j in found] == environments

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [(["nope"], "nox -s environments"), (["cuda11", "--release", "newest"], "no job"), (["--runner", "gpu=x"], "known: recording, device")],
    )
    def test_what_cannot_be_is_one_clear_error(self, arguments, says):
        with pytest.raises(SuiteError, match=says):
            jobs.main(arguments)

    def test_github_gets_one_line_that_a_session_understands(self, capsys):
        jobs.main(["cuda13", "--format", "github", "--runner", "recording=x", "--runner", "device="])
        key, _, value = capsys.readouterr().out.partition("=")
        assert key == "matrix"
        for job in json.loads(value)["include"]:
            options = cell_parser().parse_args([job["environment"], *job["releases"].split(), "--driver", job["driver"]])
            assert options.release


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
class TestWorkflow:
    def test_it_is_what_the_schema_of_workflows_says(self, path):
        done = subprocess.run([tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", path], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_a_linter_finds_nothing(self, path):
        command = [tool("zizmor"), "--offline", "--no-progress", "--min-severity", "medium", path]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_a_linter_would_find_something(self, path, tmp_path):
        """That the one above can fail: the same file with an action by its tag and an input within a script."""
        text = path.read_text(encoding="utf-8")
        loose = re.sub(r"actions/checkout@\w+", "actions/checkout@v7", text)
        copy = tmp_path / path.name
        copy.write_text(loose, encoding="utf-8")
        done = subprocess.run([tool("zizmor"), "--offline", "--no-progress", "--min-severity", "medium", copy], check=False, capture_output=True, text=True)
        assert done.returncode and "unpinned-uses" in done.stdout

    def test_actions_are_pinned_by_commit_and_say_their_version(self, path):
        uses = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if re.match(r"\s*(- )?uses:", line)]
        assert uses
        for line in uses:
            assert re.search(r"uses: (\./|[\w./-]+@[0-9a-f]{40} # v[\d.]+$)", line), line

    def test_it_may_read_and_no_more_and_wants_no_secret(self, path):
        workflow = load(path)
        assert workflow["permissions"] == {}
        assert all(job["permissions"] == {"contents": "read"} for job in workflow["jobs"].values())
        assert "secrets" not in path.read_text(encoding="utf-8")
        assert all("timeout-minutes" in job or "uses" in job for job in workflow["jobs"].values())

    def test_no_environment_is_written_where_the_suite_could_say_it(self, path):
        if path == CONFORMANCE:
            text = path.read_text(encoding="utf-8")
            assert not [e for e in matrices.load().environments if e in text]
        else:
            asked = load(path)["jobs"]["conformance"]["with"]["environments"].split()
            assert set(asked) <= set(matrices.load().environments)


class TestScripts:
    """The scripts within the workflow, run as a runner does, with a nox that says how it was called."""

    @pytest.fixture
    def script(self, tmp_path):
        fake = tmp_path / "bin" / "nox"
        fake.parent.mkdir()
        fake.write_text('#!/bin/sh\nfor a in "$@"; do printf "<%s>" "$a"; done; echo\n[ "$5" != blocked ]\n', encoding="utf-8")
        fake.chmod(0o755)
        steps = {(job, s.get("name") or s.get("id")): s for job, j in load(CONFORMANCE)["jobs"].items() for s in j["steps"]}

        def run(job, step, **variables):
            path = f"{fake.parent}:{os.environ['PATH']}"
            out = tmp_path / "output"
            environment = {**os.environ, "PATH": path, "GITHUB_OUTPUT": str(out), **variables}
            assert set(variables) == set(steps[job, step]["env"])
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[job, step]["run"]]
            return subprocess.run(command, check=False, env=environment, capture_output=True, text=True, cwd=ROOT)

        return run

    def test_which_cells(self, script):
        done = script("matrix", "matrix", ENVIRONMENTS="cuda12-* mvc", RELEASES="0.18.1 newest", RUNNER="ubuntu", GPU_RUNNER="")
        words = re.findall("<(.*?)>", done.stdout)
        assert words == ["-s", "matrix", "--", "cuda12-*", "mvc", "--release=0.18.1", "--release=newest", "--format", "github", "--runner", "recording=ubuntu", "--runner", "device="]
        assert jobs.parser().parse_args(words[3:]).names == ["cuda12-*", "mvc"]
        nothing = script("matrix", "matrix", ENVIRONMENTS="", RELEASES="", RUNNER="u", GPU_RUNNER="g")
        assert re.findall("<(.*?)>", nothing.stdout)[3] == "--format"

    @pytest.mark.parametrize("candidate", ["", ".candidate/wheel/*.whl", "0.31.0; rm -rf /"])
    def test_a_cell(self, script, candidate):
        done = script("cells", "run the cells", ENVIRONMENT="cuda12-nvidia", RELEASES="--release 0.30.4", DRIVER="device", CANDIDATE=candidate)
        words = re.findall("<(.*?)>", done.stdout)
        assert words == ["-s", "cuda12-nvidia", "--", "--release", "0.30.4", "--driver", "device", *(["--numba-cuda", candidate] if candidate else [])]
        assert cell_parser().parse_args(["cuda12-nvidia", *words[3:]]).numba_cuda == candidate

    @pytest.mark.parametrize(("gate", "cells", "code"), [("", "success", 0), ("fine", "success", 0), ("fine blocked", "success", 1), ("", "failure", 1)])
    def test_the_gate(self, script, gate, cells, code):
        # The fake nox fails where its fifth word, the linker, is `blocked`.
        done = script("report", "the gate", GATE=gate, CELLS=cells)
        wanted = ["-s", "gate", "--", "--remove"]
        assert [re.findall("<(.*?)>", line)[:4] for line in done.stdout.splitlines() if line.startswith("<")] == [wanted] * len(gate.split())
        assert done.returncode == code


class TestTogether:
    def test_cells_are_run_and_told_one_by_one(self, tmp_path):
        todo = together.cells_of(matrices.load(), ["cuda13-nvidia"], ["0.22.2", "newest"])
        said = []
        assert together.run(todo, 2, tmp_path, ["--help"], said.append) == 0
        assert [line[:8] for line in said] == ["[1 of 2]", "[2 of 2]"]
        assert "usage:" in (tmp_path / "logs/cuda13-nvidia@0.22.2.log").read_text(encoding="utf-8")

    def test_a_cell_that_fails_is_counted_and_its_log_named(self, tmp_path):
        todo = together.cells_of(matrices.load(), ["cuda13-nvidia"], ["newest"])
        said = []
        assert together.run(todo, 1, tmp_path, ["--python=2.7"], said.append) == 1
        assert "not as expected: logs/cuda13-nvidia@0.30.4.log" in said[0]

    def test_a_log_gets_lines_and_no_moving_line(self, tmp_path):
        command = [sys.executable, "-m", "conformance.together", "cuda13-nvidia", "--release", "newest", "--python", "2.7", "--results", tmp_path]
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 1
        assert "\r" not in done.stdout + done.stderr and done.stdout.count("\n") == 2

    def test_the_moving_line_says_how_far_it_is(self, tmp_path):
        todo = [together.Job("cuda13-nvidia", r, *times) for r, times in (("0.19.2", (10, 40)), ("0.20.1", (40, 0, 1)), ("0.22.2", ()), ("0.30.4", ()))]
        (tmp_path / "cuda13-nvidia").mkdir()
        (tmp_path / "cuda13-nvidia" / "0.20.1.jsonl").write_text("header\n1\n2\n", encoding="utf-8")
        line = together.Progress(todo, 2, tmp_path).line(now=50)
        assert line == "1 of 4 cells done; about 40 s left; running: cuda13-nvidia@0.20.1 2 scenarios"

    def test_a_record_of_an_earlier_run_is_not_counted(self, tmp_path):
        job = together.Job("cuda13-nvidia", "0.20.1", 1, 0, since=9e12)
        (tmp_path / "cuda13-nvidia").mkdir()
        (tmp_path / "cuda13-nvidia" / "0.20.1.jsonl").write_text("header\n1\n", encoding="utf-8")
        assert "running: cuda13-nvidia@0.20.1 0 scenarios" in together.Progress([job], 1, tmp_path).line(2)

    @pytest.mark.parametrize(
        ("arguments", "names", "forwarded"),
        [
            (["cuda12", "--driver", "recording", "-j", "2"], ["cuda12"], ["--driver=recording"]),
            (["-k", "ltoir and cu", "cuda12", "mvc"], ["cuda12", "mvc"], ["-kltoir and cu"]),
            (["--numba-cuda", "0.31.0", "--scenario", "lto/x"], [], ["--numba-cuda=0.31.0", "--scenario=lto/x"]),
        ],
    )
    def test_a_cell_s_options_keep_their_values(self, arguments, names, forwarded):
        options, rest = together.parser().parse_known_intermixed_args(arguments)
        assert (options.names, options.forwarded, rest) == (names, forwarded, [])
        cell_parser().parse_known_args(["cuda12-nvidia", *options.forwarded])

    def test_no_cell_at_a_time_is_an_error(self):
        with pytest.raises(SuiteError, match="-j 0"):
            together.main(["-j", "0"])
