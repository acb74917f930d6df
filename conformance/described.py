"""What was seen, in the words of a deviation: an outcome's keys and patterns, and globs over scenarios."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection

# So much of a message tells what it is about.
_LONGEST = 90
# What changes from one run or input to the next, as the pattern that stands for it.
_CHANGING = [(r"<[\w-]+>\S*", r"\S+"), (r"0x[0-9a-f.]+", r"0x\S+"), (r"[0-9]+", r"[0-9]+")]


def outcome(observation: dict, reasons: list[str]) -> dict[str, str]:
    """The outcome of a deviation that covers an observation, as narrow as it can be said."""
    seen = observation["outcome"]
    if seen["kind"] == "value":
        warnings = [w["message"] for w in observation["warnings"] if any(w["message"] in r for r in reasons)]
        return {"kind": "value"} | ({"warning": pattern(warnings[0])} if warnings else {})
    what = {"type": seen["type"]} if seen["kind"] == "error" else {"kind": seen["kind"]}
    said = pattern((seen["message"] or "").removeprefix(f"{seen['type']}: "))
    return what | {"phase": seen["phase"]} | ({"message": said} if said else {})


def pattern(text: str) -> str:
    """A pattern that is found in a text: its first line that says something, without what changes."""
    line = next((line.strip() for line in text.splitlines() if re.search(r"[A-Za-z]{3}", line)), "")
    if len(line) > _LONGEST:
        line = line[:_LONGEST].rsplit(" ", 1)[0]
    return _escaped(line, _CHANGING)


def _escaped(text: str, changing: list[tuple[str, str]]) -> str:
    """A text as a pattern, with what changes put in general terms."""
    if not changing:
        return re.sub(r"[\\.^$*+?{}\[\]|()]", r"\\\g<0>", text)
    (what, general), *others = changing
    return general.join(_escaped(part, others) for part in re.split(what, text))


def globs(scenarios: Collection[str], known: Collection[str]) -> list[str]:
    """Few globs that match these scenarios and none of the others that are known."""
    found, left = [], sorted(scenarios)
    while left:
        ends = [i + 1 for i, letter in enumerate(left[0]) if letter in "/-"]
        options = ["*", *(left[0][:end] + "*" for end in ends)]
        matching = {glob: fnmatch.filter(known, glob) for glob in options}
        fitting = [glob for glob, ids in matching.items() if len(ids) > 1 and set(ids) <= set(scenarios)]
        found.append(fitting[0] if fitting else left[0])
        left = [s for s in left if not fnmatch.fnmatchcase(s, found[-1])]
    return found

