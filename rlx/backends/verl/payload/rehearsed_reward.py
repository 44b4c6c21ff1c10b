"""The reward function of a rehearsal: the recipe's own, with a record of each call that it really got.

verl 0.9 goes on when a reward function raises, and no metric tells. So each call appends one line to
`$RLX_ATTEMPT_DIR/rewards/<pid>.jsonl`. Beside this file, `rehearsed_reward.json` says what to call:
{"file": ..., "function": ...}, {"file": null} for verl's own choice by the data's source, or {"stand_in": true}.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def _stand_in(solution_str: str, **_: Any) -> float:
    """Return a number between 0 and 1 that differs from answer to answer."""
    return len(set(solution_str)) / (len(solution_str) or 1)


def _chosen() -> Callable[..., Any]:
    order = json.loads((_HERE / "rehearsed_reward.json").read_text(encoding="utf-8"))
    if order.get("stand_in"):
        return _stand_in
    if order["file"] is None:
        from verl.utils.reward_score import default_compute_score

        return default_compute_score
    spec = importlib.util.spec_from_file_location("rehearsed_user_reward", _HERE / order["file"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, order["function"])
    return function


_function = _chosen()


def _record(**fields: Any) -> None:
    path = Path(os.environ["RLX_ATTEMPT_DIR"], "rewards", f"{os.getpid()}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(fields) + "\n")


@contextmanager
def _recorded() -> Iterator[list[Any]]:
    """Record what the block puts into the list, or the exception that it raises."""
    begin, results = time.perf_counter(), list[Any]()
    try:
        yield results
    except Exception as problem:
        _record(error=f"{type(problem).__name__}: {problem}"[:500], seconds=time.perf_counter() - begin)
        raise
    seconds = time.perf_counter() - begin
    try:
        score = results[0]["score"] if isinstance(results[0], dict) else results[0]
        number = float(score)
        _record(score=number if math.isfinite(number) else None, seconds=seconds)
    except (KeyError, TypeError, ValueError):
        _record(error=f"it returned {results[0]!r}"[:500], seconds=seconds)


def _called(**arguments: Any) -> Any:
    with _recorded() as results:
        results.append(_function(**arguments))
    return results[0]


async def _awaited(**arguments: Any) -> Any:
    with _recorded() as results:
        results.append(await _function(**arguments))
    return results[0]


# verl runs a plain function in a thread, and awaits a coroutine function: each stays what it is.
compute_score = _awaited if inspect.iscoroutinefunction(_function) else _called
"""What the recipe's function returns for exactly these arguments; what it raises is recorded and raised."""
