"""Looks at the data of a recipe where it lies, and tells what is there. What that means is decided elsewhere."""

from __future__ import annotations

import re
import sys
import types
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from data_rows import Refusal, expanded, read

SHOWN_ROWS = 5
SHOWN_NAMES = 20
GRADED_ROWS = 20
LEAST_CORE = 12
ROLES = ("system", "user", "assistant", "tool")

Rows = list[tuple[int, Any]]


@dataclass(frozen=True)
class Order:
    """`truth`: a pattern of ground truths that can be met, empty for any. `reward`: text, function and kwargs."""

    files: dict[str, str]
    prompt_key: str
    model: str
    max_prompt_tokens: int
    truth: str = ""
    reward: dict[str, Any] | None = None


def main(fields: dict[str, Any]) -> dict[str, Any]:
    """Answers with `files` (by role), `overlap` and `not_measured`, or with `problem` and `detail`."""
    order = Order(**fields)
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


def facts(order: Order, table: Rows, length: Callable[[Any], int] | None) -> dict[str, Any]:
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


def chat_fault(prompt: Any) -> str:
    """What keeps a prompt from being a chat that is the model's turn; empty if nothing does."""
    if not isinstance(prompt, list) or not prompt:
        return "text instead of messages" if isinstance(prompt, str) else "no messages"
    for message in prompt:
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            return "a message without role and content"
        if message["role"] not in ROLES:
            return f"unknown role {message['role']!r}"
        if not isinstance(message["content"], str) or not message["content"].strip():
            return f"a message of the {message['role']} without text"
    return "the last message is the model's own" if prompt[-1]["role"] == "assistant" else ""


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
    """Tokens of a chat as verl counts them, or why nobody can count."""
    if not expanded(model).is_dir():
        return None, f"there is no model at {model}"
    try:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(expanded(model)), local_files_only=True, trust_remote_code=False)
        if not tokenizer.chat_template:
            return None, f"the tokenizer of {model} has no chat template"
    except Exception as problem:  # noqa: BLE001 - whatever somebody's model folder and versions bring about
        return None, f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else model}"
    return lambda chat: len(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)), ""


def too_long(rows: Rows, order: Order, length: Callable[[Any], int]) -> dict[str, Any]:
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


def overlap(key: str, train: Rows | str, val: Rows | str) -> dict[str, Any] | None:
    """Rows of the validation whose question and right answer the training has, too.

    `exact`: word for word. `near`: with other words around, the same before or after each question of a file, or in a
    system message. `row`, `train_row`: an example.
    """
    if isinstance(train, str) or isinstance(val, str):
        return None
    known = {asked: number for number, row in reversed(train) if (asked := item(row, key)) is not None}
    cores = {asked: number for asked, number in reversed(list(cored(train, key))) if asked is not None}
    pairs = [
        (number, known.get(item(row, key) or ("", "")), asked)
        for (number, row), (asked, _) in zip(val, cored(val, key), strict=True)
    ]
    exact = [(number, found) for number, found, _ in pairs if found is not None]
    near = [(number, cores[asked]) for number, found, asked in pairs if found is None and asked in cores]
    row, train_row = (exact or near or [(0, 0)])[0]
    return {"exact": len(exact), "near": len(near), "row": row, "train_row": train_row}


def item(row: Any, key: str) -> tuple[str, str] | None:
    """What is asked and what is right, whatever spacing and forms of characters; None where there is no chat."""
    if not isinstance(row, dict) or chat_fault(row.get(key)):
        return None
    return plain(" ".join(message["content"] for message in row[key])), right_answer(row)


def right_answer(row: dict[str, Any]) -> str:
    graded = row.get("reward_model")
    truth = graded.get("ground_truth") if isinstance(graded, dict) else None
    return plain(truth) if isinstance(truth, str) else repr(truth)


def cored(rows: Rows, key: str) -> Iterator[tuple[tuple[str, str] | None, int]]:
    """(question without what all questions of the file begin and end with, right answer) and number of each row.

    None where little is left: short rests are alike by chance.
    """
    asked = {number: without_system(row, key) for number, row in rows}
    texts = [text.split() for text in asked.values() if text]
    before, after = common(texts), common([text[::-1] for text in texts])
    for number, row in rows:
        words = asked[number].split()
        core = " ".join(words[before : max(before, len(words) - after)])
        yield ((core, right_answer(row)) if len(core) >= LEAST_CORE else None), number


def without_system(row: Any, key: str) -> str:
    if item(row, key) is None:
        return ""
    return plain(" ".join(message["content"] for message in row[key] if message["role"] != "system"))


def common(texts: list[list[str]]) -> int:
    """How many words all texts begin with; 0 for a single one."""
    first, last = min(texts, default=[]), max(texts, default=[])
    if first == last:
        return 0
    return next(place for place, words in enumerate(zip_longest(first, last)) if words[0] != words[1])


def plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def reward_fault(rows: Rows, reward: dict[str, Any]) -> str:
    """What the recipe's own function does wrong on the first rows, asked about an answer that names the truth."""
    # Dataclasses look for their module by its name.
    module = sys.modules["rlx_reward"] = types.ModuleType("rlx_reward")
    try:
        exec(compile(reward["text"], reward["path"], "exec"), module.__dict__)
        function = module.__dict__[reward["function"]]
    except Exception as problem:  # noqa: BLE001 - somebody's code
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
        except Exception as problem:  # noqa: BLE001 - somebody's code
            yield f"row {number}: {type(problem).__name__}: {problem}"
            continue
        value = score.get("score") if isinstance(score, dict) else score
        if not isinstance(value, int | float):
            yield f"row {number}: returns {score!r}, neither a number nor a dictionary with score"
