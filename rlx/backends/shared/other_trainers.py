"""Name the trainers that people launch and that no recipe starts, by what a command begins with.

What each is called and how it is started: the command lines of the repositories, as of August 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OtherTrainer:
    """A trainer: how its command begins, and where others begin alike, an `option` that only it has."""

    name: str
    program: re.Pattern[str]
    option: re.Pattern[str] | None = None


def _row(name: str, program: str, option: str = "") -> OtherTrainer:
    return OtherTrainer(name, re.compile(program), re.compile(option) if option else None)


_SWIFT = r"(?:pt|sft|rlhf)"
_TRL = r"(?:grpo|rloo|dpo|kto|sft|reward|online_dpo|ppo)"
_TRAINERS = (
    _row("ms-swift", rf"(?:swift|megatron) {_SWIFT}\b|(?:.*[./])?swift[./]cli[./](?:_megatron[./])?{_SWIFT}\b"),
    _row("TRL", rf"trl {_TRL}\b|(?:.*[./])?trl[./]scripts[./]{_TRL}\b|(?:.*/)?examples/scripts/[\w/]+\.py"),
    _row("open-r1", r"(?:.*[./])?open_r1[./]"),
    _row("vime", r"(?:.*/)?train(?:_async)?\.py\b", r"--vllm-[\w-]+|--rollout-backend=?vllm"),
    _row("slime", r"(?:.*/)?train(?:_async)?\.py\b", r"--(?:actor-num-nodes|rollout-num-gpus|num-rollout|sft-[\w-]+)"),
    _row("OpenRLHF", r"openrlhf\.cli\.train_\w+"),
    _row("NeMo RL", r"(?:.*/)?examples/run_(?:grpo|sft|dpo|rm|distillation)\w*\.py|nemo_rl\..*"),
    _row("SkyRL", r"(?:skyrl_train|skyrl|examples)\.(?:.*\.)?(?:entrypoints\.main_base|main_\w+)", r"trainer\.\S+="),
    _row("ROLL", r"(?:.*/)?examples/start_(?:rlvr|agentic|dpo|sft|distill)\w*_pipeline\.py"),
    _row("AReaL", r"areal\..*|(?:.*/)?training/main_(?:sync|async)_ppo\.py"),
    _row("LLaMA-Factory", r"llamafactory-cli train\b|(?:.*/)?src/train\.py\b", r"\S+\.ya?ml|--stage"),
    _row("Axolotl", r"axolotl train\b|axolotl\.cli\.train"),
    _row("torchtune", r"tune run\b"),
    _row("prime-rl", r"(?:rl|trainer|orchestrator) @"),
)
_COMMANDS = ("swift", "megatron", "trl", "llamafactory-cli", "axolotl", "tune", "rl", "trainer", "orchestrator")
_MOST_WORDS = 1000
# Each names a trainer by keys of its configuration: all of the first, and one of the second.
_CONFIGURATIONS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "ms-swift": (frozenset(("model", "dataset")), frozenset(("tuner_type", "train_type", "rlhf_type", "template"))),
    "LLaMA-Factory": (frozenset(("model_name_or_path", "stage")), frozenset(("finetuning_type", "template"))),
    "open-r1": (
        frozenset(("model_name_or_path", "dataset_name")),
        frozenset(("system_prompt", "dataset_prompt_column")),
    ),
    "TRL": (
        frozenset(("model_name_or_path",)),
        frozenset(("dataset_name", "num_generations", "per_device_train_batch_size", "max_completion_length", "beta")),
    ),
    "OpenRLHF": (frozenset(("pretrain",)), frozenset(("prompt_data", "rollout_batch_size"))),
}
_STARTS = {
    "ms-swift": "`swift rlhf {file}`",
    "LLaMA-Factory": "`llamafactory-cli train {file}`",
    "open-r1": "`accelerate launch src/open_r1/grpo.py --config {file}`",
    "TRL": "`trl grpo --config {file}`",
}


def other_trainer(words: Sequence[str]) -> str:
    """Name the trainer that a module, file or command of these words starts; "" for one that is not known."""
    if not words:
        return ""
    command = words[0].rpartition("/")[2]
    line = " ".join((command, *words[1:2])) if command in _COMMANDS else words[0]
    for trainer in _TRAINERS:
        if trainer.program.match(line) and _has(trainer.option, words[1:_MOST_WORDS]):
            return trainer.name
    return ""


def trainer_of_configuration(tree: Mapping[str, Any]) -> str:
    """Name the trainer that reads such a configuration; "" for one that is not known."""
    for name, (needed, telling) in _CONFIGURATIONS.items():
        if needed <= tree.keys() and telling & tree.keys():
            return name
    return ""


def command_of(trainer: str, file: str) -> str:
    """Show how this trainer is started with a configuration."""
    return _STARTS.get(trainer, "its command and {file}").format(file=file)


def _has(option: re.Pattern[str] | None, words: Sequence[str]) -> bool:
    return option is None or any(option.match(word) for word in words)
