"""Grades answers: by the reward function of the recipe, by verl's own choice, or by the rule of GSM8K."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlx_eval_order import EvalFailure, EvalOrder
from rlx_eval_rows import EvalRow

Grade = Callable[[EvalRow, str], "dict[str, Any]"]
"""What is told of an answer: `score`, `acc`, and whatever else the function says. Raises EvalFailure."""

# As verl's reward_score/gsm8k.py, strict: the last `#### number` among the last 300 characters, without commas.
_ANSWER = re.compile(r"#### (-?[0-9.,]+)")
_LAST_CHARACTERS = 300


def gsm8k(solution_str: str, ground_truth: str, **_: Any) -> float:
    """1 for the right number after `####`, else 0."""
    found = _ANSWER.findall(solution_str[-_LAST_CHARACTERS:])
    return float(bool(found) and found[-1].replace(",", "") == ground_truth)


def load_reward(order: EvalOrder) -> Grade:
    """Load the recipe's reward function as a grader. Raises EvalFailure if that is impossible."""
    function, kwargs = _function(order.reward), order.reward.get("kwargs") or {}

    def grade(row: EvalRow, output: str) -> dict[str, Any]:
        try:
            result = function(
                data_source=row.source,
                solution_str=output,
                ground_truth=row.truth,
                extra_info=dict(row.extra),
                **kwargs,
            )
            result = asyncio.run(result) if inspect.iscoroutine(result) else result
        except Exception as problem:  # noqa: BLE001 - the user's code
            raise EvalFailure(
                f"row {row.number}: the reward function fails: {type(problem).__name__}: {problem}"
            ) from None
        return _told(result, row)

    return grade


def _told(result: Any, row: EvalRow) -> dict[str, Any]:
    """As verl's naive reward manager reads it: a number is score and accuracy at once."""
    told = dict(result) if isinstance(result, dict) else {"score": result}
    told.setdefault("acc", told.get("score"))
    for name in ("score", "acc"):
        try:
            finite = math.isfinite(float(told[name]))
        except (KeyError, TypeError, ValueError):
            finite = False
        if not finite:
            raise EvalFailure(f"row {row.number}: the reward function returns {result!r}, which has no number {name}")
        told[name] = float(told[name])
    return told


def _function(reward: dict[str, Any]) -> Callable[..., Any]:
    if reward.get("name") == "gsm8k":
        return gsm8k
    try:
        return _of_verl() if "name" in reward else _of_file(reward)
    except Exception as problem:  # noqa: BLE001 - the user's code
        raise EvalFailure(f"the reward function cannot be loaded: {type(problem).__name__}: {problem}") from None


def _of_verl() -> Callable[..., Any]:
    """Grade as verl does, by the source of each row."""
    from verl.utils.reward_score import default_compute_score

    function: Callable[..., Any] = default_compute_score
    return function


def _of_file(reward: dict[str, Any]) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("rlx_eval_reward", Path(__file__).with_name(reward["file"]))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, reward["function"])
    return function
