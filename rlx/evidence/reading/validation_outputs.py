"""Read the answers that validations kept: their scores item by item, and what they show of the grader.

`<step>.jsonl` has a line for each sampled answer: input, output, gts (from 0.6 on), score, step, reward, and what the
reward function returned besides (acc, …). rlx's own evaluation writes the same format. Sources: verl 0.4 to 0.9,
trainer/ppo/ray_trainer.py and v1/trainer_base.py, `_dump_generations`, and `process_validation_metrics`. Lines without
`uid` are in the order of the data, the answers to one row together; with the trainer v1, `uid` is
`<row>_<session>_<turn>`, and the rows come in random order.

Only digests of the texts are kept, and the ends of the prompts: answers may be gigabytes. Where only the number of
answers is copied to this machine, `SUMMARY_FILE` beside the counts summarises the host's files:
`rlx.payload.answer_summary` makes the same summary on both machines.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rlx.evidence.cache.kept_sections import Store
from rlx.evidence.cache.parser_state import parse_file
from rlx.evidence.reading.metrics_file import is_count
from rlx.evidence.reading.scan import matching_lines
from rlx.evidence.reading.timeline import Timeline
from rlx.evidence.run_evidence import NO_ANSWERS, Counted, KeptAnswers, Replayed
from rlx.payload import answer_summary
from rlx.payload.answer_summary import RULES, Sampled, excerpt, graded_before, score_of
from rlx.payload.item_identity import ITEM_BYTES, SmallestIds, item_digest, session_of, text_digest

# The other statistics (best@k, maj@k) are drawn by bootstrap: no item has a value of its own.
_MEAN = re.compile(r"val-(?:core|aux)/(.+)/([^/]+)/mean@(\d{1,6})")
_EXCERPT, _EXCERPT_OF_ANSWER = 90, 200
SUMMARY_FILE = "answers.json"


@dataclass(frozen=True, slots=True)
class ItemScores:
    """The scores of one validation by item: of each of its rows as many as the metric averages over.

    The key of an item is the digest of its prompt and its right answer. Rows with both equal are one item: they cannot
    be distinguished, and their answers are not a further sample. `repeats`: the number of rows of each item that has
    several. `source`: the data source, where the lines name it; None: they do not, and all sources of the validation
    are included. `told_step`: the step that the lines state themselves, where it differs from that of their file.
    `prompts`: how the prompt of an item begins and ends, by its digest. `answers`: digests of the answers in the order
    of the scores, of items whose answers were kept. `ids`: the smallest digests of the unique ids of the whole file.
    """

    step: int
    scores: Mapping[str, tuple[float, ...]]
    source: str | None = None
    told_step: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    repeats: Mapping[str, int] = field(default_factory=dict)
    ids: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def prompt(self, item: str) -> str:
        """Return the text by which a person recognises an item; "" where it is not known."""
        return self.prompts.get(item, "")

    @property
    def means(self) -> dict[str, float]:
        """The mean score of each item."""
        return {item: fmean(scores) for item, scores in self.scores.items()}

    @property
    def rows(self) -> int:
        """The number of rows, of which several may be one item."""
        return len(self.scores) + sum(self.repeats.values()) - len(self.repeats)

    @property
    def mean(self) -> float:
        """The mean over all rows: what the metric is."""
        return fmean(score for scores in self.scores.values() for score in scores)


@dataclass(frozen=True, slots=True)
class ItemTexts:
    """The right answer to an item, "" where the run does not keep it, and the given answers, shortened."""

    expected: str
    answers: tuple[str, ...]


class ScoreSource(NamedTuple):
    """The scores that a metric is the mean of: `samples` values of `variable` for each item of `source`."""

    source: str
    variable: str
    samples: int


class _AnswerLine(NamedTuple):
    """One line. `row` and `session` are "" where the line has no uid, `output`, a digest, where it has no text.

    `text` and `expected` are kept of the requested items only.
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


def wanted_scores(metric: str) -> ScoreSource | None:
    """Parse what `val-core/openai/gsm8k/acc/mean@1` is the mean of; None for a metric that is not a mean of items."""
    match = _MEAN.fullmatch(metric)
    return ScoreSource(match[1], match[2], int(match[3])) if match and int(match[3]) else None


