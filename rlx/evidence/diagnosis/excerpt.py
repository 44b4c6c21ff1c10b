"""The excerpt of a log that payload/diagnose.sh makes, as lines that can be matched: without colours and speakers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

# CSI and OSC sequences of ECMA-48. What else may be dangerous to a terminal is for those who print.
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
_RECORD = re.compile(rb"(\d{1,15})([:=+-])(.*)", re.DOTALL)
# Ray's actors, vLLM's engines and workers, torchrun's ranks, and the time stamps of what wraps a launch.
_SPEAKER = re.compile(r"\s*(\((?:\w[\w .<>=-]*)?\s?pid=[^)]{1,60}\)|\[rank\d+\]:|\[default\d+\]:)")
_STAMP = re.compile(
    r"\s?(?:\[\d{4}-\d\d-\d\d[ T][\d:,.]+\]|(?:ERROR|WARNING|INFO|CRITICAL) \d\d-\d\d [\d:]+ \[?[\w./-]{1,80}:\d+\])"
)
_MOST_DIGITS = 15
_CONTEXT, _LAST, _MORE = b"-", b"=", b"+"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log, or a part of it that a carriage return separates.

    `number` counts from 1, as an editor does, where no line is longer than 1 MB. `raw` is what was printed, `text` the
    same without who said it and when. `matched`: it may have a needle. `is_last`: it is here as one of the last lines
    only, so it is counted in `Excerpt.more` already, if it has one.
    """

    number: int
    raw: str
    text: str
    speaker: str
    matched: bool = True
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    """`lines` by number; `last`: the last lines of the log; `size` in bytes, None where there is no log.

    `more`: by the number of a line, how many lines like it were left out. `lacks`: a program the host would need.
    """

    lines: tuple[LogLine, ...] = ()
    more: Mapping[int, int] = field(default_factory=dict)
    last: tuple[LogLine, ...] = ()
    size: int | None = None
    lacks: str = ""


def read_excerpt(records: Iterable[bytes]) -> Excerpt:
    """The answer of diagnose.sh. Skips what is no record: a log or a host may say anything."""
    lines: list[LogLine] = []
    last: list[LogLine] = []
    more: dict[int, int] = {}
    size, lacks = None, ""
    for record in records:
        if size is None and record.startswith(b"size "):
            size = _number(record[5:])
        elif size is None and record.startswith(b"lacks "):
            lacks = record[6:].decode("utf-8", "replace")
        elif (found := _RECORD.match(record)) and found[2] == _MORE:
            more[int(found[1])] = _number(found[3]) or 0
        elif found:
            into = last if found[2] == _LAST else lines
            into += _parts(int(found[1]), found[3], matched=found[2] != _CONTEXT)
    known = {line.number for line in lines if line.matched}
    lines += [replace(line, is_last=True) for line in last if line.number not in known]
    return Excerpt(tuple(sorted(lines, key=lambda line: line.number)), more, tuple(last), size, lacks)


def _number(digits: bytes) -> int | None:
    """Read a number that this host may have counted; Python refuses those of thousands of digits."""
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else None


def clean(text: str) -> tuple[str, str]:
    """Split a line into who says it, and what it says."""
    speaker, text = "", text.rstrip()
    while found := _SPEAKER.match(text):
        speaker += found[1]
        text = text[found.end() :].removeprefix(" ")
    while found := _STAMP.match(text):
        text = text[found.end() :].removeprefix(" ")
    return speaker, text


def log_line(number: int, raw: str, *, matched: bool = True) -> LogLine:
    speaker, text = clean(raw)
    return LogLine(number, raw, text, speaker, matched)


def _parts(number: int, data: bytes, *, matched: bool) -> Iterator[LogLine]:
    for part in _COLOURS.sub("", data.decode("utf-8", "replace")).split("\r"):
        if part.strip():
            yield log_line(number, part.rstrip(), matched=matched)
