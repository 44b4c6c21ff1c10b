"""Rank a difference between two runs by what it is about, and so by how much it can move the result."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache


class Area(StrEnum):
    """The subject of a difference, by how much it can move the result: the first ones most.

    incidental: names, places and packages that training does not use.
    """

    EVALUATION = "evaluation"
    DATA = "data"
    MODEL = "model"
    REWARD = "reward"
    TRAINING = "training"
    CODE = "code"
    VERSIONS = "versions"
    LAYOUT = "layout"
    INCIDENTAL = "incidental"

    @property
    def rank(self) -> int:
        """0 for what can move the result most."""
        return list(Area).index(self)


VALIDATION_DATA = "validation data"
HELD_OUT_DATA = "held-out data"
TRAINING_DATA = "training data"
CONFIG = "config"
"""The word before a key of the configuration that the training program composed."""

_STACK = (
    "accelerate cann* datasets deepspeed flash* liger* megatron* mindspeed* mindstudio* numpy nvidia* peft pyarrow ray "
    "safetensors sglang* te* tensordict tokenizers torch* transformer* triton* vllm* xformers"
)
_VERIFIERS = "antlr4* latex2sympy* math-verify math_verify mathruler sympy"

# The first that fits a key decides. Recipe keys and found facts first, then keys of verl, for `overrides` and `config`.
_FACTS = {
    Area.EVALUATION: ("eval", "eval.*", VALIDATION_DATA, HELD_OUT_DATA),
    Area.DATA: ("data.*", TRAINING_DATA),
    Area.MODEL: ("model.*",),
    Area.REWARD: ("reward", "reward.*", "file payload/reward*", *(f"package {name}" for name in _VERIFIERS.split())),
    Area.LAYOUT: (
        "layout.*",
        "hardware *",
        "rollout.tp",
        "rollout.ep",
        "rollout.memory_fraction",
        "*micro_batch_size",
    ),
    Area.INCIDENTAL: (
        "backend.workdir",
        "backend.python",
        "code *",
        "machine",
        "platform",
        "executable",
        "secrets",
        "train.save_every",
    ),
    Area.CODE: (
        "rlx",
        "git commit",
        "commit of *",
        "uncommitted changes of *",
        "file *",
        "package verl",
        "package mindspeed_rl",
        "backend.entrypoint",
        "backend.config_name",
        "backend.key_source",
        "backend.kind",
    ),
    Area.VERSIONS: (
        "backend.*",
        "python",
        "image",
        "ascend *",
        "env.*",
        "host.*",
        *(f"package {name}" for name in _STACK.split()),
    ),
}
_HYDRA = {
    Area.EVALUATION: ("*.val_kwargs.*", "trainer.val_*", "trainer.test_freq", "data.val_*"),
    Area.LAYOUT: (
        "*num_workers",
        "*micro_batch_size*",
        "*parallel_size",
        "*offload",
        "*max_token_len_per_gpu",
        "*gpu_memory_utilization",
        "*use_dynamic_bsz",
        "trainer.nnodes",
        "trainer.n_gpus_per_node",
        "trainer.device",
        "ray_*",
    ),
    Area.DATA: ("data.*",),
    Area.MODEL: ("*.model.*", "*.dtype", "*mixed_precision*"),
    Area.REWARD: ("*reward*",),
    Area.TRAINING: ("trainer.total_*", "trainer.critic_warmup", "trainer.resume_*"),
    Area.INCIDENTAL: ("trainer.*", "global_profiler.*", "*.profiler.*", "*_target_", "hydra.*"),
}


@cache
def area_of(key: str) -> Area:
    """Classify a recipe key (`train.lr`), a found fact (`package torch`) or a key of verl (`config data.seed`)."""
    hydra = next((key.removeprefix(start) for start in ("overrides.", f"{CONFIG} ") if key.startswith(start)), None)
    if hydra is not None:
        return _match(_HYDRA, hydra) or Area.TRAINING
    return _match(_FACTS, key) or (Area.INCIDENTAL if key.startswith("package ") else Area.TRAINING)


def _match(table: dict[Area, tuple[str, ...]], key: str) -> Area | None:
    return next((area for area, patterns in table.items() if any(fnmatchcase(key, each) for each in patterns)), None)
