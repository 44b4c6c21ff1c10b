"""Read from verl's printed configuration how long a run is, when it validates, and which noise a fork was asked for.

Source: `fit` and `_validate` of verl/trainer/ppo/ray_trainer.py, 0.6.1 to 0.9.1; the noise keys are those of
zhshgmail/verl, branch feature/npu-aqn-test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.evidence.log_grammar import Configured

_NOTHING: Mapping[str, Any] = {}


def configured(config: Mapping[str, Any]) -> Configured | None:
    """What the run was configured to do; None for a configuration that is not verl's. Whatever is odd says nothing."""
    trainer = _section(config, "trainer")
    if type(trainer.get("test_freq")) is not int or trainer.get("val_only") is True:
        return None
    rollout = _section(config, "actor_rollout_ref", "rollout")
    return Configured(
        total_steps=_count(trainer, "total_training_steps"),
        validates_every=max(trainer["test_freq"], 0),
        # verl validates before the training unless it is told not to.
        validates_first=trainer.get("val_before_train", True) is True,
        validation_samples=_count(_section(rollout, "val_kwargs"), "n") or 1,
        reports_probability_gap=rollout.get("calculate_log_probs") is True,
        sigmas=_sigmas(_section(trainer, "noise_injection")),
    )


def _sigmas(noise: Mapping[str, Any]) -> tuple[float, float, int] | None:
    first, last, stages = _number(noise, "sigma_start"), _number(noise, "sigma_end"), _count(noise, "num_stages")
    if noise.get("enabled") is not True or first is None or last is None or stages is None:
        return None
    return first, last, stages


def _section(tree: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for key in path:
        below = tree.get(key)
        tree = below if isinstance(below, dict) else _NOTHING
    return tree


def _count(tree: Mapping[str, Any], key: str) -> int | None:
    value = tree.get(key)
    return value if type(value) is int and value > 0 else None


def _number(tree: Mapping[str, Any], key: str) -> float | None:
    value = tree.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < 1e6 else None
