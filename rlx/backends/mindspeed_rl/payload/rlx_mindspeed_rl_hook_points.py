"""The places of MindSpeed-RL that the noise is hooked into.

Read in `Ascend/MindSpeed-RL` at its branches 2.1.0, 2.2.0, 2.3.0 and master (05a90d77).
"""

from __future__ import annotations

from pathlib import Path

from rlx_aqn_hook import HookPoint, check

_TRAINER, _WORKERS = "mindspeed_rl.trainer", "mindspeed_rl.workers"
_ACTOR = (f"{_WORKERS}.actor_hybrid_worker", "ActorHybridWorkerBase")
_MANAGER = (f"{_WORKERS}.resharding.megatron_sharding_manager", "MegatronShardingManager")
_ENGINE = ("mindspeed_rl.models.rollout.vllm_engine", "VLLMInferEngine")
_COUNTED = "iteration = self.actor_worker.get_iteration()"
_LOGGED = "iteration += 1\n            logger.info(metrics.metric, iteration, self.train_iters)"
POINTS = (
    HookPoint("worker", *_ACTOR, "_build_rollout", ("self",), "self.inference_model = self._build_rollout()"),
    HookPoint("count", *_ACTOR, "_build_model_optimizer", ("self",), "self.iteration = self.get_iteration()"),
    HookPoint("count", *_ACTOR, "update", ("self",), "self.iteration += 1"),
    HookPoint("sync", *_ACTOR, "generate_sequences", ("self",), "self.sharding_manager.enter_infer_mode()"),
    HookPoint("role", f"{_WORKERS}.integrated_worker", "IntegratedWorker", "initialize", ("self",),
              "ActorHybridWorkerBase.initialize(self)"),
    HookPoint("sync", *_MANAGER, "enter_infer_mode", ("self",),
              "self.inference_engine.sync_model_weights(infer_params,"),
    HookPoint("sync", *_MANAGER, "exit_infer_mode", ("self",), "self.inference_engine.offload_model_weights()"),
    HookPoint("engine", *_ENGINE, "sync_model_weights", ("self", "params"), "load_megatron_weights("),
    HookPoint("size", *_ENGINE, "offload_model_weights", ("self",), "self.infer_tensor_parallel_size"),
    HookPoint("load", *_ENGINE, "_process_mla", ("self",), "self._process_mla()"),
    HookPoint("log", f"{_TRAINER}.grpo_trainer_hybrid", "RayGRPOTrainer", "fit", ("self",), _COUNTED),
    HookPoint("log", f"{_TRAINER}.grpo_trainer_hybrid", "RayGRPOTrainer", "fit", ("self",), _LOGGED),
    HookPoint("log", f"{_TRAINER}.dapo_trainer_hybrid", "RayDAPOTrainer", "fit", ("self",), _COUNTED, is_new=True),
    HookPoint("log", f"{_TRAINER}.ppo_trainer_hybrid", "RayPPOTrainer", "fit", ("self",), _COUNTED, is_new=True),
)  # fmt: skip
_FIX = "use an unchanged MindSpeed-RL, 2.1.0 to 2.3.0 or master at 05a90d77"


def check_points(package: Path) -> tuple[HookPoint, ...]:
    """Return the points of the `mindspeed_rl` in this folder. Raises ValueError for the first that has changed."""
    return check(package, POINTS, _FIX)
