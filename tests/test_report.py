"""report: what the page and the other forms say of records that are made up, also damaged and hostile ones."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import html5lib
import jsonschema
import pytest
from made_up import IMAGE, error, value, write

from conformance import evidence, matrices
from conformance.compare import as_json as compare_json
from conformance.compare import compare
from conformance.errors import SuiteError
from conformance.report import command, findings, migration, page, times
from conformance.report.annotations import as_annotations
from conformance.report.collect import collect
from conformance.report.document import SCHEMA_FILE, document
from conformance.report.junit import as_junit
from conformance.report.markdown import as_markdown
from conformance.report.pack import pack
from conformance.scenario import catalogue
from conformance.selectors import Place

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> | `@team` \x00 \u2028 \ud800 %0A::error::x"
MANY = list(catalogue())[:30]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch, tmp_path):
    """What a test writes is all there is."""
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence")


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def report(results):
    return collect(matrices.load(), results)


def fill(results, **new) -> None:
    """An old linker's run and one of what replaces it, alike but for one scenario."""
    old = [value(s) for s in MANY] + [error()]
    other = [value(s, milliseconds={"complete": 8.0}, linker="_Linker", engine="nvjitlink") for s in MANY]
    write(results, "cuda12-ctypes", "0.20.1", old)
    write(results, "cuda12-nvidia", "0.20.1", [*other[:-1], value(MANY[-1], **new), error()])


class TestVerdict:
    @pytest.mark.parametrize(
        ("observations", "changes", "word", "says"),
        [
            ([value()], {}, "success", ""),
            ([value(status="deviates", reason="known (unreported)")], {}, "success", ""),
            ([value(status="skipped", outcome=None, evidence=None, reason="needs a device")], {}, "partial", "1 skipped: needs a device"),
            ([value()], {"footer": False}, "partial", "did not finish"),
            ([value()], {"suite": "old"}, "partial", "stale"),
            ([value()], {"lock": "x@000000000000"}, "partial", "another lock"),
            ([], {}, "partial", "no scenario"),
            ([value(status="differs", reason="wrong")], {}, "failure", "1 differ"),
            ([value(status="unstable", reason="3 times gave")], {}, "failure", "1 unstable"),
            ([value()], {"schema": 9}, "failure", "damaged"),
        ],
    )
    def test_words(self, results, observations, changes, word, says):
        write(results, "cuda12-ctypes", "0.20.1", observations, **changes)
        [column] = report(results).columns
        assert column.verdict.word == word
        assert says in "; ".join(column.verdict.reasons)

    def test_what_does_not_concern_a_release_leaves_nothing_unsaid(self, results):
        one = next(s for s in catalogue().values() if s.releases == ">=0.27")
        skipped = value(one.id, status="skipped", outcome=None, evidence=None, reason="concerns numba-cuda >=0.27 only")
        write(results, "cuda12-nvidia", "0.20.1", [value(), skipped])
        write(results, "cuda12-nvidia", "0.30.4", [value(), skipped])
        assert [c.verdict.word for c in report(results).columns] == ["success", "partial"]

    def test_the_core_profile_has_its_own(self, results):
        wrong = value("lto/x", profile="extended", status="differs", reason="wrong")
        write(results, "cuda12-ctypes", "0.20.1", [value(), wrong])
        [column] = report(results).columns
        assert (column.verdict.word, column.core.word) == ("failure", "success")


class TestSources:
    def test_nothing_at_all_is_an_error_that_says_what_to_run(self, results):
        with pytest.raises(SuiteError, match="nox -s cuda12-ctypes"):
            report(results)

    def test_a_kept_device_run_stands_beside_a_recording_one(self, results, tmp_path):
        write(results, "cuda12-ctypes", "0.20.1", [value(evidence="emulated")], driver={"kind": "recording", "version": "12.9"}, device=None)
        write(tmp_path / "evidence" / "h200", "cuda12-ctypes", "0.20.1", [value()])
        found = report(results)
        assert [(c.name, c.driver) for c in found.columns] == [
            ("cuda12-ctypes@0.20.1", "recording"),
            ("cuda12-ctypes@0.20.1 (h200)", "device"),
        ]
        assert "kept in evidence/h200" in found.about()

    def test_an_own_device_run_needs_no_kept_one(self, results, tmp_path):
        write(results, "cuda12-ctypes", "0.20.1", [value()])
        write(tmp_path / "evidence" / "h200", "cuda12-ctypes", "0.20.1", [value()])
        assert [c.source for c in report(results).columns] == ["results"]

    def test_without_results_the_kept_ones_are_what_it_is_about(self, results, tmp_path):
        write(tmp_path / "evidence" / "h200", "cuda12-ctypes", "0.20.1", [value(status="differs", reason="wrong")])
        found = report(results)
        assert found.verdict == "failure" and found.about().startswith("results/ has no records")

    def test_a_run_of_some_scenarios_is_no_run_of_a_cell(self, results):
        write(results, "cuda12-ctypes", "0.20.1", [value()])
        (results / "cuda12-ctypes" / "0.18.1.partial.jsonl").write_text("{}", encoding="utf-8")
        assert [c.release for c in report(results).columns] == ["0.20.1"]

    def test_a_candidate_is_a_column_with_the_release_that_it_behaves_as(self, results):
        candidate = {"name": "candidate-0.31.0", "base": "0.30.4", "packages": {"numba-cuda": {"kind": "version", "version": "0.31.0"}}}
        path = write(results, "cuda12-nvidia", "0.30.4", [value()], candidate=candidate)
        path.rename(path.with_name("candidate-0.31.0.jsonl"))
        [column] = report(results).columns
        assert (column.release, column.base, column.linker) == ("candidate-0.31.0", "0.30.4", "cuda-core")
        assert column.reproduce == "nox -s cuda12-nvidia -- --release 0.30.4 --with numba-cuda==0.31.0 --driver device"


