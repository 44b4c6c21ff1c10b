"""Read what the sampler of a run recorded: a line per sample, in words `key=value` (docs/devices.md).

Any program that can write in the run directory can write to this file, so malformed lines and impossible numbers are
skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlx.local_files import open_regular
from rlx.model.run_dir import USAGE_FILE

MOST_BYTES = 16 << 20
"""More than the sampler writes in a year; what follows is not read."""
_TAIL_BYTES = 64 << 10
_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
_DEVICE = re.compile(r"d(\d{1,4})", re.ASCII)
_LAST_EPOCH = 1e11
HOST, GROUP = "host", "cgroup"


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One device at one moment, memory in MiB; None: not known.

    `busy` in percent, `celsius` its temperature. `own` is what the processes of the run have of `used`, `others` what
    processes have that are not of the run.
    """

    device: int
    used: int | None = None
    total: int | None = None
    busy: int | None = None
    celsius: int | None = None
    own: int | None = None
    others: int | None = None


@dataclass(frozen=True, slots=True)
class UsageSample:
    """One sample, memory in MiB, `at` in seconds since 1970 by the host's clock; None: not known.

    `metrics`: how many bytes metrics.jsonl had, and when it was written to, which gives the step of the sample. `cost`:
    ms of CPU that the sampler had used before. `kills`: as in MemoryKills. `host`, `group`: used and total of the
    host's memory, and of its cgroup's where that has a limit. `own`: memory of the run's processes (shared pages count
    for each), `own_cpu`: the ms of CPU that they have used so far. `says`: why nothing is known of the devices:
    missing, silent or unreadable.
    """

    at: float
    metrics: tuple[int, float] | None = None
    cost: int | None = None
    kills: int | None = None
    host: tuple[int, int] | None = None
    group: tuple[int, int] | None = None
    own: int | None = None
    own_cpu: int | None = None
    processes: int | None = None
    devices: tuple[DeviceSample, ...] = ()
    says: str = ""


@dataclass(frozen=True, slots=True)
class MemoryKills:
    """The number of processes that the kernel killed because memory ran out while an attempt ran.

    Counted in its cgroup (`scope` cgroup) or on all of its host (host). The counter does not say whose processes they
    were.
    """

    count: int
    scope: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """The samples of one attempt in their order. `kind`: of its devices. `kills` is None where nothing counts them."""

    kind: str = ""
    samples: tuple[UsageSample, ...] = ()
    kills: MemoryKills | None = None


def read_usage(attempt_dir: Path, attempt: int = 1) -> Usage:
    """Read the samples of an attempt; empty where it has no readable file."""
    spoken = [words for words in map(_words, _lines(attempt_dir, MOST_BYTES)) if words]
    kind = next((words["kind"] for words in spoken if words[""] == "start" and "kind" in words), "")
    samples = sorted((sample for words in spoken if (sample := _sample(words))), key=lambda sample: sample.at)
    return Usage(kind if kind.isalpha() else "", tuple(samples), _kills(spoken, attempt))


def read_kills(attempt_dir: Path, attempt: int) -> MemoryKills | None:
    """Read only how many processes were killed because memory ran out; None where none was, or nothing counted them."""
    lines = _lines(attempt_dir, MOST_BYTES)
    samples = [line for line in lines if line.startswith("at ")]
    others = [words for line in lines if not line.startswith("at ") and (words := _words(line))]
    # It only rises, so that one sample says as much as all.
    found = _kills([*others, *map(_words, samples[-1:])], attempt)
    return found if found and found.count else None


def last_sample(attempt_dir: Path) -> UsageSample | None:
    """Read the newest sample from the end of the file."""
    samples = (sample for line in reversed(_lines(attempt_dir, -_TAIL_BYTES)) if (sample := _sample(_words(line))))
    return next(samples, None)


def _lines(attempt_dir: Path, most: int) -> list[str]:
    """Read so many bytes from the beginning, or where negative from the end. An incomplete last line is dropped."""
    try:
        with open_regular(attempt_dir / USAGE_FILE) as file:
            if most < 0:
                file.seek(max(0, file.seek(0, 2) + most))
            text = file.read(abs(most)).decode("ascii", errors="replace")
    except OSError:
        return []
    return text.split("\n")[:-1]


def _words(line: str) -> dict[str, str]:
    """Return the first word under "", and the values by their keys; empty for any other line."""
    first, *rest = line.split(" ")
    if first not in ("start", "at", "end"):
        return {}
    words = {"": first, "time": rest[0] if rest and "=" not in rest[0] else ""}
    return words | dict(word.split("=", 1) for word in rest if "=" in word)


def _sample(words: Mapping[str, str]) -> UsageSample | None:
    at = _number(words.get("time", ""))
    if words.get("") != "at" or at is None or at > _LAST_EPOCH:
        return None
    own = _numbers(words.get("own", ""), 3)
    return UsageSample(
        at=float(at),
        metrics=_pair(words.get("metrics", "")),
        cost=_number(words.get("cost", "")),
        kills=_number(words.get("kills", "")),
        host=_pair(words.get("host", "")),
        group=_pair(words.get("group", "")),
        own=own[0],
        own_cpu=own[1],
        processes=own[2],
        devices=tuple(_devices(words)),
        says=words["says"] if words.get("says") in ("missing", "silent", "unreadable") else "",
    )


def _devices(words: Mapping[str, str]) -> Iterator[DeviceSample]:
    for key, value in words.items():
        if named := _DEVICE.fullmatch(key):
            yield DeviceSample(int(named[1]), *_numbers(value, 6))


def _kills(spoken: Iterable[Mapping[str, str]], attempt: int) -> MemoryKills | None:
    """Compare the counter at the start with its highest value since: it only rises, and the end may be unrecorded."""
    counts = [(words[""], words.get("scope", ""), _number(words.get("kills", ""))) for words in spoken]
    scope, start = next(((scope, count) for first, scope, count in counts if first == "start"), ("", None))
    last = max((count for first, _, count in counts if first != "start" and count is not None), default=None)
    if start is None or last is None or scope not in (HOST, GROUP):
        return None
    return MemoryKills(max(0, last - start), scope, attempt)


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def _numbers(text: str, count: int) -> list[int | None]:
    values = [_number(part) for part in text.split(",")]
    return values if len(values) == count else [None] * count


def _pair(text: str) -> tuple[int, int] | None:
    used, total = _numbers(text, 2)
    return None if used is None or total is None else (used, total)
