"""Check "settings": each process that generates has read the noise settings of the plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import noise_expectation
from rlx.evidence.run_evidence import Evidence, NoiseEvent, NoiseSettings
from rlx.evidence.verdict import CheckFinding, invalid, unverified
from rlx.model import Link, NoiseExpectation

_MOST_SHOWN = 4


def check(given: CheckInput) -> Iterator[CheckFinding]:
    if given.noise is None:
        return
    evidence, promise = given.evidence, noise_expectation(given.noise.schedule)
    yield from other_settings(evidence, promise)
    if promise.expects(Link.ASKED):
        yield from without_settings(
            evidence, [event for _, event in given.noise.application.recorded], "the noise was drawn"
        )
        yield from _incomplete_settings(evidence, promise)


def other_settings(evidence: Evidence, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    """Report processes with other settings, the first process in words."""
    ranks = {"tp_size": max(process.rank for process in promise.processes) + 1} if promise.processes else {}
    planned = {**promise.settings, **ranks}
    other = {own: words for own in evidence.noise_settings if (words := _differences(own, planned, promise.digest))}
    if other:
        own, words = next(iter(other.items()))
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        yield invalid(
            "RLX670",
            f"the noise settings in force are not the plan's: {words} ({own.process}{more})",
            "check whether payload/aqn.json or the payload was changed after the launch",
        )


def _differences(own: NoiseSettings, planned: Mapping[str, Any], digest: str) -> str:
    """Describe which settings differ; "" if none does. A payload of rlx 0.1 does not know all of them."""
    seen = own.settings
    other = [key for key in planned if key in seen and seen[key] != planned[key]]
    if other:
        words = [f"{key} {_short(seen[key])}, planned {_short(planned[key])}" for key in other[:_MOST_SHOWN]]
        return "; ".join([*words, *(["…"] if len(other) > _MOST_SHOWN else [])])
    if own.digest and digest and own.digest != digest:
        return f"they are from another file (digest {own.digest}, planned {digest})"
    return ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def without_settings(evidence: Evidence, recorded: Iterable[NoiseEvent], what: str) -> Iterator[CheckFinding]:
    """Report processes with records but without recorded settings, neither of their own nor in their file."""
    own = {settings.process.place for settings in evidence.noise_settings}
    files = {settings.source for settings in evidence.noise_settings}
    recording = {event.process.place: event.process for event in recorded if event.source not in files}
    if silent := [str(process) for place, process in sorted(recording.items()) if place not in own]:
        yield unverified(
            "RLX671",
            f"nothing shows with which settings {what} in {'; '.join(silent)}: no settings are recorded",
            "check whether the beginning of events/aqn-*.jsonl is lost",
        )


def _incomplete_settings(evidence: Evidence, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    """Report records of settings without what the plan needs for its check: the file's digest, and the layers."""
    for own in evidence.noise_settings:
        lacks = [
            *(["the digest of their file"] if promise.digest and not own.digest else []),
            *(["the names of the layers"] if promise.layers and not own.layers else []),
        ]
        if lacks:
            yield unverified(
                "RLX671",
                f"the settings that {own.process} recorded lack {' and '.join(lacks)}",
                "check that the payload is the one that was launched",
            )
            return
