"""JUnit XML: a suite for each run; environment and release are part of every name, so that no two are taken for one."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from conformance.report.collect import Column, Report

# Characters that XML 1.0 does not admit, escaped or not.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(report: Report) -> str:
    """The runs that the report is about as one document."""
    root = ET.Element("testsuites", name="numba-cuda linkers")
    for column in report.own:
        root.append(_suite(column))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(c: Column) -> ET.Element:
    cases = [_case(c, o) for o in c.run.observations] + _broken(c)
    suite = ET.Element("testsuite", name=c.name, tests=str(len(cases)))
    for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _case(c: Column, o: dict) -> ET.Element:
    seconds = sum(o["milliseconds"].values()) / 1000
    case = _named(c, o["scenario"], f"{seconds:.3f}")
    reason = _clean(o["reason"])
    if o["status"] in ("differs", "unstable"):
        failure = ET.SubElement(case, "failure", type=o["status"], message=reason)
        failure.text = f"{reason}\nagain: {c.reproduce} --scenario {o['scenario']}"
    elif o["status"] == "skipped":
        ET.SubElement(case, "skipped", message=reason)
    elif o["status"] == "deviates":
        ET.SubElement(case, "system-out").text = f"a known difference: {reason}"
    return case


def _broken(c: Column) -> list[ET.Element]:
    """A case that fails where a run did not come to its end, lest its lack of failures is taken for a success."""
    if c.run.complete:
        return []
    case = _named(c, "the run comes to its end", "0")
    message = _clean(c.run.fault) or "the run did not finish (no footer)"
    ET.SubElement(case, "error", type="incomplete", message=message).text = f"{message}\nagain: {c.reproduce}"
    return [case]


def _named(c: Column, scenario: str, seconds: str) -> ET.Element:
    return ET.Element("testcase", classname=c.name, name=f"{scenario} [{c.name}]", time=seconds)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text or "")