def test_the_page_s_differences_are_those_of_compare(results):
    fill(results, outcome={"kind": "error", "phase": "complete", "type": "nvJitLinkError", "bases": ["x.nvJitLinkError"], "message": "m", "digest": None}, image=None)
    found = report(results)
    packed = pack(found)
    shown = []
    a, b = packed["columns"]
    for i, s in enumerate(packed["scenarios"]):
        n = round(len(s["between"]) ** 0.5)
        for d, detail in packed["sets"][s["between"][a["facts"][i] * n + b["facts"][i]]]:
            weight, kind, text = packed["differences"][d]
            shown.append((s["id"], weight, kind, text, packed["strings"][detail]))
    places = [Place(c.environment.name, c.release, c.run.path) for c in found.columns]
    [whole] = json.loads(compare_json([compare(*places)]))
    expected = [(d["scenario"], d["weight"], d["kind"], d["text"], d["detail"]) for d in whole["differences"] if d["weight"] != "cosmetic"]
    assert shown and sorted(shown) == sorted(expected)


def test_what_was_seen_can_be_read_back_from_the_page_s_data(results):
    fill(results, status="differs", reason="wrong", warnings=[{"category": "UserWarning", "message": "beware"}])
    packed = pack(report(results))
    row = [s["id"] for s in packed["scenarios"]].index(MANY[-1])
    words = [packed["strings"][n] for n in packed["seen"][packed["columns"][1]["rows"][row]]]
    assert words[0] == "differs" and "UserWarning: beware" in words and "wrong" in words
    assert packed["columns"][0]["ms"][row] == 400


def test_link_times_are_compared_scenario_by_scenario(results):
    fill(results)
    [found] = [t for t in times.times(report(results)) if t.linker == "ctypes"]
    assert (found.old.name, found.new.name) == ("cuda12-ctypes@0.20.1", "cuda12-nvidia@0.20.1")
    assert len(found.before) == len(MANY) and found.alike
    assert found.row("before") == [4.0] * 3 and found.row("after")[1] == 8.0 and found.row("ratios")[1] == 2.0


