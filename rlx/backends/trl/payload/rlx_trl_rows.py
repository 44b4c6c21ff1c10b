"""The rows of both data sets, in the form in which verl's recipes have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from data_rows import expanded, read
from datasets import Dataset


@dataclass(frozen=True)
class TrlRow:
    """A chat that is the model's turn: as messages and as text, and what its answer is checked against."""

    chat: list[dict[str, str]]
    text: str
    truth: Any
    source: str
    extra: dict[str, Any]


def read_rows(order: dict[str, Any], tokenizer: Any, split: str) -> list[TrlRow]:
    """All rows of a split. Raises ValueError for a row without chat or ground truth, or with too long a prompt."""
    data = order["data"]
    path = expanded(data[split])
    rows = [_row(path, number, content, data, tokenizer) for number, content in read(path)]
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows


def _row(path: object, number: int, content: Any, data: dict[str, Any], tokenizer: Any) -> TrlRow:
    row = content if isinstance(content, dict) else {}
    chat, graded = row.get(data["prompt_key"]), row.get("reward_model")
    if not isinstance(chat, list) or not chat:
        raise ValueError(f"{path}, row {number}: no chat in the column {data['prompt_key']}")
    if not isinstance(graded, dict) or graded.get("ground_truth") is None:
        raise ValueError(f"{path}, row {number}: no reward_model.ground_truth to grade by")
    tokens = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
    if len(tokens) > data["max_prompt_tokens"]:
        most = data["max_prompt_tokens"]
        raise ValueError(
            f"{path}, row {number}: a prompt of {len(tokens)} tokens, and data.max_prompt_tokens is {most}"
        )
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    return TrlRow(chat, text, graded["ground_truth"], str(row.get("data_source")), row.get("extra_info") or {})


def dataset(rows: list[TrlRow], split: str) -> Dataset:
    """Return what TRL reads: the chats, and the row and split by which the reward finds the rest."""
    return Dataset.from_list([{"prompt": row.chat, "row": i, "split": split} for i, row in enumerate(rows)])