def read_items(folder: Path, step: int, metric: str) -> ItemScores | None:
    """Read the scores of the value of `metric` at `step`, from `<step>.jsonl` in the folder of validation outputs.

    None where the run did not keep them, or no line has what this metric averages. A line that cannot be read, such as
    a truncated last one, is left out, and so is an item with fewer answers than the metric takes: verl leaves it out
    too, or counts zeros in its place, and then the mean shows it.
    """
    wanted = wanted_scores(metric)
    if wanted is None:
        return None
    try:
        answers, sources, ids = _read(folder / f"{step}.jsonl", wanted)
    except OSError:
        return None
    items = _by_item(_by_row(answers, wanted.samples), wanted.samples)
    repeats = {item: len(found) // wanted.samples for item, found in items.items() if len(found) > wanted.samples}
    scores = {item: tuple(each.score for each in found) for item, found in items.items()}
    texts = {item: tuple(each.output for each in found) for item, found in items.items()}
    told_answers = {item: found for item, found in texts.items() if all(found)}
    prompts = {answer.item: answer.prompt for answer in answers}
    told = next((answer.step for answer in answers if answer.step not in (None, step)), None)
    source = wanted.source if sources else None
    return ItemScores(step, scores, source, told, prompts, told_answers, repeats, ids) if items else None


def read_texts(folder: Path, step: int, metric: str, items: Collection[str]) -> dict[str, ItemTexts]:
    """Read the answers to these items, shortened, in the order of their scores; items without any are left out."""
    wanted = wanted_scores(metric)
    if wanted is None:
        return {}
    try:
        answers, *_ = _read(folder / f"{step}.jsonl", wanted, items)
    except OSError:
        return {}
    found = _by_item(_by_row(answers, wanted.samples), wanted.samples)
    return {
        item: ItemTexts(each[0].expected, tuple(answer.text for answer in each))
        for item, each in found.items()
        if item in items
    }


def _read(
    path: Path, wanted: ScoreSource, to_read: Collection[str] = ()
) -> tuple[list[_AnswerLine], bool, tuple[str, ...]]:
    """Return the answers of the source, whether the lines name their sources, and the smallest ids of all lines."""
    answers: list[_AnswerLine] = []
    named, ids = False, SmallestIds()
    for line in _documents(path):
        ids.add(line.get("uid"))
        source = line.get("data_source")
        named |= isinstance(source, str)
        if isinstance(source, str) and source != wanted.source:
            continue
        if (answer := _answer(line, wanted.variable, to_read)) is not None:
            answers.append(answer)
    return answers, named, ids.kept


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        for line in matching_lines(stream, (b'"input"',), last_line_complete=True):
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(document, dict):
                yield document


def _answer(line: Mapping[str, Any], variable: str, to_read: Collection[str]) -> _AnswerLine | None:
    # The reward that verl averages is written as `score`, and again as `reward`.
    value = line.get("score") if variable == "reward" and "reward" not in line else line.get(variable)
    score, prompt = score_of(value), line.get("input")
    if score is None or not isinstance(prompt, str):
        return None
    session, turn = session_of(line.get("uid"))
    item = item_digest(prompt, line.get("gts")).hex()
    told = line.get("step")
    step = told if is_count(told) else None
    row, text = session.rpartition("_")[0], line.get("output")
    output = text_digest(text, ITEM_BYTES).hex() if isinstance(text, str) else ""
    texts = (_text_of(text), _text_of(line.get("gts"))) if item in to_read else ("", "")
    return _AnswerLine(item, row, session, turn, score, excerpt(prompt, _EXCERPT), step, output, *texts)


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    return excerpt(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _EXCERPT_OF_ANSWER)


def _by_row(answers: list[_AnswerLine], samples: int) -> Iterator[tuple[str, list[_AnswerLine]]]:
    """Yield (item, answers) of each row of the data, in the order of the file."""
    rows: dict[tuple[str, str], list[_AnswerLine]] = defaultdict(list)
    for answer in _last_turns(answers):
        rows[answer.item, answer.row].append(answer)
    for (item, row), found in rows.items():
        size = len(found) if row else samples
        yield from ((item, found[start : start + size]) for start in range(0, len(found), size))


def _last_turns(answers: list[_AnswerLine]) -> list[_AnswerLine]:
    """Keep the last turn of each conversation, which has a line per turn, each with the score of the whole."""
    last: dict[str, int] = {}
    for answer in answers:
        last[answer.session] = max(answer.turn, last.get(answer.session, 0))
    return [answer for answer in answers if not answer.row or answer.turn == last[answer.session]]


def _by_item(rows: Iterator[tuple[str, list[_AnswerLine]]], samples: int) -> dict[str, list[_AnswerLine]]:
    items: dict[str, list[_AnswerLine]] = defaultdict(list)
    for item, answers in rows:
        if len(answers) == samples and all(math.isfinite(answer.score) for answer in answers):
            items[item] += answers
    return dict(items)


@dataclass(frozen=True, slots=True)
class FileAnswers:
    """The content of one file: its summary, and the answers that are compared with those of other files."""

    kept: KeptAnswers
    sampled: Sequence[Sampled] = ()


class ValidationParser(answer_summary.AnswerFileParser):
    """Parses the lines of one validation in pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = RULES
        self.timeline = Timeline("", 1)

    def found(self) -> FileAnswers:
        """Return what was read."""
        summary = self.summary()
        return FileAnswers(kept_of(summary), summary["sampled"])


def kept_of(summary: Mapping[str, Any]) -> KeptAnswers:
    """Parse one summary. Raises KeyError, TypeError or ValueError for anything else."""
    return KeptAnswers(
        answers=int(summary["answers"]),
        read=int(summary["read"]),
        items=None if summary["items"] is None else int(summary["items"]),
        digest=str(summary["digest"]),
        ids=tuple(map(str, summary["ids"])),
        sources=tuple(map(str, summary["sources"])),
        is_multi_turn=bool(summary["is_multi_turn"]),
        replays={
            str(name): Replayed(int(right), int(wrong), _counted(refused), _counted(accepted))
            for name, (right, wrong, refused, accepted) in summary["replays"].items()
        },
        one_for_many=_counted(summary["one_for_many"]),
        graded_before=_counted(summary.get("graded_before", NO_ANSWERS)),
    )


def _counted(value: Any) -> Counted:
    number, example = value
    return Counted(int(number), str(example))


def read_answers(folder: Path, states: Store | None = None, *, grows: bool = True) -> dict[int, FileAnswers]:
    """Read what each validation kept, by step: `<step>.jsonl`, where it can be read. `grows`: as in `parse_file`."""
    found, summaries = {}, _summaries(folder)
    for path in folder.glob("*.jsonl"):
        if path.stem.isdecimal():
            try:
                read = parse_file(path, ValidationParser, states, grows=grows).found()
            except OSError:
                continue
            found[int(path.stem)] = _completed(read, summaries.get(path.name))
    return found


def _completed(read: FileAnswers, there: KeptAnswers | None) -> FileAnswers:
    """Add the host's summary of answers of which only the number is here, and of those that are compared there."""
    if there is None or there.answers != read.kept.answers:
        return read
    if read.kept.read:
        return FileAnswers(replace(read.kept, graded_before=there.graded_before))
    return FileAnswers(there)


def _summaries(folder: Path) -> dict[str, KeptAnswers]:
    try:
        document = json.loads((folder / SUMMARY_FILE).read_bytes())
        if document["rules"] != RULES:
            return {}
        return {str(name): kept_of(summary) for name, summary in document["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}


def compared_answers(validations: Iterable[tuple[int, FileAnswers]]) -> dict[int, KeptAnswers]:
    """Find the answers that were graded differently before: of one step the later file counts.

    `validations`: in the order in which they were made.
    """
    made = list(validations)
    before = graded_before((step, file.sampled) for step, file in made)
    return {
        step: replace(file.kept, graded_before=Counted(*counted)) if counted[0] else file.kept
        for (step, file), counted in zip(made, before, strict=True)
    }
