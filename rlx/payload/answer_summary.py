"""Summarise the answers that validations kept: how many, of which items, and what shows how they were graded.

rlx reads the answers of a run on its own machine by this module, and sends it to the host of any other run.

`<step>.jsonl` has a line for each answer (see `rlx.evidence.reading.validation_outputs`). Files may be gigabytes:
digests are kept, a few texts as examples, and everything is bounded. Of more than `_SAMPLED` answers, those to the
items with the smallest digests are compared with the other validations: the same items in each of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import resource
import signal
import stat
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rlx.payload.item_identity import SmallestIds, item_digest, plain_text, text_digest, turn_of
from rlx.payload.replayed_graders import REPLAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

RULES = "answers 2"
"""To be changed with whatever makes rlx read the same bytes otherwise."""
RIGHT, WRONG = 1.0, 0.0
_NEEDLE = b'"input"'
_LONGEST_LINE = 4 << 20
_SUM = 1 << 128
_MOST_ITEMS = _MOST_PAIRS = 1 << 16
_MOST_BYTES = 256 << 20
"""More is counted and not read."""
_SAMPLED = 4096
_MOST_SOURCES = 20
_MOST_MEMORY = 1 << 30
_CHUNK = 1 << 19
_LONGEST_TRUTH = 64
_EXAMPLE_TRUTHS = 3
_ALIKE = 0.02
"""A reward model that runs in bfloat16 repeats itself to two or three digits."""
_PROMPT, _ANSWER = 60, 30
_FRACTION = re.compile(r"\\[dt]?frac\s*\{?(-?\w+)\}?\s*\{?(\w+)\}?")


class Sampled(NamedTuple):
    """An answer by its digests, its score, and both texts, shortened."""

    item: str
    answer: str
    score: float
    prompt: str
    text: str


class _Tally:
    """Count the answers that one replay decides, and those of them that were scored otherwise, each with an example."""

    def __init__(
        self, right: int = 0, wrong: int = 0, refused: Sequence[Any] = (0, ""), accepted: Sequence[Any] = (0, "")
    ) -> None:
        self.right, self.wrong = right, wrong
        self.refused, self.refused_example = refused
        self.accepted, self.accepted_example = accepted

    @property
    def summary(self) -> list[Any]:
        return [
            self.right,
            self.wrong,
            [self.refused, self.refused_example],
            [self.accepted, self.accepted_example],
        ]


class AnswerFileParser:
    """Reads the lines of one validation as they come."""

    def __init__(self) -> None:
        self._rest = b""
        self._bytes = self._lines = self._read = self._sum = 0
        self._items: set[str] | None = set()
        self._ids = SmallestIds()
        self._sources: set[str] = set()
        self._is_multi_turn = False
        self._replays = {name: _Tally() for name in REPLAYS}
        self._truths: dict[str, set[str]] = {}
        self._pairs = 0
        self._one_for_many: tuple[int, str] = (0, "")
        self._sampled: list[Sampled] = []
        self._last_sampled = ""

    def feed(self, data: bytes) -> None:
        self._lines += data.count(b"\n")
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if _NEEDLE in line:
                self._take(line)
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""  # its end alone is no JSON

    @property
    def pending(self) -> int:
        return len(self._rest) if self._bytes <= _MOST_BYTES else 0

    def state(self) -> dict[str, Any]:
        return {
            "bytes": self._bytes - self.pending,
            "lines": self._lines,
            "read": self._read,
            "sum": self._sum,
            "items": None if self._items is None else sorted(self._items),
            "ids": self._ids.kept,
            "sources": sorted(self._sources),
            "is_multi_turn": self._is_multi_turn,
            "replays": {name: tally.summary for name, tally in self._replays.items()},
            "truths": {answer: sorted(truths) for answer, truths in self._truths.items()},
            "one_for_many": self._one_for_many,
            "sampled": self._sampled,
            "last_sampled": self._last_sampled,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._bytes, self._lines = state["bytes"], state["lines"]
        self._read, self._sum = state["read"], state["sum"]
        self._items = None if state["items"] is None else set(state["items"])
        self._ids = SmallestIds(tuple(state["ids"]))
        self._sources, self._is_multi_turn = set(state["sources"]), state["is_multi_turn"]
        self._replays = {name: _Tally(*counts) for name, counts in state["replays"].items()}
        self._truths = {answer: set(truths) for answer, truths in state["truths"].items()}
        self._pairs = sum(map(len, self._truths.values()))
        self._one_for_many = (state["one_for_many"][0], state["one_for_many"][1])
        self._sampled = [Sampled(*each) for each in state["sampled"]]
        self._last_sampled = state["last_sampled"]

    def summary(self) -> dict[str, Any]:
        """Return what `rlx.evidence.KeptAnswers` holds, as JSON, and with `sampled` the answers to be compared.

        The sampled answers are of the same items, whatever their order in the file.
        """
        self._thin_out()
        is_whole = self._bytes <= _MOST_BYTES
        return {
            "answers": self._lines,
            "read": self._read,
            "items": len(self._items) if self._items is not None and is_whole else None,
            "digest": f"{self._sum:032x}" if self._read and is_whole else "",
            "ids": list(self._ids.kept),
            "sources": sorted(self._sources),
            "is_multi_turn": self._is_multi_turn,
            "replays": {name: tally.summary for name, tally in self._replays.items() if tally.right or tally.wrong},
            "one_for_many": list(self._one_for_many),
            "sampled": self._sampled,
        }

    def _take(self, text: bytes) -> None:
        line = _document(text)
        prompt, answer, truth = line.get("input"), line.get("output"), line.get("gts")
        score = score_of(line.get("acc", line.get("score")))
        if not isinstance(prompt, str) or not isinstance(answer, str) or score is None or not math.isfinite(score):
            return
        self._read += 1
        source = line.get("data_source")
        source = source if isinstance(source, str) else None
        if source is not None and len(self._sources) < _MOST_SOURCES:
            self._sources.add(source)
        digest = _item(prompt, truth, source) if isinstance(truth, str) else item_digest(prompt, [truth, source])
        of_answer = text_digest(answer, 16)
        pair = hashlib.blake2b(digest + of_answer, digest_size=16).digest()
        self._sum = (self._sum + int.from_bytes(pair, "big")) % _SUM
        item, key = digest.hex(), of_answer[:8].hex()
        if self._items is not None:
            self._items.add(item[:16])
            if len(self._items) > _MOST_ITEMS:
                self._items = None
        self._ids.add(line.get("uid"))
        self._is_multi_turn |= turn_of(line.get("uid")) > 0
        self._sample(item, key, score, prompt, answer)
        if isinstance(truth, str):
            self._replay(prompt, answer, truth, score)
            self._count_truths(key, answer, truth, score)

    def _sample(self, item: str, key: str, score: float, prompt: str, answer: str) -> None:
        if self._last_sampled and item > self._last_sampled:
            return
        self._sampled.append(Sampled(item, key, score, _short(prompt, _PROMPT), _short(answer, _ANSWER)))
        if len(self._sampled) >= 2 * _SAMPLED:
            self._thin_out()

    def _thin_out(self) -> None:
        """Keep all answers to the items with the smallest digests."""
        if len(self._sampled) <= _SAMPLED:
            return
        self._sampled.sort(key=lambda each: each.item)
        first_out = self._sampled[_SAMPLED].item
        whole = [each for each in self._sampled[:_SAMPLED] if each.item != first_out]
        self._sampled = whole or [each for each in self._sampled if each.item == first_out][:_SAMPLED]
        self._last_sampled = self._sampled[-1].item

    def _replay(self, prompt: str, answer: str, truth: str, score: float) -> None:
        for name, replayed in REPLAYS.items():
            is_right, tally = replayed(answer, truth), self._replays[name]
            if is_right:
                tally.right += 1
                if score <= WRONG:
                    tally.refused += 1
                    tally.refused_example = tally.refused_example or _example(prompt, answer, truth)
            elif is_right is not None:
                tally.wrong += 1
                if score >= RIGHT:
                    tally.accepted += 1
                    tally.accepted_example = tally.accepted_example or _example(prompt, answer, truth)

    def _count_truths(self, key: str, answer: str, truth: str, score: float) -> None:
        """Note for which truths an answer text was right. Tests, constraints and other long truths are no answers."""
        if score < RIGHT or not truth.strip() or len(truth) > _LONGEST_TRUTH or truth.lstrip()[0] in "[{":
            return
        truths = self._truths.get(key)
        if truths is None:
            truths = self._truths.setdefault(key, set()) if self._pairs < _MOST_PAIRS else set()
        known = len(truths)
        if self._pairs < _MOST_PAIRS:
            truths.add(lenient(truth))
            self._pairs += len(truths) - known
        if len(truths) >= _EXAMPLE_TRUTHS and len(truths) > self._one_for_many[0]:
            shown = ", ".join(repr(each) for each in sorted(truths)[:_EXAMPLE_TRUTHS])
            self._one_for_many = (len(truths), f"{_short(answer, _ANSWER)!r} for {shown}")


@lru_cache(maxsize=4096)
def lenient(truth: str) -> str:
    """Write a truth so that all that a grader may call equal is equal, such as 7, 7.0, $7$ and x=7."""
    text = plain_text(truth).casefold()
    for removed in ("\\left", "\\right", "\\text", "\\mathrm", "\\boxed", "\\!", "\\,", "\\ ", "\\%", "\\$", "^\\circ"):
        text = text.replace(removed, "")
    text = _FRACTION.sub(r"\1/\2", text).rpartition("=")[2]
    text = "".join(each for each in text if each not in " $%,{}()[]°").rstrip(".")
    numerator, _, denominator = text.partition("/")
    try:
        number = float(numerator) / float(denominator or 1)
    except (ValueError, ZeroDivisionError):
        return text
    return f"{number:.12g}" if math.isfinite(number) else text


def graded_before(validations: Iterable[tuple[int, Sequence[Sampled]]]) -> Iterator[tuple[int, str]]:
    """Count the answers of each validation that were graded otherwise before, and show one; "" for none.

    `validations`: step and sampled answers, in the order in which they were made.
    """
    known: dict[tuple[str, str], tuple[float, int]] = {}
    for step, sampled in validations:
        number, example = 0, ""
        for each in sampled:
            score, at = known.setdefault((each.item, each.answer), (each.score, step))
            if not math.isclose(score, each.score, rel_tol=_ALIKE, abs_tol=_ALIKE):
                number += 1
                example = example or (
                    f"{each.text!r} to {each.prompt!r} got {score:g} at step {at} and {each.score:g} at step {step}"
                )
        yield number, example


def main(order: Mapping[str, Any]) -> dict[str, Any]:
    """Summarise the validations of runs: `runs` has files by run id, in the order in which they were made.

    A run that cannot be read to the end has no summaries. After `seconds` no more is read.
    """
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, order["seconds"])
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    os.nice(10)
    found = {}
    for run_id, paths in order["runs"].items():
        try:
            found[run_id] = _summaries(os.path.expanduser(order["root"]), run_id, paths)  # noqa: PTH111
        except (TimeoutError, MemoryError):
            break
        except OSError:
            continue
    return {"runs": found}


def _stop(*_: Any) -> None:
    raise TimeoutError


def _summaries(root: str, run_id: str, paths: Sequence[str]) -> list[dict[str, Any]]:
    read = [_summary(f"{root}/runs/{run_id}/{path}") for path in paths]
    steps = [int(path.rpartition("/")[2].partition(".")[0]) for path in paths]
    sampled = [each.pop("sampled") for each in read]
    before = graded_before(zip(steps, sampled))  # noqa: B905 - of Python 3.10
    return [dict(each, graded_before=list(counted)) for each, counted in zip(read, before)]  # noqa: B905


def _summary(path: str) -> dict[str, Any]:
    """Raise OSError for what is no regular file; a pipe would wait for its writer."""
    parser, descriptor = AnswerFileParser(), os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(path)
        for data in iter(lambda: file.read(_CHUNK), b""):
            parser.feed(data)
    return parser.summary()


def excerpt(text: str, end: int) -> str:
    """Cut its middle out: what is asked stands after what all prompts begin with, and before what all end with."""
    line = " ".join(text.split())
    return line if len(line) <= 2 * end else f"{line[:end]} … {line[-end:]}"


def score_of(value: Any) -> float | None:
    """Read a number as verl averages it. Where json does not know a type of numpy, verl writes its text."""
    if isinstance(value, str):
        value = {"True": 1.0, "False": 0.0}.get(value, value)
    if not isinstance(value, (bool, int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _document(line: bytes) -> dict[str, Any]:
    """Parse a line; empty where it is no object of JSON."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


@lru_cache(maxsize=1024)
def _item(prompt: str, truth: str, source: str | None) -> bytes:
    """Digest an item once for its answers, which mostly follow each other."""
    return item_digest(prompt, [truth, source])


def _short(text: str, end: int) -> str:
    """`excerpt` of a text that may be long: only its ends are read."""
    return excerpt(text if len(text) < 1000 else f"{text[:400]} {text[-400:]}", end)


def _example(prompt: str, answer: str, truth: str) -> str:
    return f"{_short(answer, _ANSWER)!r} to {_short(prompt, _PROMPT)!r}, where {_short(truth, _ANSWER)!r} is right"
