"""Read the answers that the validations of a run kept, or the summary of them that their host made.

Where only the number of answers is copied here, `SUMMARY_FILE` beside the counts says what the host's files hold:
`rlx.payload.answer_summary` makes the same summary on both machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlx.evidence.cache.parser_state import parse_file
from rlx.evidence.cache.sections import Store
from rlx.evidence.reading.timeline import Timeline
from rlx.evidence.run_evidence import NO_ANSWERS, Counted, KeptAnswers, Replayed
from rlx.payload import answer_summary
from rlx.payload.answer_summary import RULES, Sampled, graded_before

SUMMARY_FILE = "answers.json"


@dataclass(frozen=True, slots=True)
class FileAnswers:
    """What one file holds: its summary, and the answers that are compared with those of other files."""

    kept: KeptAnswers
    sampled: Sequence[Sampled] = ()


class AnswersParser(answer_summary.AnswerFileParser):
    """Reads the lines of one validation as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = RULES
        self.timeline = Timeline("", 1)

    def found(self) -> FileAnswers:
        """Return what was read."""
        summary = self.summary()
        return FileAnswers(kept_of(summary), summary["sampled"])


def kept_of(summary: Mapping[str, Any]) -> KeptAnswers:
    """Read one summary. Raises KeyError, TypeError or ValueError for anything else."""
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
    """Read what each validation kept, by step: `<step>.jsonl`, where it can be read. `grows`: as of `parse_file`."""
    found, summaries = {}, _summaries(folder)
    for path in folder.glob("*.jsonl"):
        if path.stem.isdecimal():
            try:
                read = parse_file(path, AnswersParser, states, grows=grows).found()
            except OSError:
                continue
            found[int(path.stem)] = _completed(read, summaries.get(path.name))
    return found


def _completed(read: FileAnswers, there: KeptAnswers | None) -> FileAnswers:
    """Add what the host says of answers of which only the number is here, and of those that are compared there."""
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
    """Find the answers that were graded in two ways: of one step the later file counts.

    `validations`: in the order in which they were made.
    """
    made = list(validations)
    before = graded_before((step, file.sampled) for step, file in made)
    return {
        step: replace(file.kept, graded_before=Counted(*counted)) if counted[0] else file.kept
        for (step, file), counted in zip(made, before, strict=True)
    }
