"""What was seen in a deviation's words: as narrow as it reads well, and found in the text that it is of."""

from __future__ import annotations

import re

import pytest

from conformance.described import globs, outcome, pattern

KNOWN = ["a/one-ptx", "a/one-cu", "a/two-ptx", "a/two-cu", "b/one-ptx"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("killed by SIGSEGV", "killed by SIGSEGV"),
        ("\n 7 \nline 9: a[0] + (b|c)? failed.", r"line [0-9]+: a\[[0-9]+\] \+ \(b\|c\)\? failed\."),
        ("at 0xbeef in <tmp>/x.ptx, of 3", r"at 0x\S+ in \S+ of [0-9]+"),
        ("", ""),
    ],
)
def test_a_pattern_is_found_in_its_text(text, wanted):
    assert pattern(text) == wanted
    assert re.search(wanted, text)


def test_a_pattern_leaves_out_what_changes_and_the_rest_of_a_long_text():
    assert re.search(pattern("line 9 of 0xaa"), "error: line 10 of 0xffff")
    long = "word " * 40
    assert len(pattern(long)) < 100 and re.search(pattern(long), long)


@pytest.mark.parametrize(
    ("scenarios", "wanted"),
    [
        (KNOWN, ["*"]),
        (KNOWN[:4], ["a/*"]),
        (KNOWN[:2], ["a/one-*"]),
        (["a/one-ptx", "a/two-ptx"], ["a/one-ptx", "a/two-ptx"]),
        (["a/one-ptx", "a/two-ptx", "a/two-cu"], ["a/one-ptx", "a/two-*"]),
        ([], []),
    ],
)
def test_globs_match_what_they_must_and_nothing_else(scenarios, wanted):
    assert globs(scenarios, KNOWN) == wanted


def test_a_value_with_an_unexpected_warning_is_told_by_the_warning():
    seen = {"outcome": {"kind": "value", "phase": "verify"}, "warnings": [{"category": "W", "message": "fine"}, {"category": "W", "message": "beware"}]}
    assert outcome(seen, ["unexpected W: beware"]) == {"kind": "value", "warning": "beware"}
    assert outcome(seen, ["no error, where LinkerError is expected"]) == {"kind": "value"}
