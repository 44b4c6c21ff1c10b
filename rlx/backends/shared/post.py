"""`eval: post`: what the evaluation after a training needs in the run directory, the same for every back-end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.backends.shared.payload_files import program
from rlx.errors import UsageError
from rlx.local_files import MOST_SOURCE, read_text
from rlx.model import Expectations, PlannedFile
from rlx.model.post_metric import post_metric
from rlx.model.run_dir import PAYLOAD_DIR, VALIDATION_DIR

if TYPE_CHECKING:
    from rlx.recipe.schema import FunctionReward, Recipe

_ORDER = "eval.json"
_PROGRAM = (
    "data_rows.py",
    *(f"rlx_eval{part}.py" for part in ("", "_checkpoint", "_generate", "_grade", "_order", "_rows")),
)
POST_NAMES = (*_PROGRAM, _ORDER)
"""What the evaluation brings along in payload/."""


def training_outputs(recipe: Recipe) -> str:
    """Name the folder of an attempt for the answers of validations in the training.

    The outputs of a step are one file: with `eval.post`, that of the last step has the answers of the evaluation.
    """
    return f"{VALIDATION_DIR}-in-training" if recipe.eval.post else VALIDATION_DIR


def post_files(recipe: Recipe, merge: Sequence[str]) -> Iterator[PlannedFile]:
    """Yield the program and its order; nothing without `eval.post`.

    `merge`: the arguments of the back-end's own converter. Raises UsageError for a reward file that cannot be read.
    """
    if recipe.eval.post is None:
        return
    for name in _PROGRAM:
        yield program(name)
    yield PlannedFile(f"{PAYLOAD_DIR}/{_ORDER}", json.dumps(_order(recipe, merge), indent=1) + "\n")


def post_expectations(promised: Expectations, recipe: Recipe) -> Expectations:
    """Expect with `eval.post` what that measures, at the last step; without it what was promised."""
    post = recipe.eval.post
    if post is None:
        return promised
    return replace(
        promised,
        validation_steps=() if promised.total_steps is None else (promised.total_steps,),
        last_step_validated=True,
        validation_items=post.row_count,
        validation_samples=post.n,
        metric=post_metric(post.n),
    )


def reward_files(recipe: Recipe, taken: set[str]) -> Iterator[PlannedFile]:
    """Yield the reward functions that travel with the run. `taken`: names in payload/ that are in use.

    Raises UsageError for a file that cannot be read, or whose name another one has.
    """
    found: dict[str, str] = {}
    for key, reward in _functions(recipe):
        path = Path(reward.path)
        text = _read(path, key)
        if path.name in taken or found.setdefault(path.name, text) != text:
            raise UsageError(f"{key}: {path.name} is the name of another file of the run", "rename it")
    for name, text in found.items():
        yield PlannedFile(f"{PAYLOAD_DIR}/{name}", text)


def _functions(recipe: Recipe) -> Iterator[tuple[str, FunctionReward]]:
    from rlx.recipe.schema import FunctionReward

    post = recipe.eval.post
    for key, reward in (("reward.path", recipe.reward), ("eval.post.reward.path", post and post.reward)):
        if isinstance(reward, FunctionReward):
            yield key, reward


def _read(path: Path, key: str) -> str:
    hint = f"{key} is relative to the recipe file in which it stands"
    try:
        return read_text(path, MOST_SOURCE)
    except OSError as problem:
        raise UsageError(f"{key}: {path}: {problem.strerror}", hint) from None


def _order(recipe: Recipe, merge: Sequence[str]) -> dict[str, Any]:
    """Read by payload/rlx_eval_order.py."""
    post, layout, rollout = recipe.eval.post, recipe.layout, recipe.rollout
    assert post is not None
    return {
        "metric": post_metric(post.n),
        "rows": post.rows,
        "row_count": post.row_count,
        "prompt_key": recipe.data.prompt_key,
        "n": post.n,
        "temperature": post.temperature,
        "seed": recipe.seed,
        "max_response_tokens": recipe.data.max_response_tokens,
        "engine": post.engine or ("transformers" if layout.device == "cpu" else "vllm"),
        "batch_size": post.batch_size,
        "device": layout.device,
        "dtype": recipe.model.dtype,
        "devices": rollout.tp,
        "memory": rollout.memory_fraction,
        "eager": rollout.enforce_eager,
        "reward": _reward(recipe),
        "convert": post.convert,
        "merge": list(merge),
        "lora_alpha": recipe.model.lora and recipe.model.lora.alpha,
    }


def _reward(recipe: Recipe) -> dict[str, Any]:
    from rlx.recipe.schema import VerifierReward

    assert recipe.eval.post is not None
    reward = recipe.eval.post.reward or recipe.reward
    if isinstance(reward, str):
        return {"name": reward}
    if isinstance(reward, VerifierReward):
        raise UsageError(
            "eval.post: the verifiers of the training are the back-end's own, and grade nothing outside it",
            "name what grades: eval.post.reward: gsm8k, or {path, function}",
        )
    return {"file": Path(reward.path).name, "function": reward.function, "kwargs": reward.kwargs}
