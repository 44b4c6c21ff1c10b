"""Compute what the log must show: no validation, since data are split 100 to 0 to 0 for training and validation."""

from __future__ import annotations

from rlx.backends.mindspeed_rl.noise import schedule
from rlx.backends.mindspeed_rl.sections import Rendering
from rlx.backends.shared.assembly import MOST_STEPS
from rlx.backends.shared.effective import EffectiveSettings
from rlx.errors import UsageError
from rlx.model import Expectations

# As compute_utils.py names the score of each trainer's samples, the weighted sum of all verifiers.
_SCORES = {"grpo": "grpo/score/mean", "dapo": "dapo/score/mean", "ppo": "critic/score/mean"}
_ITERATIONS = "megatron_training.train_iters"


def expectations(rendering: Rendering, settings: EffectiveSettings) -> Expectations:
    """The metric is a reward of the training. Raises UsageError for a number of iterations that is none."""
    total = _total(settings)
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


def _total(settings: EffectiveSettings) -> int:
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


def _metric(rendering: Rendering) -> str:
    said, verifiers = rendering.recipe.eval.metric, rendering.verifiers
    if said != "auto":
        return said
    return f"{verifiers[0]}_rewards/mean" if len(verifiers) == 1 else _SCORES.get(rendering.kind, "")
