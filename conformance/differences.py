"""How one observation of a scenario differs from another: each difference with a kind and a weight."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# breaking: a program that worked stops working, or a handler no longer catches. visible: a user can
# tell. cosmetic: nobody should depend on it.
WEIGHTS = ("breaking", "visible", "cosmetic")
# Classes that say nothing about what went wrong: to catch them is to catch everything.
_CATCH_ALL = {"builtins.Exception", "builtins.BaseException", "builtins.object"}
# Facts of an image as (name, weight).
_IMAGE_FACTS = {
    "architecture": "visible",
    "elf_type": "visible",
    "functions": "visible",
    "undefined": "visible",
    "globals": "visible",
    "line_info": "visible",
    "debug_info": "visible",
    "size": "cosmetic",
}
_KERNEL_FACTS = {"registers": "visible", "shared": "visible", "local": "visible", "constant": "cosmetic", "code": "cosmetic", "barriers": "visible"}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One way in which B is not A.

    `text` is the same for scenarios that differ in the same way; `detail` is this scenario's own.
    """

    kind: str
    weight: str
    text: str
    detail: str = field(default="", compare=False)


def differences(a: dict, b: dict) -> list[Difference]:
    """All differences between two observations of one scenario, as `records.py` reads them."""
    skips = _skips(a, b)
    if skips:
        return skips
    found = _stability(a, b)
    ours, theirs = a["outcome"], b["outcome"]
    if ours["kind"] != theirs["kind"]:
        found.append(_other_kind(ours, theirs))
    elif ours["kind"] == "value":
        found += _results(ours, theirs)
    elif ours["kind"] == "error":
        found += _errors(a, b)
    return [*found, *_warnings(a, b), *_images(a["image"], b["image"])]


def _skips(a: dict, b: dict) -> list[Difference]:
    skipped = [x["status"] == "skipped" or x["outcome"] is None for x in (a, b)]
    if all(skipped):
        return [Difference("skipped", "cosmetic", "skipped in both")]
    if not any(skipped):
        return []
    which, reason = ("A", a["reason"]) if skipped[0] else ("B", b["reason"])
    return [Difference("skipped", "visible", f"only skipped in {which}: {reason}")]


def _stability(a: dict, b: dict) -> list[Difference]:
    return [
        Difference("unstable", "breaking", f"the answer changes between repetitions in {name}")
        for name, x in (("A", a), ("B", b))
        if x["status"] == "unstable"
    ]


def _other_kind(ours: dict, theirs: dict) -> Difference:
    weight = "visible" if theirs["kind"] == "value" else "breaking"
    return Difference("outcome", weight, f"{_what(ours)} became {_what(theirs)}")


def _what(outcome: dict) -> str:
    if outcome["kind"] == "value":
        return "a value"
    return f"{outcome.get('type') or outcome['kind']} in phase {outcome['phase']}"


def _results(ours: dict, theirs: dict) -> list[Difference]:
    if ours["digest"] and theirs["digest"] and ours["digest"] != theirs["digest"]:
        return [Difference("result", "breaking", "another result")]
    return []


def _errors(a: dict, b: dict) -> list[Difference]:
    ours, theirs = a["outcome"], b["outcome"]
    found = []
    lost = [c for c in ours.get("bases", []) if c not in theirs.get("bases", []) and c not in _CATCH_ALL]
    if lost:
        handlers = ", ".join(f"`except {c.rsplit('.', 1)[-1]}`" for c in lost)
        became = f"{_class(ours, theirs)} became {_class(theirs, ours)}"
        found.append(Difference("error class", "breaking", f"{became}, which {handlers} no longer catches"))
    elif ours["type"] != theirs["type"]:
        found.append(Difference("error class", "visible", f"{ours['type']} became {theirs['type']}"))
    if ours["phase"] != theirs["phase"]:
        found.append(Difference("error phase", "visible", f"from phase {ours['phase']} to {theirs['phase']}"))
    telling = _common_pattern(a, b)
    if telling and _says(ours, telling) and not _says(theirs, telling):
        found.append(Difference("error text", "breaking", f"the text no longer says {telling!r}"))
    elif ours["message"] != theirs["message"]:
        found.append(Difference("error text", "cosmetic", "another text"))
    return found


def _says(outcome: dict, pattern: str) -> bool:
    return bool(re.search(pattern, outcome["message"] or ""))


def _class(outcome: dict, other: dict) -> str:
    """An error's class; with its module where only that tells it from the other's."""
    return outcome["bases"][0] if outcome["type"] == other["type"] else outcome["type"]


def _common_pattern(a: dict, b: dict) -> str:
    """What both texts must say: the pattern of the failure, where both are the same failure."""
    expected = [x["expected"] or {} for x in (a, b)]
    same = expected[0].get("failure") == expected[1].get("failure")
    return (expected[0].get("message") or "") if same else ""


def _warnings(a: dict, b: dict) -> list[Difference]:
    ours, theirs = _texts(a), _texts(b)
    new = [f"new {w}" for w in sorted(set(theirs)) if theirs.count(w) > ours.count(w)]
    lost = [f"no longer {w}" for w in sorted(set(ours)) if ours.count(w) > theirs.count(w)]
    return [Difference("warning", "visible", text) for text in new + lost]


def _texts(observation: dict) -> list[str]:
    return [f"{w['category']}: {w['message'].splitlines()[0][:160] if w['message'] else ''}" for w in observation["warnings"]]


def _images(ours: dict | None, theirs: dict | None) -> list[Difference]:
    if not ours or not theirs:
        return []
    found = [
        Difference("image", weight, name, f"{_short(ours.get(name))} became {_short(theirs.get(name))}")
        for name, weight in _IMAGE_FACTS.items()
        if ours.get(name) != theirs.get(name)
    ]
    kernels, others = ours.get("kernels") or {}, theirs.get("kernels") or {}
    if set(kernels) != set(others):
        return [*found, Difference("image", "visible", "kernels", f"{sorted(kernels)} became {sorted(others)}")]
    return found + [
        Difference("image", weight, f"{name} of a kernel", f"{kernels[k].get(name)} became {others[k].get(name)}")
        for k in kernels
        for name, weight in _KERNEL_FACTS.items()
        if kernels[k].get(name) != others[k].get(name)
    ]


def _short(value) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return " ".join(str(value).split())
