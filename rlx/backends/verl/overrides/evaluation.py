"""When verl validates, and how it samples then."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.overrides.base import Rendering


def overrides(rendering: Rendering) -> Iterator[Override]:
    evaluation = rendering.recipe.eval
    sampling = "actor_rollout_ref.rollout.val_kwargs"
    yield Override("trainer.test_freq", evaluation.every or -1, "eval.every")
    yield Override("trainer.val_before_train", evaluation.before_train, "eval.before_train")
    yield Override(f"{sampling}.n", evaluation.n, "eval.n")
    yield Override(f"{sampling}.temperature", evaluation.temperature, "eval.temperature")
    yield Override(f"{sampling}.do_sample", evaluation.temperature > 0, "eval.temperature")
