"""Read metrics.jsonl, which a run writes besides its console log.

A truncated last line is normal in a running run, so a line that does not parse is skipped and never an error. Source:
verl/utils/tracking.py (FileLogger: json.dumps up to 0.6.1, orjson with null for NaN since 0.7.1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from rlx.evidence.cache.kept_sections import Store
from rlx.evidence.cache.parser_state import parse_file
from rlx.evidence.reading.scan import LineScanner
from rlx.evidence.reading.timeline import Timeline

_LARGEST = 1e100
NEEDLES = (b'"step"',)
RULES = "metrics.jsonl 1"
"""To be changed whenever rlx reads the same bytes differently."""


class MetricsParser:
    """Parses `{"step": N, "data": {…}}` lines in pieces."""

    def __init__(self, name: str, attempt: int = 1) -> None:
        self.rules = f"{RULES} {attempt}"
        self.timeline = Timeline(name, attempt)
        self._scanner = LineScanner(NEEDLES)

    def feed(self, data: bytes) -> None:
        for line, _ in self._scanner.feed(data):
            self._read(line)

    def finish(self) -> None:
        """Read the last line although it has no end: truncated JSON does not parse."""
        for line, _ in self._scanner.finish():
            self._read(line)

    @property
    def pending(self) -> int:
        return self._scanner.pending

    def state(self) -> dict[str, Any]:
        return self.timeline.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.timeline.restore(state)

    def _read(self, line: bytes) -> None:
        document = read_document(line)
        step, data = document.get("step"), document.get("data")
        if is_count(step) and isinstance(data, dict):
            self.timeline.add(step, {key: float(value) for key, value in _numbers(data)})


def read_metrics(path: Path, attempt: int = 1, states: Store | None = None, *, grows: bool = True) -> Timeline:
    """Read the metrics of one attempt from `{"step": N, "data": {…}}` lines; empty where there is no such file."""
    try:
        parser = parse_file(path, lambda: MetricsParser(path.name, attempt), states, grows=grows)
    except OSError:
        parser = MetricsParser(path.name, attempt)
    parser.finish()
    return parser.timeline


def read_document(line: bytes) -> dict[str, Any]:
    """Parse a line; empty if it is not a JSON object."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _numbers(data: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield numbers; orjson writes NaN as null. Text and lists are not metrics."""
    for key, value in data.items():
        if value is None:
            yield key, math.nan
        elif isinstance(value, bool) or is_number(value):
            yield key, value


def is_count(value: Any) -> TypeGuard[int]:
    # What is counted here fits into 63 bits; arithmetic with a longer number would fail later.
    return type(value) is int and 0 <= value < 1 << 63


def is_number(value: Any) -> TypeGuard[float]:
    # No metric is larger, and what is computed of it would not fit into a float. Infinity and NaN are said as they are.
    return type(value) in (int, float) and (abs(value) <= _LARGEST or value != value or value in (math.inf, -math.inf))
