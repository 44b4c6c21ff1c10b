"""Rule graders that rlx replays on the answers that a run kept.

A replay says of an answer whether the grader must call it right (True) or wrong (False); None where the text that was
kept does not decide it: the trainer may leave out special tokens, and a grader may call more answers equal.
Sources: verl 0.6 to 0.9, utils/reward_score/gsm8k.py and math_reward.py; recipes/tiny-cpu/reward.py of rlx.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Replay = Callable[[str, str], bool | None]
"""An answer and what is right -> whether the answer is."""

EXACT, GSM8K, BOXED = "exact", "gsm8k", "boxed"
_END = "<|im_end|>"
_ANSWER = re.compile(r"#### (-?[0-9.,]+)")
_LAST_CHARACTERS = 300
_MARGIN = 40
_BOX, _OTHER_BOXES = "\\boxed{", ("\\boxed ", "\\fbox")


def _exact(answer: str, truth: str) -> bool | None:
    return answer.removesuffix(_END).strip() == truth


def _gsm8k(answer: str, truth: str) -> bool | None:
    if "####" not in answer:
        return False
    found = list(_ANSWER.finditer(answer))
    if not any(match[1].replace(",", "") == truth for match in found):
        return False
    last, window = found[-1], max(0, len(answer) - _LAST_CHARACTERS)
    # Special tokens that were left out move the window of the grader.
    is_sure = window == 0 or last.start() >= window + _MARGIN
    return True if last[1].replace(",", "") == truth and is_sure else None


def _boxed(answer: str, truth: str) -> bool | None:
    """Two texts that are equal are equal for every grader; of others only the grader can tell."""
    start = answer.rfind(_BOX)
    if start < 0 or any(answer.rfind(other) > start for other in _OTHER_BOXES):
        return None
    depth, begin = 1, start + len(_BOX)
    for place in range(begin, len(answer)):
        depth += {"{": 1, "}": -1}.get(answer[place], 0)
        if not depth:
            return True if answer[begin:place] == truth else None
    return None


REPLAYS: Mapping[str, Replay] = MappingProxyType({EXACT: _exact, GSM8K: _gsm8k, BOXED: _boxed})

_FILES = MappingProxyType(
    {
        "cdf3ce18e30a09044a6960ca04ee31a663d3800fa2f79325925ec8b6ed4c034d": EXACT,
        "46a584cf99bc712b5fc5f3f1a35431dd7a920c3df996634b7a1fc3f78c0a72b4": GSM8K,
    }
)
"""SHA-256 of a reward file of rlx's recipes -> its grader. A changed copy is a function of which nothing is known."""


def grader_of_file(sha256: str, kwargs: Mapping[str, Any]) -> str:
    """Name the grader in a recipe's reward file; "" for one that rlx cannot replay."""
    found = _FILES.get(sha256, "")
    return "" if kwargs and dict(kwargs) != {"method": "strict"} else found
