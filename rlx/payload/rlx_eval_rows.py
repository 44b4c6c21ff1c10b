"""The held-out rows, in the form in which verl reads its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from data_rows import Refusal, expanded, read
from rlx_eval_order import EvalFailure, EvalOrder


@dataclass(frozen=True)
class EvalRow:
    """A chat that is the model's turn, and what its answer is checked against."""

    number: int
    chat: list[dict[str, str]]
    truth: Any
    source: str
    extra: dict[str, Any]


def read_rows(order: EvalOrder) -> list[EvalRow]:
    """Read all rows. Raises EvalFailure for a missing file, another number of rows, or a row without a question."""
    path = expanded(order.rows)
    try:
        rows = [_row(order, number, content) for number, content in read(path)]
    except Refusal as refusal:
        raise EvalFailure(str(refusal)) from None
    except OSError as problem:
        raise EvalFailure(f"{path}: {problem.strerror}") from None
    if order.row_count not in (None, len(rows)):
        raise EvalFailure(f"{path} has {len(rows)} rows, and eval.post.row_count says {order.row_count}")
    if not rows:
        raise EvalFailure(f"{path} has no rows")
    return rows


def _row(order: EvalOrder, number: int, content: Any) -> EvalRow:
    """Of every row, so that none is dropped in silence: both arms must have answered the same ones."""
    row = content if isinstance(content, dict) else {}
    chat, graded = row.get(order.prompt_key), row.get("reward_model")
    if not isinstance(chat, list) or not chat or not all(_is_message(message) for message in chat):
        raise EvalFailure(f"{order.rows}, row {number}: no chat in the column {order.prompt_key}")
    if not isinstance(graded, dict) or graded.get("ground_truth") is None:
        raise EvalFailure(f"{order.rows}, row {number}: no reward_model.ground_truth to grade by")
    return EvalRow(number, chat, graded["ground_truth"], str(row.get("data_source")), row.get("extra_info") or {})


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str)
    )
