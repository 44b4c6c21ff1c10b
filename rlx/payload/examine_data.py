"""Examine the data of a recipe on its own machine, and report what is there. It judges nothing."""

from __future__ import annotations

import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_overlap import Rows, chat_fault, item, overlap
from data_rows import Refusal, expanded, read

SHOWN_ROWS = 5
SHOWN_NAMES = 20
GRADED_ROWS = 20


@dataclass(frozen=True)
class ExaminationOrder:
    """`truth`: a pattern of ground truths that can be met, empty for any. `reward`: text, function and kwargs."""

    files: dict[str, str]
    prompt_key: str
    model: str
    max_prompt_tokens: int
    truth: str = ""
    reward: dict[str, Any] | None = None


def main(fields: dict[str, Any]) -> dict[str, Any]:
    """Answers with `files` (by role), `overlap` and `not_measured`, or with `problem` and `detail`."""
    order = ExaminationOrder(**fields)
    try:
        tables = {role: rows_of(expanded(path)) for role, path in order.files.items()}
    except ModuleNotFoundError as missing:
        return {"problem": "packages", "detail": f"{missing.name}, which {sys.executable} lacks"}
    length, reason = prompt_length(order.model)
    return {
        "files": {
            role: facts(order, table, length) if isinstance(table, list) else {"unreadable": table}
            for role, table in tables.items()
        },
        "overlap": overlap(order.prompt_key, tables["train"], tables["val"]),
        "not_measured": reason,
    }


def rows_of(path: Path) -> Rows | str:
    """All rows, or why there are none."""
    try:
        return list(read(path))
    except Refusal as refusal:
        return str(refusal)
    except OSError as problem:
        return f"{path}: {problem.strerror}"


def facts(order: ExaminationOrder, table: Rows, length: Callable[[Any], int] | None) -> dict[str, Any]:
    rows = [(number, row) for number, row in table if isinstance(row, dict)]
    key = order.prompt_key
    return {
        "rows": len(table),
        "broken": faults((number, "" if isinstance(row, dict) else str(row)[:80]) for number, row in table),
        "columns": sorted({str(name) for _, row in rows for name in row})[:SHOWN_NAMES],
        "prompts": faults((number, chat_fault(row.get(key))) for number, row in rows),
        "repeats": repeats(table, key),
        "truths": faults((number, truth_fault(row, order.truth)) for number, row in rows),
        "sources": dict(Counter(str(row.get("data_source")) for _, row in rows).most_common(SHOWN_NAMES)),
        "long": too_long(rows, order, length) if length else None,
        "reward": reward_fault(rows, order.reward) if order.reward else "",
    }


def faults(found: Iterable[tuple[int, str]]) -> dict[str, Any]:
    """How many rows have one, and the first ones."""
    bad = [{"row": number, "what": what} for number, what in found if what]
    return {"count": len(bad), "first": bad[:SHOWN_ROWS]}


def truth_fault(row: dict[str, Any], pattern: str) -> str:
    model = row.get("reward_model")
    truth = model.get("ground_truth") if isinstance(model, dict) else None
    if truth is None or truth == "":
        return "no reward_model.ground_truth"
    if not pattern:
        return ""
    if not isinstance(truth, str):
        return f"ground truth {truth!r} is no text"
    return "" if re.fullmatch(pattern, truth) else f"ground truth {truth!r}"


def prompt_length(model: str) -> tuple[Callable[[Any], int] | None, str]:
    """Count the tokens of a chat as verl does, or return why they cannot be counted."""
    if not expanded(model).is_dir():
        return None, f"there is no model at {model}"
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(expanded(model)), local_files_only=True, trust_remote_code=False)
        if not tokenizer.chat_template:
            return None, f"the tokenizer of {model} has no chat template"
    except Exception as problem:  # noqa: BLE001 - any error of the user's model folder and versions
        return None, f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else model}"
    return lambda chat: len(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)), ""


def too_long(rows: Rows, order: ExaminationOrder, length: Callable[[Any], int]) -> dict[str, Any]:
    chats = ((number, row[order.prompt_key]) for number, row in rows if not chat_fault(row.get(order.prompt_key)))
    lengths = [(number, length(chat)) for number, chat in chats]
    limit = order.max_prompt_tokens
    long = faults((number, f"{tokens} tokens" if tokens > limit else "") for number, tokens in lengths)
    return {**long, "longest": max((tokens for _, tokens in lengths), default=0)}


def repeats(rows: Rows, key: str) -> dict[str, Any]:
    """Rows whose question and right answer an earlier row has, too, and the first of them."""
    first: dict[tuple[str, str], int] = {}
    bad = []
    for number, row in rows:
        asked = item(row, key)
        if asked is not None and first.setdefault(asked, number) != number:
            bad.append((number, f"again row {first[asked]}"))
    return faults(bad)


def reward_fault(rows: Rows, reward: dict[str, Any]) -> str:
    """Return what the recipe's own function does wrong on the first rows, given an answer that names the truth."""
    # Dataclasses look for their module by its name.
    module = sys.modules["rlx_reward"] = types.ModuleType("rlx_reward")
    try:
        exec(compile(reward["text"], reward["path"], "exec"), module.__dict__)
        function = module.__dict__[reward["function"]]
    except Exception as problem:  # noqa: BLE001 - the user's code
        return f"{reward['path']} cannot be loaded: {type(problem).__name__}: {problem}"
    return next(grading_faults(rows, function, reward["kwargs"]), "")


def grading_faults(rows: Rows, function: Callable[..., Any], kwargs: dict[str, Any]) -> Iterator[str]:
    for number, row in rows[:GRADED_ROWS]:
        truth = (row.get("reward_model") or {}).get("ground_truth")
        try:
            score = function(
                data_source=row.get("data_source"),
                solution_str=f"#### {truth}",
                ground_truth=truth,
                extra_info=row.get("extra_info") or {},
                **kwargs,
            )
        except Exception as problem:  # noqa: BLE001 - the user's code
            yield f"row {number}: {type(problem).__name__}: {problem}"
            continue
        value = score.get("score") if isinstance(score, dict) else score
        if not isinstance(value, int | float):
            yield f"row {number}: returns {score!r}, neither a number nor a dictionary with score"
