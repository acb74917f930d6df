"""`matrices/deviations.toml` as a text: kept sorted, and changed without losing what people wrote in it."""

from __future__ import annotations

import tomllib

import pytest

from conformance import deviation_file
from conformance.errors import SuiteError
from conformance.matrices import FOLDER

FILE = FOLDER / "deviations.toml"
HEAD = "# What the file is about.\n\n"
LATER = """[[deviation]]
scenario = "lto/b"
# Why not c.
apart_from = ["lto/c"]
outcome = { kind = "value" }
reason = "r"
upstream = "https://example.org/1"
"""
EARLIER = LATER.replace("lto/b", "inputs/a").replace("[[", "# Seen by hand.\n[[", 1)


def test_the_file_is_sorted_with_a_heading_for_each_family():
    text = FILE.read_text(encoding="utf-8")
    assert deviation_file.parse(text).text == text, "sort deviations.toml by scenario, then releases"


def test_what_is_not_sorted_is_told_from_what_is():
    parsed = deviation_file.parse(HEAD + LATER + "\n" + EARLIER)
    assert [e.deviation.scenario for e in parsed.entries] == ["lto/b", "inputs/a"]
    again = deviation_file.parse(parsed.text)
    assert [e.deviation.scenario for e in again.entries] == ["inputs/a", "lto/b"]
    assert again.text == parsed.text
    assert parsed.text.startswith("# What the file is about.\n\n# -- inputs ---")


def test_comments_survive_a_change():
    entry = deviation_file.parse(HEAD + EARLIER).entries[0].changed(releases=">=0.16", reason="s")
    assert (entry.deviation.releases, entry.deviation.reason) == (">=0.16", "s")
    assert "# Seen by hand.\n[[deviation]]" in entry.text
    assert "# Why not c.\napart_from" in entry.text
    keys = list(tomllib.loads(entry.text)["deviation"][0])
    assert keys == sorted(keys, key=deviation_file.ORDER.index)
    assert entry.changed(releases="").deviation.releases == ""


def test_what_is_no_entry_is_told():
    with pytest.raises(SuiteError, match="an entry cannot be read"):
        deviation_file.parse(LATER.replace("reason", "raeson"))


def test_a_made_entry_says_what_it_was_given():
    values = {
        "scenario": "lto/b",
        "releases": ">=0.19",
        "when": {"binding": "nvidia", "cuda": ["cuda12", "cuda13"]},
        "outcome": {"kind": "error", "message": r"a 'quoted' \w+"},
        "reason": "r",
        "upstream": "unreported",
    }
    entry = deviation_file.made(**values)
    assert tomllib.loads(entry.text) == {"deviation": [values]}
    assert (entry.deviation.when, entry.deviation.outcome) == (values["when"], values["outcome"])


def test_a_pattern_is_written_as_it_is():
    assert r"message = '\[[0-9]+\] failed\.'" in deviation_file.made(
        scenario="a/b", outcome={"message": r"\[[0-9]+\] failed\."}, reason="r", upstream="unreported"
    ).text


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(SuiteError, match="absent.toml cannot be read"):
        deviation_file.read(tmp_path / "absent.toml")
