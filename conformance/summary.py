"""The end of pytest's output for one cell: what ran, how far it was seen, what is not as expected."""

from __future__ import annotations

from collections import Counter

from conformance.model import EVIDENCE, STATUSES, Cell


def summarise(cell: Cell, observations: list[dict]) -> list[str]:
    """The summary's lines."""
    return [
        f"{cell.environment.name} @ {cell.subject}  ({cell.environment.title})",
        *_candidate(cell),
        f"linker    {_linkers(observations)}",
        f"driver    {_driver(cell)}",
        *_counts(observations),
        *_skips(observations),
        *_wrong(cell, observations),
        f"records   {_shown(cell.results)}",
    ]


def _candidate(cell: Cell) -> list[str]:
    if not cell.candidate:
        return []
    changes = [f"{name} {' -> '.join(versions)}" for name, versions in cell.candidate["changed"].items()]
    lines = [f"candidate expected to behave as {cell.release}; other packages: {', '.join(changes) or 'none'}"]
    if any(part.get("dirty") for part in cell.candidate["packages"].values()):
        lines.append("          of a checkout with changes that are not committed")
    return lines


def _linkers(observations: list[dict]) -> str:
    ran = Counter(o["linker"] for o in observations if o["linker"])
    # A link that failed early does not say its engine; those that came further do.
    engines = {o["linker"]: f" ({o['engine']})" for o in observations if o["engine"]}
    if not ran:
        return "none: no scenario came as far as a linker"
    return ", ".join(f"{name}{engines.get(name, '')} in {count} scenarios" for name, count in ran.most_common())


def _driver(cell: Cell) -> str:
    driver = cell.driver
    what = driver.device or "no device: images are linked and kept, kernels are not launched"
    notes = "".join(f"; {note}" for note in cell.notes)
    return f"{driver.kind}, CUDA {driver.version}, compute capability {driver.compute_capability} ({what}{notes})"


def _counts(observations: list[dict]) -> list[str]:
    by_status = {
        status: [o for o in observations if o["status"] == status] for status in STATUSES
    }
    lines = []
    for status, group in by_status.items():
        if group and status != "skipped":
            levels = Counter(o["evidence"] for o in group)
            shown = ", ".join(f"{levels[e]} {e}" for e in reversed(EVIDENCE) if levels[e])
            lines.append(f"{status:<9} {len(group):>4}  ({shown})")
    return lines


def _skips(observations: list[dict]) -> list[str]:
    reasons = Counter(o["reason"] for o in observations if o["status"] == "skipped")
    return [f"skipped   {count:>4}  {reason}" for reason, count in reasons.most_common()]


def _wrong(cell: Cell, observations: list[dict]) -> list[str]:
    lines = []
    for o in observations:
        if o["status"] in ("differs", "unstable"):
            lines += ["", f"{o['status'].upper()} {o['scenario']}", f"  {o['reason']}"]
            lines += [f"  again: {cell.reproduce(o['scenario'])}"]
    return [*lines, ""] if lines else lines


def _shown(path: str) -> str:
    return "/".join(path.split("/")[-3:])
