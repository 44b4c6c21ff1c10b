"""Derive what the log must show, the noise included. It has no validation: all data are used for training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.yaml_sections import MindSpeedRlRendering, epoch_iterations
from rlx.backends.shared.assembly import MOST_STEPS
from rlx.backends.shared.noise import NOISE, payload_schedule, payload_settings, processes_of
from rlx.backends.shared.payload_files import modules
from rlx.backends.shared.rendering import EffectiveSettings
from rlx.errors import UsageError
from rlx.model import Expectations, Link, NoiseProcess, NoiseSchedule, PlannedFile
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

# As compute_utils.py names the score of each trainer's samples, the weighted sum of all verifiers.
_SCORES = {"grpo": "grpo/score/mean", "dapo": "dapo/score/mean", "ppo": "critic/score/mean"}
_ITERATIONS = "megatron_training.train_iters"
HOOK = "rlx_mindspeed_rl_hook"  # the payload's modules begin with it
_TP = "generate_config.infer_tensor_parallel_size"
# It logs no distance between rollout and actor, and does not validate in training: no noise is felt, none lifted.
_LINKS = (Link.ASKED, Link.REACHED, Link.DRAWN, Link.TRAINED_ON)


def expectations(rendering: MindSpeedRlRendering, settings: EffectiveSettings) -> Expectations:
    """Expect a reward of the training as the metric. Raises UsageError for an impossible number of iterations."""
    total = _total_iterations(settings)
    return Expectations(
        total_steps=total,
        validation_steps=(),
        last_step_validated=False,
        validation_items=None,
        validation_samples=1,
        metric=_metric(rendering),
        noise=schedule(rendering.recipe, settings, total),
        # It drops the probabilities that vLLM returns, and logs no distance between rollout and actor.
        reports_probability_gap=False,
    )


def _total_iterations(settings: EffectiveSettings) -> int:
    total = settings.get(_ITERATIONS)
    if total is None:
        raise UsageError(
            "train.steps: MindSpeed-RL must be told how many iterations it is to take",
            "write train.steps, or data.train_rows beside train.epochs",
        )
    if type(total) is not int or total < 1:
        from rlx.recipe.schema_errors import describe

        source = settings.sources.get(_ITERATIONS, _ITERATIONS)
        raise UsageError(
            f"{source}: the number of iterations would be {describe(total)}", "more data.train_rows, or train.steps"
        )
    if total > MOST_STEPS:
        raise UsageError(
            f"the run would have {total:,} iterations, and a plan lists each", "lower train.steps or train.epochs"
        )
    return total


def _metric(rendering: MindSpeedRlRendering) -> str:
    metric, verifiers = rendering.recipe.eval.metric, rendering.verifiers
    if metric != "auto":
        return metric
    return f"{verifiers[0]}_rewards/mean" if len(verifiers) == 1 else _SCORES.get(rendering.kind, "")


def schedule(recipe: Recipe, settings: EffectiveSettings, iterations: int) -> NoiseSchedule | None:
    """Schedule the noise; None for an arm without. Raises UsageError where an epoch's rows are needed and not known."""
    return payload_schedule(recipe, iterations, epoch_iterations(recipe), _LINKS, _processes(recipe, settings))


def _processes(recipe: Recipe, settings: EffectiveSettings) -> tuple[NoiseProcess, ...]:
    """Every NPU has a worker that trains and generates; neighbours hold one model of the engine."""
    tp, per_node = settings.get(_TP), recipe.layout.devices_per_node
    if type(tp) is not int or tp < 1:
        return ()
    return processes_of(recipe.layout.nodes * per_node, per_node, tp)


def noise_files(recipe: Recipe, noise: NoiseSchedule | None) -> Iterator[PlannedFile]:
    """mindspeed_rl_env.py finds them and gives them to the workers; a control has none."""
    if noise is None or recipe.aqn is None:
        return
    settings = payload_settings(recipe, recipe.aqn, len(noise.sigmas), epoch_iterations(recipe))
    yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", settings)
    yield from modules(NOISE)
    yield from modules(HOOK, payload_folder("mindspeed_rl"))
