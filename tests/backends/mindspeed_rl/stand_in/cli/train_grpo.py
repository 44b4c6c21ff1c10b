"""Not MindSpeed-RL: a small real Ray program in the place of its cli/train_grpo.py, for tests without a NPU.

It starts as that one does (Hydra, `ray.init` with the file of variables, a driver task), asks for the same resources
(a bundle of 1 NPU and num_cpus_for_placement_group CPUs for each NPU, strictly packed on each node, and a CPU for the
reward), has one worker on each NPU, and prints lines as mindspeed_rl/utils/loggers.py writes them. It trains nothing:
the numbers are the workers' counts, and the checkpoint is an empty folder where Megatron puts the last one.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import hydra
import ray
import yaml
from mindspeed_rl.utils.loggers import Loggers
from omegaconf import DictConfig, OmegaConf
from ray.util import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ROOT = Path(__file__).absolute().parent.parent


@ray.remote
class Worker:
    def __init__(self) -> None:
        context = ray.get_runtime_context()
        names = {node["NodeID"]: node["NodeName"] for node in ray.nodes()}
        npu = context.get_accelerator_ids()["NPU"][0]
        Loggers().info(f"worker {os.getpid()} of {names[context.get_node_id()]} on NPU {npu}")

    def generate(self, iteration: int) -> float:
        time.sleep(0.1)
        return iteration / 1000

    def variable(self, name: str) -> str:
        return os.environ.get(name, "")


def bundles(config: dict[str, Any]) -> list[PlacementGroupSchedulingStrategy]:
    """The place of each worker, once Ray has all that is asked for."""
    rl = config["rl_config"]
    bundle = {"NPU": 1, "CPU": rl["num_cpus_for_placement_group"]}
    # The other asks CANN how many NPUs a node has.
    each = int(ray.nodes()[0]["Resources"]["NPU"])
    groups = [
        placement_group([bundle] * each, strategy="STRICT_PACK")
        for _ in range(rl["actor_resource"]["num_npus"] // each)
    ]
    ray.get([group.ready() for group in groups])
    ray.get(placement_group([{"CPU": 1}], strategy="SPREAD").ready())
    return [PlacementGroupSchedulingStrategy(group, index) for group in groups for index in range(each)]


class Shown:
    """What stands on standard output. Ray brings there what its workers print, but half a second after the driver's end
    no more; on a busy machine it needs longer."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._write, sys.stdout.write = sys.stdout.write, self._note  # type: ignore[method-assign]

    def _note(self, text: str) -> int:
        self._texts.append(text)
        return self._write(text)

    def wait_for(self, words: str, count: int = 1) -> None:
        deadline = time.monotonic() + 120
        while sum(words in text for text in list(self._texts)) < count and time.monotonic() < deadline:
            time.sleep(0.05)


@ray.remote
def train(config: dict[str, Any]) -> int:
    """The number of its workers, each of which prints where it is."""
    rl, iterations, log = config["rl_config"], config["megatron_training"]["train_iters"], Loggers()
    needs = {"resources": {"NPU": 1}, "num_cpus": rl["num_cpus_for_placement_group"]}
    workers = [Worker.options(**needs, scheduling_strategy=one).remote() for one in bundles(config)]  # type: ignore[attr-defined]
    log.info(f"TASK_QUEUE_ENABLE={ray.get(workers[0].variable.remote('TASK_QUEUE_ENABLE'))}")
    log.info(f"SAID={ray.get(workers[0].variable.remote('SAID'))}")
    log.info(f"sync start grpo training at iteration: 0/{iterations} ...")
    for iteration in range(1, iterations + 1):
        rewards = ray.get([worker.generate.remote(iteration) for worker in workers])
        reward = sum(rewards) / len(rewards)
        values = {f"{rl['verifier_function'][0]}_rewards/mean": reward, "grpo/score/mean": reward}
        log.info({"timing/all": 0.1, "actor/lr": 1e-6, **values}, iteration, iterations)
    log.info("after grpo training is done")
    checkpoint = Path(config["actor_config"]["save"]) / f"iter_{iterations:07d}"
    checkpoint.mkdir(parents=True)
    (checkpoint.parent / "latest_checkpointed_iteration.txt").write_text(str(iterations), encoding="utf-8")
    return len(workers)


def start(config: DictConfig, train: Any) -> None:
    runtime_env, shown = (
        yaml.safe_load(Path(ROOT, config.rl_config.runtime_env_path).read_text(encoding="utf-8")),
        Shown(),
    )
    ray.init(runtime_env=runtime_env)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    shown.wait_for(" on NPU ", ray.get(train.remote(plain)))
    shown.wait_for("after grpo training is done")
    Loggers().info("training process successfully!")


@hydra.main(config_path="../configs", config_name="none", version_base=None)
def main(config: DictConfig) -> None:
    start(config, train)


if __name__ == "__main__":
    main()
