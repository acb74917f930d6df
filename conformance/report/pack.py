"""The observations as one small JSON document for the page: every distinct thing is said once.

    strings    all texts; everything else names them by number
    scenarios  [id, family, title, profile] and, for the side-by-side, which facts of it were ever seen (`facts`)
               and the differences between any two of them (`between`, a square of numbers of `sets`, row is A)
    seen       every distinct observation: [status, kind, phase, type, message, evidence, linker, engine, warnings,
               reason, expected, image]
    columns    the runs; `rows`: for each scenario the number of what was seen (0: not run), `facts`: the number of its
               facts within the scenario, `ms`: hundredths of a millisecond from the linker's construction to the image
    sets       lists of [difference, detail]; `differences`: [weight, kind, text]

Differences are those of `conformance/differences.py`, taken here, once for each two distinct facts, so that no second
judgement is written in another language. What is cosmetic stays out: `nox -s compare -- A B --cosmetic` has it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from conformance.compare import link_time
from conformance.differences import WEIGHTS, differences
from conformance.report.collect import Column, Report, Verdict
from conformance.scenario import catalogue

# Longer messages are cut in the page; the records have them whole.
MESSAGE = 600
# Comparisons of two facts that a page may take; with more, facts of the images stay out of the side-by-side.
COMPARISONS = 400_000

# What the catalogue does not hold.
_TITLES = {"environment/import-and-link": "The import of numba.cuda, and a link without external code."}


@dataclass
class Table:
    """Distinct things by number, in the order in which they came."""

    items: list = field(default_factory=list)
    numbers: dict = field(default_factory=dict)

    def number(self, item, key=None) -> int:
        """The number of a thing, new or known."""
        key = item if key is None else key
        if key not in self.numbers:
            self.numbers[key] = len(self.items)
            self.items.append(item)
        return self.numbers[key]


def pack(report: Report) -> dict:
    """Everything that the page's tables and filters need."""
    packer = _Packer(report)
    scenarios = [packer.scenario(s) for s in report.scenarios]
    columns = [packer.column(c) for c in report.columns]
    between, images = packer.between()
    for scenario, square in zip(scenarios, between, strict=True):
        scenario["between"] = square
    return {
        "scenarios": scenarios,
        "columns": columns,
        "seen": packer.seen.items,
        "differences": packer.differences.items,
        "sets": [list(s) for s in packer.sets.items],
        "weights": [w for w in WEIGHTS if w != "cosmetic"],
        "images": images,
        "strings": packer.strings.items,
    }


class _Packer:
    def __init__(self, report: Report):
        self.report = report
        self.strings = Table(["", "null"], {"": 0, "null": 1})
        self.seen = Table([None], {None: 0})  # 0: not run
        self.differences = Table()
        self.sets = Table([()], {(): 0})  # 0: no difference
        self.facts: list[Table] = [Table() for _ in report.scenarios]

    # -- what there is ----------------------------------------------------------------------

    def scenario(self, name: str) -> dict:
        known = catalogue().get(name)
        title = known.title if known else _TITLES.get(name, "")
        profile = next(c.by_scenario[name]["profile"] for c in self.report.columns if name in c.by_scenario)
        return {"id": name, "family": name.split("/")[0], "title": title, "profile": profile}

    def column(self, c: Column) -> dict:
        rows, facts, ms = [], [], []
        for i, name in enumerate(self.report.scenarios):
            o = c.by_scenario.get(name)
            rows.append(self._seen(o) if o else 0)
            facts.append(self.facts[i].number(*_facts(o)) if o else -1)
            ms.append(round(link_time(o) * 100) if o else 0)
        return {**describe(c), "rows": rows, "facts": facts, "ms": ms}

    def _seen(self, o: dict) -> int:
        outcome = o["outcome"] or {}
        texts = [
            o["status"], outcome.get("kind"), outcome.get("phase"), outcome.get("type"), _cut(outcome.get("message")),
            o["evidence"], o["linker"], o["engine"],
            "\n".join(f"{w['category']}: {_cut(w['message'])}" for w in o["warnings"]),
            _cut(o["reason"]), _expected(o["expected"]), _image(o["image"]),
        ]  # fmt: skip
        numbers = tuple(self.strings.number(str(t or "")) for t in texts)
        return self.seen.number(list(numbers), numbers)

    # -- differences ------------------------------------------------------------------------

    def between(self) -> tuple[list[list[int]], bool]:
        """For each scenario the square of its facts' differences, and whether images took part."""
        images = sum(len(t.items) ** 2 for t in self.facts) <= COMPARISONS
        known: dict[tuple, int] = {}
        squares = []
        for table in self.facts:
            seen = [o if images else {**o, "image": None} for o in table.items]
            keys = list(table.numbers)
            square = []
            for a, key in zip(seen, keys, strict=True):
                for b, other in zip(seen, keys, strict=True):
                    if (key, other) not in known:
                        known[key, other] = 0 if a is b else self._set(a, b)
                    square.append(known[key, other])
            squares.append(square)
        return squares, images

    def _set(self, a: dict, b: dict) -> int:
        found = [d for d in differences(a, b) if d.weight != "cosmetic"]
        return self.sets.number(
            tuple(
                (self.differences.number((d.weight, d.kind, _cut(d.text))), self.strings.number(_cut(d.detail)))
                for d in found
            )
        )


