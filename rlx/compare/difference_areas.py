"""Rank a difference between two runs by what it is about, and so by how much it can move the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeAlias

from rlx.backends.registry import packages, parts

VALIDATION_DATA = "validation data"
HELD_OUT_DATA = "held-out data"
TRAINING_DATA = "training data"
MODEL_WEIGHTS = "model weights"
CHAT_TEMPLATE = "chat template"
REWARD_CODE = "reward code"
FOLLOWS_FROM = {
    TRAINING_DATA: "data.train",
    VALIDATION_DATA: "data.val",
    HELD_OUT_DATA: "eval.post.rows",
    MODEL_WEIGHTS: "model.path",
    f"{MODEL_WEIGHTS} (headers and samples)": "model.path",
    "model configuration": "model.path",
    CHAT_TEMPLATE: "model.path",
    REWARD_CODE: "reward.path",
    f"{REWARD_CODE} of eval.post": "eval.post.reward.path",
}
"""A recorded fact -> the recipe key whose path decides it."""
CONFIG = "config"
"""The word before a key of the configuration that the training program composed."""
_STACK = (
    "accelerate cann* datasets deepspeed flash* liger* megatron* mindstudio* numpy nvidia* peft pyarrow ray "
    "safetensors sglang* te* tensordict tokenizers torch* transformer* triton* vllm* xformers"
)
_VERIFIERS = "antlr4* latex2sympy* math-verify math_verify mathruler sympy"
Patterns: TypeAlias = "Mapping[DifferenceArea, tuple[str, ...]]"
_Rows: TypeAlias = "tuple[tuple[str, str], ...]"


class DifferenceArea(StrEnum):
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
        return list(DifferenceArea).index(self)


# The first that fits a key decides. A back-end's part `differences` adds patterns to an area, for its own keys. These
# are for recipe keys and found facts.
_FACTS: Patterns = {
    DifferenceArea.EVALUATION: ("eval", "eval.*", VALIDATION_DATA, HELD_OUT_DATA, CHAT_TEMPLATE),
    DifferenceArea.DATA: ("data.*", TRAINING_DATA),
    DifferenceArea.MODEL: ("model.*", f"{MODEL_WEIGHTS}*", "model configuration"),
    DifferenceArea.REWARD: (
        "reward",
        "reward.*",
        f"{REWARD_CODE}*",
        "file payload/reward*",
        *(f"package {name}" for name in _VERIFIERS.split()),
    ),
    DifferenceArea.LAYOUT: (
        "layout.*",
        "hardware *",
        "rollout.tp",
        "rollout.ep",
        "rollout.memory_fraction",
        "*micro_batch_size",
    ),
    DifferenceArea.INCIDENTAL: (
        "backend.workdir",
        "backend.python",
        "code *",
        "machine",
        "platform",
        "executable",
        "secrets",
        "train.save_every",
        "aqn.min_trained_share",
    ),
    DifferenceArea.CODE: (
        "rlx",
        "git commit",
        "commit of *",
        "uncommitted changes of *",
        "file *",
        "backend.trainer",
        "backend.entrypoint",
        "backend.config_name",
        "backend.key_source",
        "backend.kind",
    ),
    DifferenceArea.VERSIONS: (
        "backend.*",
        "python",
        "image",
        "ascend *",
        "env.*",
        "host.*",
        *(f"package {name}" for name in _STACK.split()),
    ),
}
# For `overrides` and `config`: what many programs call alike.
_OVERRIDES: Patterns = {
    DifferenceArea.EVALUATION: (),
    DifferenceArea.LAYOUT: (
        "*num_workers",
        "*micro_batch_size*",
        "*parallel_size",
        "*offload",
        "*gpu_memory_utilization",
        "ray_*",
    ),
    DifferenceArea.DATA: (),
    DifferenceArea.MODEL: ("*.model.*", "*.dtype", "*mixed_precision*"),
    DifferenceArea.REWARD: ("*reward*",),
    DifferenceArea.TRAINING: (),
    DifferenceArea.INCIDENTAL: ("*.profiler.*", "*_target_"),
}


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """One dotted key whose value differs; None where a run lacks it. `declared`: an arm is there to change this key.

    `area`: what it is about, which says how much it can move the result.
    """

    key: str
    control: Any
    treatment: Any
    declared: bool = False
    area: DifferenceArea = DifferenceArea.TRAINING


def area_of(key: str) -> DifferenceArea:
    """Classify a recipe key (`train.lr`), a found fact (`package torch`) or a key of verl (`config data.seed`)."""
    return _area_of(tuple(packages().items()), key)


@cache
def _area_of(rows: _Rows, key: str) -> DifferenceArea:
    own = next((key.removeprefix(start) for start in ("overrides.", f"{CONFIG} ") if key.startswith(start)), None)
    if own is not None:
        return _match(_tables(rows)[1], own) or DifferenceArea.TRAINING
    return _match(_tables(rows)[0], key) or (
        DifferenceArea.INCIDENTAL if key.startswith("package ") else DifferenceArea.TRAINING
    )


@cache
def _tables(rows: _Rows) -> tuple[Patterns, Patterns]:
    """Return the patterns for facts and for overrides, the common ones and those of all back-ends."""
    own = [module for _, module in parts("differences")]
    return _joined(_FACTS, [each.FACTS for each in own]), _joined(_OVERRIDES, [each.OVERRIDES for each in own])


def _joined(common: Patterns, own: Sequence[Patterns]) -> Patterns:
    return {
        area: (*patterns, *(name for each in own for name in each.get(area, ()))) for area, patterns in common.items()
    }


def _match(table: Patterns, key: str) -> DifferenceArea | None:
    return next((area for area, patterns in table.items() if any(fnmatchcase(key, each) for each in patterns)), None)
