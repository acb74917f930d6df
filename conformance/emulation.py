"""Does the recording driver show what a device shows? (`nox -s emulation`)

Compares the recording driver's records in results/ with the kept ones of a device, scenario by scenario: the
same outcome and, where both linked, the same image. What it cannot show, by design or by its library:

- whether a launch works, and the values: an outcome there ends at the load;
- the size of an image that the driver's own linker makes: nvJitLink pads otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from conformance.errors import SuiteError
from conformance.evidence import folders
from conformance.paths import RESULTS
from conformance.selectors import places

_SIZES = ("size",)


def disagreement(recorded: dict, launched: dict) -> str:
    """In what a recording driver's observation of a scenario contradicts a device's, or ""."""
    if "skipped" in (recorded["status"], launched["status"]):
        return ""
    ours, theirs = recorded["outcome"], launched["outcome"]
    if (ours["kind"], ours["type"]) != (theirs["kind"], theirs["type"]):
        return f"{ours['type'] or ours['kind']} where a device has {theirs['type'] or theirs['kind']}"
    if ours["kind"] == "error" and ours["phase"] != theirs["phase"]:
        return f"phase {ours['phase']} where a device has {theirs['phase']}"
    if recorded["linker"] != launched["linker"]:
        return f"{recorded['linker']} where a device has {launched['linker']}"
    return _image(recorded["image"], launched["image"])


def _image(ours: dict | None, theirs: dict | None) -> str:
    if (ours is None) != (theirs is None):
        return "an image on one side only"
    facts = [name for name in ours or {} if name not in _SIZES and ours[name] != theirs.get(name)]
    return ", ".join(f"{name}: {ours[name]} where a device has {theirs.get(name)}" for name in facts)


def compare(results: Path, kept: Path) -> tuple[int, dict[str, list[str]]]:
    """How many observations were compared, and every disagreement with its scenarios."""
    theirs = {place.name: place for place in places(kept)}
    compared, found = 0, defaultdict(list)
    for place in places(results):
        run = place.read()
        if place.name not in theirs or (run.header.get("driver") or {}).get("kind") != "recording":
            continue
        launched = {o["scenario"]: o for o in theirs[place.name].read().observations}
        for o in run.observations:
            if o["scenario"] in launched:
                compared += 1
                what = disagreement(o, launched[o["scenario"]])
                if what:
                    found[what].append(f"{place.name} {o['scenario']}")
    return compared, found


def main(argv: list[str] | None = None) -> int:
    """Print the disagreements; 0 where there are none."""
    parser = argparse.ArgumentParser(prog="nox -s emulation --", description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="records of the recording driver")
    options = parser.parse_args(argv)
    if not folders():
        raise SuiteError("there are no kept records of a device (evidence/)")
    compared, found = compare(options.results, folders()[-1])
    if not compared:
        raise SuiteError(f"{options.results} has no records of a recording driver: nox -s cuda12-ctypes -- --driver recording")
    for what, where in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"{len(where):>4}  {what}\n      {', '.join(where[:3])}{' ...' if len(where) > 3 else ''}")
    print(f"{compared} observations compared with {folders()[-1].name}, {sum(map(len, found.values()))} disagree")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SuiteError as error:
        sys.exit(f"conformance: {error}")
