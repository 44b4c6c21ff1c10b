"""Find the questions of the validation that the training data has, too. Of the standard library alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, List, Tuple  # noqa: UP035 - Python 3.8 has no list[…] at run time

LEAST_CORE = 12
ROLES = ("system", "user", "assistant", "tool")

Rows = List[Tuple[int, Any]]  # noqa: UP006


def chat_fault(prompt: Any) -> str:
    """Return why a prompt is no chat that waits for the model's answer; empty if it is one."""
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
        for (number, row), (asked, _) in zip(val, cored(val, key))  # noqa: B905 - of Python 3.10
    ]
    exact = [(number, found) for number, found, _ in pairs if found is not None]
    near = [(number, cores[asked]) for number, found, asked in pairs if found is None and asked in cores]
    row, train_row = (exact or near or [(0, 0)])[0]
    return {"exact": len(exact), "near": len(near), "row": row, "train_row": train_row}


def item(row: Any, key: str) -> tuple[str, str] | None:
    """Return question and truth without regard to spacing and forms of characters; None where there is no chat."""
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
