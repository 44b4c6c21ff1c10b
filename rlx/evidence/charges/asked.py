"""Link "asked": are the noise settings in force those of the plan, in every process that generates?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.promised_noise import promise_of
from rlx.evidence.run_evidence import Evidence, NoiseEvent, NoiseSettings
from rlx.evidence.verdict import Charge, invalid, unverified
from rlx.model import Link, NoisePromise

_TP_SIZE = "tp_size"
_MOST_SHOWN = 4


def check(given: CheckInput) -> Iterator[Charge]:
    if given.noise is None:
        return
    evidence, promise = given.evidence, promise_of(given.noise.schedule)
    yield from other_settings(evidence, promise)
    if promise.promises(Link.ASKED):
        yield from untold(evidence, [event for _, event in given.noise.application.recorded], "the noise was drawn")
        yield from _told_in_part(evidence, promise)


def other_settings(evidence: Evidence, promise: NoisePromise) -> Iterator[Charge]:
    """Charge each way in which processes were told otherwise, the first process in words."""
    planned = _planned(promise)
    other = {told: words for told in evidence.noise_settings if (words := _differences(told, planned, promise.digest))}
    if other:
        told, words = next(iter(other.items()))
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        yield invalid(
            "RLX670",
            f"the noise settings in force are not the plan's: {words} ({told.process}{more})",
            "was payload/aqn.json, or the payload, changed after the launch?",
        )


def _planned(promise: NoisePromise) -> Mapping[str, Any]:
    ranks = {_TP_SIZE: max(process.rank for process in promise.processes) + 1} if promise.processes else {}
    return {**promise.settings, **ranks}


def _differences(told: NoiseSettings, planned: Mapping[str, Any], digest: str) -> str:
    """Say in words which settings differ; "" if none does. A payload of rlx 0.1 does not know all of them."""
    seen = told.settings
    other = [key for key in planned if key in seen and seen[key] != planned[key]]
    if other:
        words = [f"{key} {_short(seen[key])}, planned {_short(planned[key])}" for key in other[:_MOST_SHOWN]]
        return "; ".join([*words, *(["…"] if len(other) > _MOST_SHOWN else [])])
    if told.digest and digest and told.digest != digest:
        return f"they are of another file (digest {told.digest}, planned {digest})"
    return ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def untold(evidence: Evidence, recorded: Iterable[NoiseEvent], what: str) -> Iterator[Charge]:
    """Charge processes with records that never said by which settings: none of theirs, and none in their file."""
    told = {settings.process.place for settings in evidence.noise_settings}
    files = {settings.source for settings in evidence.noise_settings}
    spoke = {event.process.place: event.process for event in recorded if event.source not in files}
    if silent := [str(process) for place, process in sorted(spoke.items()) if place not in told]:
        yield unverified(
            "RLX671",
            f"nothing shows by which settings {what} in {'; '.join(silent)}: no settings are recorded",
            "is the beginning of events/aqn-*.jsonl lost?",
        )


def _told_in_part(evidence: Evidence, promise: NoisePromise) -> Iterator[Charge]:
    """Charge records of settings that leave out what the plan promises to be held: the file, and the layers."""
    for told in evidence.noise_settings:
        lacks = [
            *(["the digest of their file"] if promise.digest and not told.digest else []),
            *(["the names of the layers"] if promise.layers and not told.layers else []),
        ]
        if lacks:
            yield unverified(
                "RLX671",
                f"the settings that {told.process} recorded lack {' and '.join(lacks)}",
                "is the payload the one that was launched?",
            )
            return
