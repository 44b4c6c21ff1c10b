"""What the log must show. There is no validation: the data of training and validation are split 100 to 0 to 0."""

from __future__ import annotations

from rlx.backends.effective import EffectiveSettings
from rlx.backends.mindspeed_rl.sections import Rendering
from rlx.errors import UsageError
from rlx.plan import Expectations

# As compute_utils.py names the score of each trainer's samples, the weighted sum of all verifiers.
_SCORES = {"grpo": "grpo/score/mean", "dapo": "dapo/score/mean", "ppo": "critic/score/mean"}
_ITERATIONS = "megatron_training.train_iters"


def expectations(rendering: Rendering, settings: EffectiveSettings) -> Expectations:
    """The metric is a reward of the training. Raises UsageError for a number of iterations that is none."""
    total = settings.get(_ITERATIONS)
    if type(total) is not int or total < 1:
        raise UsageError(f"overrides.{_ITERATIONS}: must be a whole number of at least 1, found {total!r}")
    return Expectations(
        total_steps=total,
        validation_steps=(),
        last_step_validated=False,
        validation_items=None,
        validation_samples=1,
        metric=_metric(rendering),
        noise=None,
        reports_probability_gap=False,
    )


def _metric(rendering: Rendering) -> str:
    said, verifiers = rendering.recipe.eval.metric, rendering.verifiers
    if said != "auto":
        return said
    return f"{verifiers[0]}_rewards/mean" if len(verifiers) == 1 else _SCORES.get(rendering.kind, "")
