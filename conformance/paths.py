"""Where things lie. All that is made goes into one cache folder that may be deleted at any time."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "matrices" / "locks"
RESULTS = ROOT / "results"
EVIDENCE = ROOT / "evidence"


def cache(*parts: str) -> Path:
    """A folder of the cache: `$CONFORMANCE_CACHE`, or `.cache` beside the suite."""
    base = os.environ.get("CONFORMANCE_CACHE")
    return (Path(base) if base else ROOT / ".cache").joinpath(*parts)
