"""A resolved recipe as arguments of TRL's GRPOConfig, each with the recipe key from which it follows.

Source of what they mean: trl 1.16.0, trainer/grpo_config.py and grpo_trainer.py; transformers' training_args.py. TRL's
correction of samples whose probabilities differ between rollout and actor exists with vLLM only: the loss of each
sample is multiplied by p(actor)/p(rollout), of single tokens or of the whole sequence; `truncate` cuts larger ratios.
It is on by default, as sequence_mask up to 3.0, and then reweighs the samples that the noise has changed: rlx switches
it off where the recipe asks for none. For vLLM's own arguments: generation/vllm_generation.py, _init_vllm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rlx.backends.shared.assembly import MOST_STEPS
from rlx.backends.shared.overrides import Override
from rlx.backends.shared.rendering import EffectiveSettings
from rlx.backends.shared.rendering import Rendering as Rendering
from rlx.backends.shared.vllm_cpu import KV_CACHE_BYTES
from rlx.errors import UsageError
from rlx.model import ExpectedCorrection

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

_NEVER = "no"
_KEY = "vllm_importance_sampling"
_IS_ON, _MODE, _MOST = f"{_KEY}_correction", f"{_KEY}_mode", f"{_KEY}_clip_max"
KEYS = (_IS_ON, _MODE, _MOST, f"{_KEY}_clip_min", f"{_KEY}_cap")
_PLACE = "algorithm.correction"
# vLLM's own 128 on a CPU are more than a prompt of a small task has, and its prefix cache keeps whole blocks only.
_BLOCK_TOKENS = 32


def rendered(recipe: Recipe) -> tuple[Override, ...]:
    """Render what rlx itself writes. Raises UsageError for an unknown length."""
    parts = (_length, _optimisation, _rollout, _vllm, _validation, _device, _records)
    return tuple(argument for part in parts for argument in part(recipe))


def own_overrides(recipe: Recipe) -> tuple[Override, ...]:
    return tuple(Override.read(key, value) for key, value in recipe.overrides.items())


def chosen(recipe: Recipe) -> tuple[Override, ...]:
    """Render what rlx writes, and the recipe's `overrides` behind it: later ones count."""
    return (*rendered(recipe), *own_overrides(recipe))


def settings_of(rendering: Rendering) -> EffectiveSettings:
    """GRPOConfig's defaults with the arguments over them."""
    arguments = chosen(rendering.recipe)
    return EffectiveSettings(
        rendering.version,
        rendering.table.defaults,
        {argument.key: argument.value for argument in arguments},
        {argument.key: argument.source for argument in arguments},
    )


def _length(recipe: Recipe) -> Iterator[Override]:
    source = "train.steps" if recipe.train.steps else "data.train_rows"
    yield Override("max_steps", steps(recipe), source)
    yield Override("seed", recipe.seed, "seed")


