"""The trainer's side of the CPU rollout: validation on clean weights, what sigma follows, and the replay buffer.

verl loads this file in the task runner alone, through `trainer.v1.sampler.custom_sampler`.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import ray
from rlx_verl_cpu_replay import FastReplayBuffer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

__all__ = ["FastReplayBuffer"]

# What verl 0.9.1 calls the measurements that sigma may follow, among the metrics of a step.
_MEASUREMENTS = {"gap": "training/rollout_probs_diff_mean", "entropy": "rollout_corr/rollout_log_ppl"}


def _servers(trainer: PPOTrainerSync) -> list[Any]:
    return [server for replica in trainer.llm_server_manager.get_replicas() for server in replica.servers]


def _begin_validation(trainer: PPOTrainerSync) -> None:
    ray.get([server.enter.remote("validation", trainer.global_steps) for server in _servers(trainer)])


def _end_validation(trainer: PPOTrainerSync) -> None:
    """Return to the rollout, whose weights now generate the step after the validated one."""
    ray.get([server.enter.remote("rollout", trainer.global_steps + 1) for server in _servers(trainer)])


def _followed() -> str:
    """Return the metric that sigma follows in this run; "" where it follows none."""
    if importlib.util.find_spec("rlx_aqn_settings") is None:
        return ""
    from rlx_aqn_settings import InjectionSettings, settings_file

    file = settings_file()
    rule = InjectionSettings.read(file).adaptive if file is not None else None
    return _MEASUREMENTS[rule["target"]] if rule is not None else ""


def _hand_on(metric: str) -> None:
    """Let each step end with its measurement told to all servers: the sync after it brings the weights of the next."""
    step = PPOTrainerSync.step

    def measured_step(trainer: PPOTrainerSync, metrics: dict[str, Any], timing_raw: dict[str, Any]) -> Any:
        batch = step(trainer, metrics, timing_raw)
        if metric not in metrics:
            from rlx_aqn_settings import refusal

            what = f"aqn.adaptive follows {metric}, and step {trainer.global_steps} did not measure it"
            raise refusal("RLX695", what, "another aqn.adaptive.target, or another aqn.schedule")
        told = [server.measured.remote(trainer.global_steps, float(metrics[metric])) for server in _servers(trainer)]
        ray.get(told)
        return batch

    PPOTrainerSync.step = measured_step


# Both are empty hooks of verl, meant to be filled; a validation follows the sync that made the weights noisy.
PPOTrainerSync.on_validate_begin = _begin_validation
PPOTrainerSync.on_validate_end = _end_validation
if _METRIC := _followed():
    _hand_on(_METRIC)
