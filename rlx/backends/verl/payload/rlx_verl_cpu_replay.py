"""A replay buffer of verl that does not dawdle.

verl loads this file in the task runner alone, through `trainer.v1.sampler.custom_sampler`.
"""

from __future__ import annotations

from typing import Any

from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

POLL_SECONDS = 0.05


class FastReplayBuffer(ReplayBuffer):
    """verl polls every 2 s for finished rollouts, which is most of a tiny step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The trainer itself asks for further prompts, so it is who this method belongs to.
        settings = {**kwargs, **_filtering(kwargs["refill_fn"].__self__), "poll_interval": POLL_SECONDS}
        super().__init__(*args, **settings)


def _filtering(trainer: Any) -> dict[str, Any]:
    """Read the filter of groups as verl does for a replay buffer of its own: others are told nothing of it."""
    metric = trainer._resolve_filter_groups_metric()
    if metric is None:
        return {}
    return {
        "filter_groups_metric": metric,
        "train_batch_size": trainer.config.data.train_batch_size,
        "gen_batch_size": 1,
        "max_inflight_gen_batches": trainer.config.algorithm.filter_groups.get("max_inflight_gen_batches", 1),
    }