def _optimisation(recipe: Recipe) -> Iterator[Override]:
    """One update for each generation: TRL's step is the optimizer's, and the noise goes by steps."""
    train, kl = recipe.train, recipe.algorithm.kl
    passes = max(1, train.batch_size * recipe.rollout.n // train.micro_batch_size)
    yield Override("per_device_train_batch_size", train.micro_batch_size, "train.micro_batch_size")
    yield Override("gradient_accumulation_steps", passes, "train.mini_batch_size")
    yield Override("steps_per_generation", passes, "train.batch_size")
    yield Override("num_iterations", 1, "train.mini_batch_size")
    yield Override("learning_rate", train.lr, "train.lr")
    yield Override("lr_scheduler_type", "constant", "train.lr")
    yield Override("beta", kl.coef if kl else 0.0, "algorithm.kl.coef" if kl else "algorithm.kl")


def _rollout(recipe: Recipe) -> Iterator[Override]:
    rollout = recipe.rollout
    yield Override("num_generations", rollout.n, "rollout.n")
    yield Override("max_completion_length", recipe.data.max_response_tokens, "data.max_response_tokens")
    yield Override("temperature", rollout.temperature, "rollout.temperature")
    yield Override("top_p", rollout.top_p, "rollout.top_p")
    yield Override("top_k", max(0, rollout.top_k), "rollout.top_k")


def _vllm(recipe: Recipe) -> Iterator[Override]:
    """vLLM in the process of the trainer. What TRL passes on to it of the recipe; the rest: engine_arguments."""
    data, engine = recipe.data, recipe.rollout.engine
    yield Override("use_vllm", engine == "vllm", "rollout.engine")
    if engine != "vllm":
        return
    yield Override("vllm_mode", "colocate", "rollout.engine")
    yield Override("vllm_max_model_length", data.max_prompt_tokens + data.max_response_tokens, "data.max_prompt_tokens")
    if recipe.layout.device != "cpu":
        yield Override("vllm_gpu_memory_utilization", recipe.rollout.memory_fraction, "rollout.memory_fraction")
    # Before each generation it loads the weights of the checkpoint again, which are not those that are trained.
    yield Override("vllm_enable_sleep_mode", False, "rollout.engine")
    yield from correction_arguments(recipe)


def _validation(recipe: Recipe) -> Iterator[Override]:
    evaluation = recipe.eval
    yield Override("eval_strategy", "steps" if evaluation.every else _NEVER, "eval.every")
    if evaluation.every:
        yield Override("eval_steps", evaluation.every, "eval.every")
    yield Override("eval_on_start", evaluation.before_train, "eval.before_train")
    yield Override("num_generations_eval", evaluation.n, "eval.n")
    # All answers to a row in one pass: TRL refuses anything else.
    rows = max(1, recipe.train.micro_batch_size // evaluation.n)
    yield Override("per_device_eval_batch_size", rows * evaluation.n, "train.micro_batch_size")


def _device(recipe: Recipe) -> Iterator[Override]:
    yield Override("use_cpu", recipe.layout.device == "cpu", "layout.device")
    yield Override("bf16", False, "model.dtype")
    yield Override("gradient_checkpointing", False, "layout.device")


def _records(recipe: Recipe) -> Iterator[Override]:
    every = recipe.train.save_every
    yield Override("save_strategy", "steps" if every else _NEVER, "train.save_every")
    if every:
        yield Override("save_steps", every, "train.save_every")
    yield Override("logging_steps", 1, "name")
    # The program starts the recipe's trackers itself, so that one may fail without the training.
    yield Override("report_to", "none", "name")
    if recipe.track is not None:
        yield Override("project", recipe.track.project or recipe.name, "track.project")
    yield Override("disable_tqdm", True, "name")


def correction_arguments(recipe: Recipe) -> Iterator[Override]:
    """Set truncated importance weights, or none. A rule refuses anything else (RLX174)."""
    correction = recipe.algorithm.correction
    weights = correction.weights if correction else None
    yield Override(_IS_ON, weights is not None, _PLACE)
    if correction and weights:
        yield Override(_MODE, f"{weights}_truncate", f"{_PLACE}.weights")
        yield Override(_MOST, correction.weights_threshold, f"{_PLACE}.weights_threshold")


def correction_of(settings: EffectiveSettings) -> ExpectedCorrection | None:
    """Promise what TRL applies; None where it trains on all samples alike."""
    if settings.get("use_vllm") is not True or settings.get(_IS_ON) is not True:
        return None
    kind = str(settings.get(_MODE)).partition("_")[0]
    return ExpectedCorrection(weights=f"{kind} {settings.get(_MOST)}")


def epoch_steps(recipe: Recipe) -> int | None:
    """Count whole batches in the rows; None where the recipe does not give the number of rows.

    Source: trl 1.16.0, trainer/utils.py, RepeatSampler drops the last, incomplete batch of an epoch.
    """
    rows = recipe.data.train_rows
    return None if rows is None else rows // recipe.train.batch_size


def steps(recipe: Recipe) -> int:
    """`train.steps`, else whole batches in all epochs; data is repeated for as many steps as needed.

    Raises UsageError where the recipe has neither, and for more steps than a plan lists.
    """
    in_epoch = epoch_steps(recipe)
    total = recipe.train.steps or (in_epoch and in_epoch * recipe.train.epochs)
    if not total:
        raise UsageError(
            "train.steps: TRL must be told how many steps it is to take",
            "write train.steps, or data.train_rows of at least train.batch_size",
        )
    if total > MOST_STEPS:
        raise UsageError(
            f"the run would have {total:,} steps, and a plan lists each up to {MOST_STEPS:,}",
            "lower train.steps or train.epochs",
        )
    return total


def engine_arguments(recipe: Recipe) -> dict[str, Any]:
    """Set the dtype on any device: vLLM reads float32 checkpoints as bfloat16, and the actor would stay float32."""
    arguments: dict[str, Any] = {"dtype": recipe.model.dtype, "enforce_eager": recipe.rollout.enforce_eager}
    if recipe.layout.device == "cpu":
        arguments |= {"kv_cache_memory_bytes": KV_CACHE_BYTES, "block_size": _BLOCK_TOKENS}
    return arguments
