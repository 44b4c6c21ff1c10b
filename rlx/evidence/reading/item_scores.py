"""Scores item by item: the outputs that are kept of a validation, in the form that rlx's own evaluation writes, too.

`<step>.jsonl` has a line for each sampled answer: input, output, gts (from 0.6 on), score, step, reward, and what the
reward function told besides (acc, …). Sources: verl 0.4 to 0.9, trainer/ppo/ray_trainer.py and v1/trainer_base.py,
`_dump_generations`, and `process_validation_metrics`. Lines without `uid` stand in the order of the data, the answers
to one row together; with the trainer v1, `uid` is `<row>_<session>_<turn>`, and the rows come in random order.

Only digests of the texts are kept, and the ends of the prompts: answers may be gigabytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rlx.evidence.reading.run_files import is_count
from rlx.evidence.reading.scan import matching_lines

# The other statistics (best@k, maj@k) are drawn by bootstrap: no item has a value of its own.
_MEAN = re.compile(r"val-(?:core|aux)/(.+)/([^/]+)/mean@(\d{1,6})")
_TURN = re.compile(r"(.+_\d+)_(\d{1,9})")
_DIGEST_BYTES = 12
_AGAIN = "#"
_EXCERPT, _EXCERPT_OF_ANSWER = 90, 200


@dataclass(frozen=True, slots=True)
class ItemScores:
    """The scores of one validation by item, as many for each as the metric averages over.

    The key of an item is the digest of its prompt and its right answer, and a number where the data has both again:
    such items cannot be told apart. `source`: the data source, where the lines name it; None: they do not, and all
    sources of the validation are in here. `told_step`: the step that lines name themselves, where it is another one
    than that of their file. `prompts`: how the prompt of an item begins and ends, by its digest. `answers`: digests of
    the answers in the order of the scores, of items whose answers were kept.
    """

    step: int
    scores: Mapping[str, tuple[float, ...]]
    source: str | None = None
    told_step: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)

    def prompt(self, item: str) -> str:
        """The text that a person recognises an item by; "" where it is not known."""
        return self.prompts.get(item.partition(_AGAIN)[0], "")

    @property
    def means(self) -> dict[str, float]:
        """The mean score of each item."""
        return {item: fmean(scores) for item, scores in self.scores.items()}

    @property
    def mean(self) -> float:
        """The mean over items of their means: what the metric is."""
        return fmean(self.means.values())


@dataclass(frozen=True, slots=True)
class ItemTexts:
    """The right answer to an item, "" where the run does not keep it, and the beginnings and ends of those given."""

    expected: str
    answers: tuple[str, ...]


class Wanted(NamedTuple):
    """The scores that a metric is the mean of: `samples` values of `variable` for each item of `source`."""

    source: str
    variable: str
    samples: int


class _Answer(NamedTuple):
    """One line. `row` and `session` are "" where the line has no uid, `output`, a digest, where it has no text.

    `text` and `expected` are kept of the items that somebody reads.
    """

    item: str
    row: str
    session: str
    turn: int
    score: float
    prompt: str
    step: int | None
    output: str
    text: str = ""
    expected: str = ""


def wanted_scores(metric: str) -> Wanted | None:
    """Say what `val-core/openai/gsm8k/acc/mean@1` is the mean of; None for a metric that no item has a share in."""
    match = _MEAN.fullmatch(metric)
    return Wanted(match[1], match[2], int(match[3])) if match and int(match[3]) else None


def read_items(folder: Path, step: int, metric: str) -> ItemScores | None:
    """The scores behind the value of `metric` at `step`, from `<step>.jsonl` in the folder of validation outputs.

    None where the run did not keep them, or no line has what this metric averages. A line that cannot be read, such
    as a torn last one, is left out, and so is an item without as many answers as the metric takes: verl leaves it out
    too, or counts zeros in its place, and then the mean tells.
    """
    wanted = wanted_scores(metric)
    if wanted is None:
        return None
    try:
        answers, sources = _read(folder / f"{step}.jsonl", wanted)
    except OSError:
        return None
    items = _numbered(_by_row(answers, wanted.samples), wanted.samples)
    scores = {item: tuple(each.score for each in found) for item, found in items.items()}
    texts = {item: tuple(each.output for each in found) for item, found in items.items()}
    told_answers = {item: found for item, found in texts.items() if all(found)}
    prompts = {answer.item: answer.prompt for answer in answers}
    told = next((answer.step for answer in answers if answer.step not in (None, step)), None)
    source = wanted.source if sources else None
    return ItemScores(step, scores, source, told, prompts, told_answers) if items else None


def read_texts(folder: Path, step: int, metric: str, items: Collection[str]) -> dict[str, ItemTexts]:
    """What was answered to these items, shortened, in the order of their scores; without those that are not there."""
    wanted = wanted_scores(metric)
    if wanted is None:
        return {}
    try:
        answers, _ = _read(folder / f"{step}.jsonl", wanted, {item.partition(_AGAIN)[0] for item in items})
    except OSError:
        return {}
    found = _numbered(_by_row(answers, wanted.samples), wanted.samples)
    return {
        item: ItemTexts(each[0].expected, tuple(answer.text for answer in each))
        for item, each in found.items()
        if item in items
    }


def _read(path: Path, wanted: Wanted, to_read: Collection[str] = ()) -> tuple[list[_Answer], bool]:
    """The answers of the wanted source, and whether the lines name their sources."""
    answers: list[_Answer] = []
    named = False
    for line in _documents(path):
        source = line.get("data_source")
        named |= isinstance(source, str)
        if isinstance(source, str) and source != wanted.source:
            continue
        if (answer := _answer(line, wanted.variable, to_read)) is not None:
            answers.append(answer)
    return answers, named


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        for line in matching_lines(stream, (b'"input"',), last_line_complete=True):
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict):
                yield document


def _answer(line: Mapping[str, Any], variable: str, to_read: Collection[str]) -> _Answer | None:
    # The reward that verl averages is written as `score`, and again as `reward`.
    value = line.get("score") if variable == "reward" and "reward" not in line else line.get(variable)
    score, prompt = _score(value), line.get("input")
    if score is None or not isinstance(prompt, str):
        return None
    session, turn = _session(line.get("uid"))
    item = _digest(prompt, line.get("gts"))
    told = line.get("step")
    step = told if is_count(told) else None
    row, text = session.rpartition("_")[0], line.get("output")
    output = _digest(text, None) if isinstance(text, str) else ""
    texts = (_text_of(text), _text_of(line.get("gts"))) if item in to_read else ("", "")
    return _Answer(item, row, session, turn, score, _excerpt(prompt), step, output, *texts)


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    return _excerpt(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _EXCERPT_OF_ANSWER)


def _excerpt(text: str, end: int = _EXCERPT) -> str:
    """Cut its middle out: what is asked stands after what all prompts begin with, and before what all end with."""
    line = " ".join(text.split())
    return line if len(line) <= 2 * end else f"{line[:end]} … {line[-end:]}"


def _session(uid: Any) -> tuple[str, int]:
    """(`<row>_<session>`, turn) of a uid as verl's second trainer writes it; ("", 0) for anything else."""
    match = _TURN.fullmatch(uid) if isinstance(uid, str) else None
    return (match[1], int(match[2])) if match else ("", 0)


