"""Read what the reward function of a rehearsal was asked, and what it answered (payload/rehearsed_reward.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RewardCalls:
    """`count` calls, `failed` of them without a number; `error` is the first failure. `low` to `high` are the scores.

    `not_finite`: calls whose score was NaN or infinite. `seconds`: mean of a call.
    """

    count: int = 0
    failed: int = 0
    not_finite: int = 0
    error: str = ""
    low: float | None = None
    high: float | None = None
    seconds: float = 0.0


def read_reward_calls(attempt: Path) -> RewardCalls:
    """All calls of an attempt. A line that was cut off is no call."""
    calls = list(_calls(attempt / "rewards"))
    errors = [str(call["error"]) for call in calls if "error" in call]
    scores = [float(call["score"]) for call in calls if call.get("score") is not None]
    return RewardCalls(
        count=len(calls),
        failed=len(errors),
        not_finite=len(calls) - len(errors) - len(scores),
        error=errors[0] if errors else "",
        low=min(scores, default=None),
        high=max(scores, default=None),
        seconds=sum(float(call["seconds"]) for call in calls) / len(calls) if calls else 0.0,
    )


def _calls(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                call = json.loads(line)
            except ValueError:
                continue
            if isinstance(call, dict):
                yield call
