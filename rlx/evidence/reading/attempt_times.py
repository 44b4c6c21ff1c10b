"""Read how long an attempt lasted by its host's clock: from its record of the host to its recorded end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rlx.evidence.run_evidence import AttemptTime
from rlx.local_files import parse_json, read_bytes
from rlx.model.run_dir import EXIT_FILE, PROVENANCE_FILE, STATE_DIR

_MOST_PROVENANCE = 64 << 20
_MOST_EXIT = 1 << 10
_LAST_EPOCH = 1e11


def attempt_time(folder: Path, number: int, step_seconds: Mapping[int, float]) -> AttemptTime:
    """Return the times of an attempt; both its begin and its end were written by one clock."""
    return AttemptTime(number, _begun(folder), _ended(folder), len(step_seconds), sum(step_seconds.values()))


def _begun(folder: Path) -> float | None:
    try:
        found = parse_json(read_bytes(folder / PROVENANCE_FILE, _MOST_PROVENANCE))
    except (OSError, ValueError):
        return None
    return _epoch(found.get("time")) if isinstance(found, dict) else None


def _ended(folder: Path) -> float | None:
    """Read the third word of `CODE WHO EPOCH UPTIME`."""
    try:
        words = read_bytes(folder / STATE_DIR / EXIT_FILE, _MOST_EXIT).split()
        return _epoch(float(words[2]))
    except (OSError, ValueError, IndexError):
        return None


def _epoch(value: Any) -> float | None:
    """Convert a number, or a date with its zone, to seconds since 1970."""
    try:
        date = datetime.fromisoformat(value) if isinstance(value, str) else None
        seconds = date.timestamp() if date and date.tzinfo else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and 0 < seconds < _LAST_EPOCH else None
