"""Not MindSpeed-RL: a small real Ray program in the place of its cli/train_grpo.py, for tests without a NPU.

It starts as that one does (Hydra, `ray.init` with the file of variables, a driver task), asks for the same resources
(a bundle of 1 NPU and num_cpus_for_placement_group CPUs for each NPU, strictly packed, and a CPU for the reward), has
one worker on each NPU, and prints lines as mindspeed_rl/utils/loggers.py writes them. It trains nothing: the numbers
are the workers' counts, and the checkpoint is an empty folder where Megatron puts the last one.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hydra
import ray
import yaml
from omegaconf import DictConfig, OmegaConf
from ray.util import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ROOT = Path(__file__).absolute().parent.parent


def info(message: str) -> None:
    local, utc = datetime.now(), datetime.now(tz=UTC)
    stamp = f"{local:%Y-%m-%d %H:%M:%S},{local.microsecond // 1000:03d}"
    print(f"{stamp} - INFO - [{utc:%Y-%m-%d %H:%M:%S}] {message}", flush=True)


@ray.remote
class Worker:
    def __init__(self) -> None:
        info(f"worker {os.getpid()} on NPU {ray.get_runtime_context().get_accelerator_ids()['NPU'][0]}")

    def generate(self, iteration: int) -> float:
        time.sleep(0.1)
        return iteration / 1000

    def variable(self, name: str) -> str:
        return os.environ.get(name, "")


@ray.remote
def train(config: dict[str, Any]) -> None:
    rl, iterations = config["rl_config"], config["megatron_training"]["train_iters"]
    bundle = {"NPU": 1, "CPU": rl["num_cpus_for_placement_group"]}
    group = placement_group([bundle] * rl["actor_resource"]["num_npus"], strategy="STRICT_PACK")
    ray.get(group.ready())
    ray.get(placement_group([{"CPU": 1}], strategy="SPREAD").ready())
    where = [PlacementGroupSchedulingStrategy(group, index) for index in range(group.bundle_count)]
    options = [{"resources": {"NPU": 1}, "num_cpus": bundle["CPU"], "scheduling_strategy": one} for one in where]
    workers = [Worker.options(**one).remote() for one in options]  # type: ignore[attr-defined]
    info(f"TASK_QUEUE_ENABLE={ray.get(workers[0].variable.remote('TASK_QUEUE_ENABLE'))}")
    info(f"SAID={ray.get(workers[0].variable.remote('SAID'))}")
    info(f"sync start grpo training at iteration: 0/{iterations} ...")
    for iteration in range(1, iterations + 1):
        rewards = ray.get([worker.generate.remote(iteration) for worker in workers])
        reward = sum(rewards) / len(rewards)
        info(
            f"iteration: {iteration} / {iterations} | timing/all : 0.1000 | actor/lr : {1e-6:e} | "
            f"{rl['verifier_function'][0]}_rewards/mean : {reward:.4f} | grpo/score/mean : {reward:.4f} "
        )
    info("after grpo training is done")
    checkpoint = Path(config["actor_config"]["save"]) / f"iter_{iterations:07d}"
    checkpoint.mkdir(parents=True)
    (checkpoint.parent / "latest_checkpointed_iteration.txt").write_text(str(iterations))


@hydra.main(config_path="../configs", config_name="none", version_base=None)
def main(config: DictConfig) -> None:
    runtime_env = yaml.safe_load(Path(ROOT, config.rl_config.runtime_env_path).read_text())
    ray.init(runtime_env=runtime_env)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    ray.get(train.remote(plain))
    info("training process successfully!")


if __name__ == "__main__":
    main()
