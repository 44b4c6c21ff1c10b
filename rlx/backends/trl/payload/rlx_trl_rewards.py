"""The recipe's reward function under TRL, and what it said of each answer of a validation."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlx_trl_rows import TrlRow


class Rewards:
    """Grades answers by a function with verl's arguments: data_source, solution_str, ground_truth, extra_info.

    A number is score and accuracy at once; a dictionary has `score`, and `acc` if that is something else. TRL trains on
    the score.
    """

    def __init__(self, reward: dict[str, Any], rows: dict[str, list[TrlRow]]) -> None:
        self._function, self._kwargs = _function(reward), reward["kwargs"]
        self._rows = rows
        self.answers: list[dict[str, Any]] = []  # of the validation that is under way

    def acc(self, completions: Sequence[Any], row: Sequence[int], split: Sequence[str], **_: Any) -> list[float]:
        """TRL's call: the score of each answer. Its name becomes that of TRL's own metrics (rewards/acc/mean)."""
        return [self._graded(*each) for each in zip(completions, row, split, strict=True)]

    def _graded(self, completion: Any, number: int, split: str) -> float:
        row, output = self._rows[split][number], completion[0]["content"]
        told = self._told(row, output)
        if split == "val":
            line = {"input": row.text, "output": output, "gts": row.truth, **told, "reward": told["score"]}
            self.answers.append({**line, "data_source": row.source})
        return float(told["score"])

    def _told(self, row: TrlRow, output: str) -> dict[str, Any]:
        result = self._function(
            data_source=row.source,
            solution_str=output,
            ground_truth=row.truth,
            extra_info=dict(row.extra),
            **self._kwargs,
        )
        result = asyncio.run(result) if inspect.iscoroutine(result) else result
        told = dict(result) if isinstance(result, dict) else {"score": result}
        if not math.isfinite(float(told["score"])):
            raise ValueError(f"the reward function returns {result!r}, which has no number score")
        return told


def _function(reward: dict[str, Any]) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("rlx_trl_reward", Path(__file__).with_name(reward["file"]))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, reward["function"])
    return function