def describe(c: Column) -> dict:
    """A column without its observations."""
    return {
        "name": c.name,
        "cell": c.cell,
        "environment": c.environment.name,
        "title": c.environment.title,
        "axes": c.environment.axes,
        "release": c.release,
        "source": c.source,
        "linker": c.linker,
        "driver": c.driver,
        "device": c.run.header.get("device"),
        "all": _verdict(c.verdict),
        "core": _verdict(c.core),
        "reproduce": c.reproduce,
    }


def _verdict(v: Verdict) -> dict:
    return {"word": v.word, "reasons": v.reasons, "reached": v.reached, "counts": v.counts, "evidence": v.evidence}


def _facts(o: dict) -> tuple[dict, str]:
    """What decides how an observation differs from others, without what is cosmetic, and the same as a key."""
    image = o["image"] and {k: v for k, v in o["image"].items() if k != "size"}
    if image and image.get("kernels"):
        shown = ("registers", "shared", "local", "barriers")
        image["kernels"] = {n: {f: k.get(f) for f in shown} for n, k in image["kernels"].items()}
    facts = {k: o[k] for k in ("status", "outcome", "expected", "warnings", "reason")} | {"image": image}
    skipped = o["status"] == "skipped" or o["outcome"] is None
    kept = facts if skipped else facts | {"reason": "", "status": "unstable" if o["status"] == "unstable" else "seen"}
    return facts, json.dumps(kept, sort_keys=True)


def _cut(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= MESSAGE else text[:MESSAGE] + " ..."


def _expected(expected: dict | None) -> str:
    if not expected:
        return ""
    if expected.get("kind") == "value":
        text = "a value"
    else:
        text = f"{expected.get('type')} in phase {'/'.join(expected.get('phase') or [])}"
        text += f", saying {expected['message']!r}" if expected.get("message") else ""
        text += f" ({expected['failure']})" if expected.get("failure") else ""
    warned = [f"{w['category']} {w['message']!r}" for w in expected.get("warnings", [])]
    return text + (f"; warns {', '.join(warned)}" if warned else "")


def _image(image: dict | None) -> str:
    """The facts of an image in a line, without what is cosmetic."""
    if not image:
        return ""
    kernels = [
        f"{name}: {k.get('registers')} registers, {k.get('shared')} shared, {k.get('local')} local"
        for name, k in (image.get("kernels") or {}).items()
    ]
    flags = [word for key, word in (("line_info", "line info"), ("debug_info", "debug info")) if image.get(key)]
    parts = [str(image.get("architecture")), *flags, *kernels[:4]]
    parts += [f"undefined: {', '.join(image['undefined'][:4])}"] if image.get("undefined") else []
    return _cut("; ".join(parts))
