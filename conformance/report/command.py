"""What the records say, for people and for other tools (`nox -s report`).

    nox -s report                       results/report/: index.html, summary.md, junit.xml, report.json, badges/
    nox -s report -- --format json      one of them, printed

In a job of GitHub Actions the summary and the annotations go to where GitHub shows them as well.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from conformance import matrices
from conformance.errors import SuiteError
from conformance.paths import RESULTS
from conformance.report.annotations import as_annotations
from conformance.report.badges import badges
from conformance.report.collect import Report, collect
from conformance.report.document import as_json
from conformance.report.junit import as_junit
from conformance.report.markdown import as_markdown
from conformance.report.page import page

FORMATS = {"html": page, "markdown": as_markdown, "junit": as_junit, "json": as_json, "github": as_annotations}
FILES = {"html": "index.html", "markdown": "summary.md", "junit": "junit.xml", "json": "report.json"}


def main(argv: list[str] | None = None) -> int:
    """Write or print a report; 0 once that is done, whatever it says (the gate decides)."""
    parser = argparse.ArgumentParser(prog="nox -s report --", description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of records (default: results/; kept ones of evidence/ beside them)")
    parser.add_argument("--out", type=Path, default=RESULTS / "report", help="folder for the report (default: results/report/)")
    parser.add_argument("--format", choices=FORMATS, help="print one form only, and write nothing")
    options = parser.parse_args(argv)
    report = collect(matrices.load(), options.results)
    if options.format:
        _print(FORMATS[options.format](report))
        return 0
    write(report, options.out)
    _print(as_markdown(report))
    print(f"report    {options.out / FILES['html']}")
    _tell_github(report)
    return 0


def write(report: Report, folder: Path) -> None:
    """Write every form of a report into a folder."""
    texts = {name: FORMATS[form](report) for form, name in FILES.items()}
    texts |= {f"badges/{linker}.svg": text for linker, text in badges(report).items()}
    try:
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # Half a surrogate, which a record may hold, has no UTF-8.
            path.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise SuiteError(f"{folder} cannot be written ({error.strerror}): choose another folder with --out") from error


def _print(text: str) -> None:
    """Print as UTF-8, whatever the locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "replace").rstrip(b"\n") + b"\n")
    sys.stdout.buffer.flush()


def _tell_github(report: Report) -> None:
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("ab") as file:
            file.write(as_markdown(report).encode("utf-8", "replace"))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _print(as_annotations(report))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
