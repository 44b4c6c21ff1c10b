"""Not MindSpeed-RL: as train_grpo.py beside it, but its workers hand the weights of a tiny model to an engine.

The workers are Ray actors of the stand-in's IntegratedWorker, each with variables of its own as
mindspeed_rl/workers/scheduler/launcher.py gives them.
"""

from __future__ import annotations

from typing import Any

import hydra
import ray
from omegaconf import DictConfig
from train_grpo import bundles, start


@ray.remote
def train(config: dict[str, Any]) -> int:
    """0: its workers print nothing."""
    from mindspeed_rl.trainer.grpo_trainer_hybrid import ActorGroup, RayGRPOTrainer
    from mindspeed_rl.workers.integrated_worker import IntegratedWorker

    handlers = []
    for rank, place in enumerate(bundles(config)):
        variables = {"env_vars": {"RANK": str(rank)}}
        options = {"scheduling_strategy": place, "runtime_env": variables, "num_cpus": 0}
        handlers.append(
            IntegratedWorker.options(**options).remote(config["generate_config"]["infer_tensor_parallel_size"])
        )  # type: ignore[attr-defined]
    group = ActorGroup(handlers)
    group.call("initialize")
    trainer = RayGRPOTrainer(
        group, config["megatron_training"]["train_iters"], config["rl_config"]["verifier_function"][0]
    )
    trainer.fit(())
    return 0


@hydra.main(config_path="../configs", config_name="none", version_base=None)
def main(config: DictConfig) -> None:
    start(config, train)


if __name__ == "__main__":
    main()