def test_the_migration_is_what_the_matrices_say_until_it_was_seen(tmp_path):
    m = matrices.load()
    table = migration.migration(m, tmp_path)
    usual = table["configurations"].index("all as usual")
    says = {r: table["outcomes"][numbers[usual]] for r, numbers in table["known"].items()}
    assert says["0.15.2"] == "CudaPythonLinker" and says["0.30.4"] == "_Linker over nvjitlink"
    assert not table["seen"]
    seen = value("selection/all as usual", linker="_Linker", engine="nvjitlink", configuration=m.decisions.usual)
    path = tmp_path / "selection" / "0.30.4.jsonl"
    path.parent.mkdir()
    lines = [{"kind": "header", "schema": 1}, {"kind": "observation", **seen}, {"kind": "footer", "counts": {"conforms": 1}}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    table = migration.migration(m, tmp_path)
    assert table["outcomes"][table["seen"]["0.30.4"][usual]] == "_Linker over nvjitlink"
    assert table["seen"]["0.30.4"].count(-1) == len(table["configurations"]) - 1


def test_known_differences_count_what_shows_them(results):
    one = next(d for d in matrices.load().deviations if d.scenario == "chains/on-a-device-function")
    write(results, "cuda12-ctypes", "0.20.1", [value(one.scenario, status="deviates", reason=f"{one.reason} ({one.upstream})")])
    known = findings.known(report(results))
    assert [(k.seen, k.columns) for k in known if k.what == one.scenario] == [(1, ["cuda12-ctypes@0.20.1"])]
    assert sum(k.seen for k in known) == 1


class TestForms:
    def test_the_json_form_is_what_its_schema_says(self, results):
        fill(results, status="differs", reason="wrong")
        write(results, "cuda11-ctypes", "0.18.1", [value(status="skipped", outcome=None, evidence=None, reason="x")], footer=False)
        said = json.loads(json.dumps(document(report(results))))
        schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(said, schema, cls=jsonschema.Draft202012Validator)
        for key in list(said):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({k: v for k, v in said.items() if k != key}, schema)
        assert said["verdict"] == "failure" and len(said["runs"]) == 3

    def test_junit_names_environment_and_release_in_every_case(self, results):
        fill(results, status="differs", reason=HOSTILE)
        write(results, "cuda11-ctypes", "0.18.1", [value(status="skipped", outcome=None, reason="x")], footer=False)
        root = ET.fromstring(as_junit(report(results)))
        cases = root.findall("testsuite/testcase")
        assert all(c.get("classname") in c.get("name") and "@" in c.get("classname") for c in cases)
        assert len({c.get("name") for c in cases}) == len(cases)
        assert [s.get("failures") for s in root] == ["0", "0", "1"]
        assert [s.get("errors") for s in root] == ["1", "0", "0"]
        assert "nox -s cuda12-nvidia -- --release 0.20.1" in root.find("testsuite/testcase/failure").text

    def test_annotations_stay_on_their_lines_and_within_what_github_shows(self, results):
        write(results, "cuda12-ctypes", "0.20.1", [value(s, status="differs", reason=f"{HOSTILE}\n{i}") for i, s in enumerate(MANY)])
        lines = as_annotations(report(results)).split("\n")
        assert all(re.match(r"::(error|warning|notice) title=[^:,]+::", line) for line in lines)
        assert sum(line.startswith("::error") for line in lines) == 10
        assert "21 more kinds" in lines[9]

    def test_the_summary_says_the_verdict_first_and_fits_a_screen(self, results):
        for e in list(matrices.load().environments.values())[4:]:
            for r in matrices.load().releases_of(e):
                write(results, e.name, r.version, [value(s, status="differs", reason=f"{HOSTILE}{i}") for i, s in enumerate(MANY)])
        text = as_markdown(report(results))
        assert text.startswith("## ✗ Linkers: failure")
        assert text.index("May it go?") < text.index("What differs") < text.index("To see it again")
        assert text.count("\n") < 60 and "<script" not in text and "@team" not in text

    def test_badges_say_it_in_words(self, results, tmp_path):
        fill(results)
        command.write(report(results), tmp_path / "out")
        badge = ET.fromstring((tmp_path / "out/badges/cuda-python.svg").read_bytes())
        assert badge.get("aria-label") == "cuda-python linker: ◐ not enough evidence"
        texts = [path.read_text(encoding="utf-8") for path in (tmp_path / "out/badges").iterdir()]
        # All of them in one document keep their own frames.
        assert len({re.search('clipPath id="(.*?)"', text)[1] for text in texts}) == len(texts) == 4

    def test_a_job_of_github_gets_summary_and_annotations(self, results, tmp_path, monkeypatch, capfdbinary):
        fill(results)
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
        assert command.main(["--results", str(results), "--out", str(tmp_path / "out")]) == 0
        assert (tmp_path / "summary").read_text(encoding="utf-8").startswith("## ")
        assert b"::notice title=ctypes linker::" in capfdbinary.readouterr().out

    @pytest.mark.parametrize("form", command.FORMATS)
    def test_every_form_is_printed_alone(self, results, form, capfdbinary):
        fill(results, reason=HOSTILE, status="differs")
        command.main(["--results", str(results), "--format", form])
        said = capfdbinary.readouterr().out.decode("utf-8")
        starts = {"html": "<!doctype html>", "markdown": "## ", "junit": "<?xml", "json": "{", "github": "::"}
        assert said.startswith(starts[form]) and not (results / "report").exists()

    def test_a_folder_that_cannot_be_written_is_one_clear_error(self, results, tmp_path):
        fill(results)
        (tmp_path / "file").write_text("", encoding="utf-8")
        with pytest.raises(SuiteError, match="--out"):
            command.write(report(results), tmp_path / "file")


class TestPage:
    """What can be told from the page without a browser; test_report_page.py opens it in one."""

    @pytest.fixture
    def text(self, results):
        fill(results, status="differs", reason=HOSTILE, outcome={"kind": "error", "phase": "add", "type": HOSTILE, "message": HOSTILE, "digest": None})
        return page.page(report(results))

    @pytest.fixture
    def tree(self, text):
        return html5lib.HTMLParser(namespaceHTMLElements=False).parse(text)

    def test_it_has_no_fault_that_a_parser_finds(self, text):
        parser = html5lib.HTMLParser()
        parser.parse(text.encode("utf-8", "replace").decode("utf-8"))
        # html5lib is older than `search`, `dialog` and the like, which are no faults to it either.
        assert [e for e in parser.errors if "codepoint" not in str(e)] == []

    def test_every_link_within_it_arrives(self, tree):
        ids = [e.get("id") for e in tree.iter() if e.get("id")]
        assert len(ids) == len(set(ids))
        links = [a.get("href") for a in tree.iter("a")]
        within = [x[1:] for x in links if x.startswith("#") and "=" not in x]
        assert within and set(within) <= set(ids)
        assert all(x.startswith(("#", "https://")) for x in links)

    def test_every_field_has_a_label_and_every_section_a_heading(self, tree):
        labelled = [f for label in tree.iter("label") for f in label.iter() if f.tag in ("select", "input")]
        fields = [f for f in tree.iter() if f.tag in ("select", "input")]
        assert len(labelled) == len(fields) >= 15
        ids = {e.get("id") for e in tree.iter()}
        assert all(s.get("aria-labelledby") in ids for s in tree.iter("section"))
        assert all("".join(b.itertext()).strip() for b in tree.iter("button"))
        assert all(t.get("scope") for t in tree.iter("th") if t.get("id") is None and not _in_page(tree, t))

    def test_it_loads_nothing(self, text, tree):
        assert not [e for e in tree.iter() if e.get("src") or (e.tag == "link" and e.get("href") != "data:,")]
        assert "default-src 'none'" in text and "url(" not in text and "@import" not in text

    def test_records_cannot_become_markup(self, tree):
        assert len(list(tree.iter("script"))) == 2 and not list(tree.iter("img"))
        data = json.loads("".join(next(s for s in tree.iter("script") if s.get("id") == "data").itertext()))
        assert any("</script>" in s for s in data["strings"])

    def test_reports_are_links_and_what_was_cut_is_none(self):
        text = "<b> (https://github.com/NVIDIA/numba-cuda/pull/479). https://github.com/NVIDIA/cut ..."
        said = page.linked(text)
        assert said.startswith("&lt;b&gt; (<a ") and said.count("<a ") == 1
        assert '"https://github.com/NVIDIA/numba-cuda/pull/479"' in said and ">numba-cuda/pull/479</a>). https" in said

    def test_verdicts_are_words_beside_their_colours(self, tree):
        pills = [e for e in tree.iter() if "v" in (e.get("class") or "").split()]
        assert all(re.search(r"\w", "".join(e.itertext())) or e.tag == "span" and e.tail for e in pills)

    def test_a_reader_without_a_mouse_can_skip_to_the_content(self, tree):
        first = next(tree.iter("a"))
        assert first.get("href") == "#main"


def _in_page(tree, element) -> bool:
    return any(element in list(d.iter()) for d in tree.iter("details") if d.get("class") == "page")


def test_a_page_of_a_hundred_environments_stays_small(results):
    assert len(large(results)) < 5_000_000


def large(results) -> str:
    """The page of 102 runs of 300 scenarios, with as much variety as the linkers show."""
    m = matrices.load()
    scenarios = list(catalogue())[:300]
    cells = [(e.name, r.version) for e in m.environments.values() for r in m.releases_of(e)]
    for i in range(102):
        environment, release = cells[i % len(cells)]
        kept = results if i < len(cells) else evidence.EVIDENCE / "other"
        observations = []
        for j, s in enumerate(scenarios):
            kernels = {"kernel": {**IMAGE["kernels"]["kernel"], "registers": 20 + (i * 7 + j) % 9, "code": 100 * i + j}}
            ms = {"construct": 0.1 * (i + 1), "complete": 1 + (i * j) % 97}
            changes = {"image": {**IMAGE, "kernels": kernels, "size": i * j}, "milliseconds": ms}
            if (i + j) % 11 == 0:
                observations.append(error(s, outcome={"message": f"LinkerError: {s} at {i % 13}: not found"}))
            elif (i * j) % 17 == 0:
                observations.append(value(s, status="deviates", reason=f"a known difference {j % 40} (unreported)", **changes))
            else:
                observations.append(value(s, **changes))
        driver = {"kind": "recording" if kept == results else "device", "version": "12.9"}
        write(kept, environment, release, observations, driver=driver)
    found = report(results)
    assert len(found.columns) == 102 and len(found.scenarios) == 300
    return page.page(found)
