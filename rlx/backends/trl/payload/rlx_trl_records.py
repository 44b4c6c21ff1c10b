"""Writes what rlx judges a run of TRL by: metrics.jsonl, the answers of validations, and a line a step in the log.

TRL writes no such file before a checkpoint is saved, and its tables of completions are named by step alone: a
validation overwrites those of the training (log_completions of TRL 1.16.0).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from rlx_trl_rewards import Rewards
from transformers import TrainerCallback

LATEST = "latest_checkpointed_iteration.txt"
# The last of TRL's records is of the whole run.
_OF_THE_WHOLE = "train_runtime"
# Of a validation TRL's other numbers are means of the means of its batches, the last of which may be smaller: with 80
# and 20 answers its reward was 0.394, and the mean of the answers 0.33.
_SECONDS = "eval_runtime"


class StepRecords(TrainerCallback):
    """Writes after each step, each validation and each checkpoint; asks for those of the last step.

    `validation`: how many answers to each row, and the folder of the attempt for them.
    """

    def __init__(self, attempt_dir: Path, checkpoints: Path, validation: Mapping[str, Any], rewards: Rewards) -> None:
        self._attempt_dir = attempt_dir
        self._checkpoints = checkpoints
        self._samples = validation["samples"]
        self._outputs = attempt_dir / validation["folder"]
        self._rewards = rewards

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Validate and save the last step whatever its number, if any step is."""
        if state.global_step >= state.max_steps:
            control.should_evaluate = args.eval_strategy != "no"
            control.should_save = args.save_strategy != "no"

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        told = logs or {}
        if _OF_THE_WHOLE not in told and not any(key.startswith("eval_") for key in told):
            self._write(state, _numbers(told))

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """Write the answers before the value, so that a reported value always has its answers."""
        answers, self._rewards.answers = self._rewards.answers, []
        self._outputs.mkdir(parents=True, exist_ok=True)
        lines = (
            json.dumps({**answer, "step": state.global_step}, ensure_ascii=False, default=str) for answer in answers
        )
        (self._outputs / f"{state.global_step}.jsonl").write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )
        seconds = {key: value for key, value in (metrics or {}).items() if key == _SECONDS}
        self._write(state, {**_numbers(seconds), **dict(validated(answers, self._samples))})

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Named when it is whole, as verl and Megatron do."""
        partial = self._checkpoints / f"{LATEST}.partial"
        partial.write_text(str(state.global_step), encoding="utf-8")
        partial.replace(self._checkpoints / LATEST)

    def _write(self, state: Any, values: Mapping[str, float]) -> None:
        document = {"step": state.global_step, "data": values}
        with (self._attempt_dir / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")
        pairs = " | ".join(f"{key} : {value!r}" for key, value in values.items())
        print(f"rlx: TRL step {state.global_step} of {state.max_steps} | {pairs}", flush=True)


def validated(answers: list[dict[str, Any]], samples: int) -> Iterator[tuple[str, float]]:
    """Return the means of a validation by data source: of the reward, and of the accuracy if the reward gives one."""
    by_source: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for answer in answers:
        by_source[answer["data_source"]].append(answer)
    for source, own in by_source.items():
        if all("acc" in answer for answer in own):
            yield f"val-core/{source}/acc/mean@{samples}", fmean(float(answer["acc"]) for answer in own)
            yield f"val-aux/{source}/reward/mean@{samples}", fmean(float(answer["reward"]) for answer in own)
        else:
            yield f"val-core/{source}/reward/mean@{samples}", fmean(float(answer["reward"]) for answer in own)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Those that are numbers. A None of TRL is a mean of nothing."""
    found = {key: math.nan if value is None else value for key, value in values.items()}
    return {key: float(value) for key, value in found.items() if isinstance(value, (int, float))}
