"""The trainer's side of the CPU rollout: validation on clean weights, and the replay buffer of `rlx_verl_cpu_replay`.

verl loads this file in the task runner alone, through `trainer.v1.sampler.custom_sampler`.
"""

from __future__ import annotations

import ray
from rlx_verl_cpu_replay import FastReplayBuffer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

__all__ = ["FastReplayBuffer"]


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
