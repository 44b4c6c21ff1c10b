"""The trainer's side of the CPU rollout: validation on clean weights, and a replay buffer that does not dawdle.

verl loads this file in the task runner alone, through `trainer.v1.sampler.custom_sampler`.
"""

from __future__ import annotations

from typing import Any

import ray
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

POLL_SECONDS = 0.05


class FastReplayBuffer(ReplayBuffer):
    """verl polls every 2 s for finished rollouts, which is most of a tiny step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "poll_interval": POLL_SECONDS})


def _tell_servers(trainer: PPOTrainerSync, phase: str, step: int) -> None:
    replicas = trainer.llm_server_manager.get_replicas()
    ray.get([server.enter.remote(phase, step) for replica in replicas for server in replica.servers])


def _begin_validation(trainer: PPOTrainerSync) -> None:
    _tell_servers(trainer, "validation", trainer.global_steps)


def _end_validation(trainer: PPOTrainerSync) -> None:
    """The weights now in the rollout generate the step after the one that was validated."""
    _tell_servers(trainer, "rollout", trainer.global_steps + 1)


# Both are empty hooks of verl, meant to be filled; a validation follows the sync that made the weights noisy.
PPOTrainerSync.on_validate_begin = _begin_validation
PPOTrainerSync.on_validate_end = _end_validation