def _score(value: Any) -> float | None:
    """A number as verl averages it. Where json does not know a type of numpy, verl writes its text."""
    if isinstance(value, str):
        value = {"True": 1.0, "False": 0.0}.get(value, value)
    if not isinstance(value, (bool, int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _digest(prompt: str, answer: Any) -> str:
    text = json.dumps([prompt, answer], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _by_row(answers: list[_Answer], samples: int) -> Iterator[tuple[str, list[_Answer]]]:
    """(item, answers) of each row of the data, in the order of the file."""
    rows: dict[tuple[str, str], list[_Answer]] = defaultdict(list)
    for answer in _last_turns(answers):
        rows[answer.item, answer.row].append(answer)
    for (item, row), found in rows.items():
        size = len(found) if row else samples
        yield from ((item, found[start : start + size]) for start in range(0, len(found), size))


def _last_turns(answers: list[_Answer]) -> list[_Answer]:
    """A conversation has a line a turn, each with the score of the whole: the last one stands for it."""
    last: dict[str, int] = {}
    for answer in answers:
        last[answer.session] = max(answer.turn, last.get(answer.session, 0))
    return [answer for answer in answers if not answer.row or answer.turn == last[answer.session]]


def _numbered(rows: Iterator[tuple[str, list[_Answer]]], samples: int) -> dict[str, list[_Answer]]:
    seen: Counter[str] = Counter()
    items = {}
    for item, answers in rows:
        if len(answers) == samples and all(math.isfinite(answer.score) for answer in answers):
            seen[item] += 1
            items[item if seen[item] == 1 else f"{item}{_AGAIN}{seen[item]}"] = answers
    return items
