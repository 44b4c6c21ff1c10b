"""The phases of a step of verl, by the durations that it logs.

Sources: verl/trainer/ppo/ray_trainer.py of 0.5.0 to main, verl/trainer/ppo/v1/trainer_base.py of 0.9.1. Before 0.7 new
weights go to the rollout within `gen`, and have no time of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_TRAINING = (
    ("gen", "rollout"),
    ("gen_max", "rollout"),
    ("reward", "reward"),
    ("old_log_prob", "log-prob"),
    ("ref", "reference"),
    ("values", "critic values"),
    ("adv", "advantages"),
    ("update_critic", "critic update"),
    ("update_actor", "actor update"),
)
_AFTER = (("update_weights", "weight sync"), ("testing", "validation"))
_SAVED = "save_checkpoint"
# A trainer that generates several times a step, or elsewhere meanwhile, has no such order.
_BATCHES, _SWITCH = "train/num_gen_batches", "timing_s/switch_to_trainer"


def phases(values: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    """The phases in their order, with seconds; "" for what comes after the updates of a step with a checkpoint.

    That is written before or after the new weights and the validation, depending on the version.
    """
    if values.get(_BATCHES, 1) > 1 or _SWITCH in values or not _seconds(values, "gen"):
        return ()
    before = [(phase, _seconds(values, key)) for key, phase in _TRAINING]
    after = [(phase, _seconds(values, key)) for key, phase in _AFTER]
    if saving := _seconds(values, _SAVED):
        after = [("", saving + sum(seconds for _, seconds in after))]
    return [(phase, seconds) for phase, seconds in (*before, *after) if seconds]


def _seconds(values: Mapping[str, float], key: str) -> float:
    seconds = values.get(f"timing_s/{key}", 0.0)
    return seconds if 0 < seconds < 1e7 else 0.0
