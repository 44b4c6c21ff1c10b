"""The places of verl that the noise is hooked into.

Read in the wheels of verl 0.6.1, 0.7.1, 0.8.0 and 0.9.1, and in its main at 1dda039b (0.10.0.dev).
"""

from __future__ import annotations

from pathlib import Path

from rlx_aqn_hook import HookPoint, check

_VLLM = "verl.workers.rollout.vllm_rollout"
_STEP = "self.checkpoint_manager.update_weights(self.global_steps)"
_SERVER = "vLLMHttpServer"
# From 0.7.1 to 0.10.0.dev.
SYNC = (
    HookPoint("worker", f"{_VLLM}.utils", "vLLMColocateWorkerExtension", "update_weights_from_ipc",
              ("self", "peft_config", "base_sync_done"), "self.model_runner.model"),
    HookPoint("server", f"{_VLLM}.vllm_async_server", _SERVER, "collective_rpc", ("self", "method", "timeout", "args")),
    HookPoint("server", f"{_VLLM}.vllm_async_server", _SERVER, "clear_kv_cache", ("self",)),
    HookPoint("manager", "verl.checkpoint_engine.base", "CheckpointEngineManager", "update_weights",
              ("self", "global_steps"), "@auto_await\n    async def update_weights"),
    HookPoint("trainer", "verl.trainer.ppo.ray_trainer", "RayPPOTrainer", "_validate", ("self",), _STEP),
    HookPoint("trainer", "verl.trainer.ppo.v1.trainer_base", "PPOTrainer", "_validate", ("self",),
              "self.checkpoint_manager", is_new=True),
    HookPoint("step", "verl.trainer.ppo.v1.trainer_sync", "PPOTrainerSync", "on_step_end", ("self",), _STEP,
              is_new=True),
)  # fmt: skip
# 0.6.1: the trainer's worker holds the engine and syncs before every generation.
BEFORE_EACH = (
    HookPoint("loop", "verl.experimental.agent_loop.agent_loop", "AgentLoopManager", "generate_sequences",
              ("self", "prompts"), "self.wake_up()"),
    HookPoint("rollout", f"{_VLLM}.vllm_rollout_spmd", "vLLMAsyncRollout", "update_weights", ("self", "weights"),
              "self.inference_engine.worker.model_runner.model"),
    HookPoint("step", "verl.trainer.ppo.ray_trainer", "RayPPOTrainer", "fit", ("self",),
              'gen_batch.meta_info["global_steps"] = self.global_steps'),
)  # fmt: skip
_FIX = (
    "use verl 0.6.1, 0.7.1, 0.8.0, 0.9.1 or main at 1dda039b unchanged, "
    "or aqn.provider: builtin with a fork that has noise"
)


def check_points(verl: Path) -> tuple[HookPoint, ...]:
    """Return the points of the verl in this package folder. Raises ValueError for the first that has changed."""
    syncs_before_each = (verl / "workers/rollout/vllm_rollout/vllm_rollout_spmd.py").exists()
    return check(verl, BEFORE_EACH if syncs_before_each else SYNC, _FIX)
