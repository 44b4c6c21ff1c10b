"""The files a run writes besides its console log: verl's metrics.jsonl and validation outputs, and
the noise events of the payload.

A torn last line is normal in a running run, so a line that does not parse is left out, never an error.
Sources: verl/utils/tracking.py (FileLogger: json.dumps up to 0.6.1, orjson with null for NaN since 0.7.1);
rlx/payload/rlx_aqn.py for the events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from rlx.evidence.cache.parser_state import parse_file
from rlx.evidence.cache.sections import Store
from rlx.evidence.reading.scan import CHUNK_BYTES, LineScanner, matching_lines
from rlx.evidence.reading.timeline import Timeline
from rlx.evidence.run_evidence import ROLLOUT, VALIDATION, NoiseEvent

NEEDLES = (b'"step"',)
RULES = "metrics.jsonl 1"
"""To be changed with whatever makes rlx read the same bytes otherwise."""


class MetricsParser:
    """Reads `{"step": N, "data": {…}}` lines as they come."""

    def __init__(self, name: str, attempt: int = 1) -> None:
        self.rules = f"{RULES} {attempt}"
        self.timeline = Timeline(name, attempt)
        self._scanner = LineScanner(NEEDLES)

    def feed(self, data: bytes) -> None:
        for line, _ in self._scanner.feed(data):
            self._read(line)

    def finish(self) -> None:
        """Read the last line even though it has no end: torn JSON is none."""
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
        document = _document(line)
        step, data = document.get("step"), document.get("data")
        if _is_count(step) and isinstance(data, dict):
            self.timeline.add(step, {key: float(value) for key, value in _numbers(data)})


def read_metrics(path: Path, attempt: int = 1, states: Store | None = None, *, grows: bool = True) -> Timeline:
    """The metrics of one attempt from `{"step": N, "data": {…}}` lines; empty where there is no such file."""
    try:
        parser = parse_file(path, lambda: MetricsParser(path.name, attempt), states, grows=grows)
    except OSError:
        parser = MetricsParser(path.name, attempt)
    parser.finish()
    return parser.timeline


def read_events(folder: Path) -> list[NoiseEvent]:
    """The noise events that the processes of one attempt wrote, each into its own file, by time of writing."""
    lines = [(document, path.name) for path in sorted(folder.glob("*.jsonl")) for document in _documents(path)]
    lines.sort(key=lambda line: _time(line[0]))
    events = (_event(document, source) for document, source in lines)
    return [event for event in events if event is not None]


def read_answers(folder: Path) -> dict[int, int]:
    """Count the answers that each validation kept, by step: the lines of `<step>.jsonl`, where it can be read."""
    counts = {int(path.stem): _count_lines(path) for path in folder.glob("*.jsonl") if path.stem.isdecimal()}
    return {step: count for step, count in counts.items() if count is not None}


def _count_lines(path: Path) -> int | None:
    try:
        with path.open("rb") as stream:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(CHUNK_BYTES), b""))
    except OSError:
        return None


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    try:
        stream = path.open("rb")
    except OSError:
        return
    with stream:
        yield from map(_document, matching_lines(stream, NEEDLES, last_line_complete=True))


def _document(line: bytes) -> dict[str, Any]:
    """Parse a line; empty where it is no object of JSON."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _numbers(data: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Numbers as they are; null is how orjson writes NaN. Text and lists are not metrics."""
    for key, value in data.items():
        if value is None:
            yield key, math.nan
        elif isinstance(value, bool) or _is_number(value):
            yield key, value


def _time(document: Mapping[str, Any]) -> float:
    time = document.get("time")
    return time if _is_number(time) else 0.0


def _event(document: Mapping[str, Any], source: str) -> NoiseEvent | None:
    step, layers, sigma = document.get("step"), document.get("layers"), document.get("sigma")
    if document.get("kind") != "noise" or document.get("phase") not in (ROLLOUT, VALIDATION):
        return None
    if not (_is_count(step) and _is_count(layers) and _is_number(sigma)):
        return None
    replica, std, asked = (document.get(key) for key in ("replica", "effective_std", "asked_std"))
    return NoiseEvent(
        step=step,
        sigma=float(sigma),
        layers=layers,
        phase=document["phase"],
        changed=_count(document.get("changed")),
        elements=_count(document.get("elements")),
        effective_std=float(std) if _is_number(std) else None,
        source=source,
        replica=_count(replica) or 0,
        asked_std=float(asked) if _is_number(asked) and asked > 0 else None,
    )


def _count(value: Any) -> int | None:
    return value if _is_count(value) else None


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> TypeGuard[float]:
    # An integer beyond the range of a float cannot be a metric.
    return type(value) is float or (type(value) is int and abs(value) < 1 << 1000)
