"""The advantage estimator, and where the distance to the reference policy counts."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.overrides.base import Rendering

# Everything else has the recipe's name for it.
_ESTIMATORS = {"ppo": "gae"}
_KL_KEYS = {
    "loss": ("actor_rollout_ref.actor.kl_loss_coef", "actor_rollout_ref.actor.kl_loss_type"),
    "reward": ("algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty"),
}


def overrides(rendering: Rendering) -> Iterator[Override]:
    algorithm = rendering.recipe.algorithm
    place = algorithm.kl.place if algorithm.kl else None
    yield Override("algorithm.adv_estimator", _ESTIMATORS.get(algorithm.kind, algorithm.kind), "algorithm.kind")
    yield Override("actor_rollout_ref.actor.use_kl_loss", place == "loss", "algorithm.kl.place")
    yield Override("algorithm.use_kl_in_reward", place == "reward", "algorithm.kl.place")
    if algorithm.kl:
        coef, estimator = _KL_KEYS[algorithm.kl.place]
        yield Override(coef, algorithm.kl.coef, "algorithm.kl.coef")
        yield Override(estimator, algorithm.kl.estimator, "algorithm.kl.estimator")
