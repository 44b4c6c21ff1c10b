"""Finds the last checkpoint of a run, and brings it into Hugging Face's form."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from data_rows import expanded
from rlx_eval_order import EvalFailure, EvalOrder

LATEST = "latest_checkpointed_iteration.txt"
# verl's, Megatron's own, and transformers'.
FORMS = ("global_step_{}", "iter_{:07d}", "checkpoint-{}")
_WEIGHTS = "*.safetensors"
_ITERATION = re.compile(rb"iteration:\s+(\d{1,12})\s*/\s*\d{1,12}\s*\|")


def last_checkpoint(run_dir: Path, attempt_dir: Path) -> tuple[int, Path]:
    """Return step and folder of the training's last checkpoint. Raises EvalFailure for an earlier step."""
    folder = run_dir / "checkpoints"
    try:
        step = int((folder / LATEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise EvalFailure(f"there is no checkpoint: {folder / LATEST} cannot be read") from None
    trained = _last_step(attempt_dir)
    if trained is not None and trained != step:
        raise EvalFailure(f"the last checkpoint is of step {step}, and the training ended at step {trained}")
    found = [folder / form.format(step) for form in FORMS if (folder / form.format(step)).is_dir()]
    if not found:
        raise EvalFailure(f"there is no checkpoint of step {step} in {folder}, which {LATEST} names")
    return step, found[0]


def _last_step(attempt_dir: Path) -> int | None:
    """As verl's metrics file tells it, or the log of MindSpeed-RL. None: neither has a step."""
    try:
        lines = (attempt_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return max((json.loads(line)["step"] for line in lines), default=None)
    except FileNotFoundError:
        pass
    try:
        with (attempt_dir / "log").open("rb") as log:
            return max((int(match[1]) for line in log if (match := _ITERATION.search(line))), default=None)
    except FileNotFoundError:
        return None


def convert(order: EvalOrder, checkpoint: Path, folder: Path) -> None:
    """Fill the empty folder with the model and its tokenizer. Raises EvalFailure with the converter's exit code."""
    if order.convert:
        _run([str(expanded(order.convert)), str(checkpoint), str(folder)], checkpoint)
    elif ready := _ready(order, checkpoint):
        for path in ready.iterdir():
            (folder / path.name).symlink_to(path)
    else:
        _run(_merger(order, checkpoint, folder), checkpoint)
    if not (folder / "config.json").is_file():
        raise EvalFailure(f"the checkpoint {checkpoint} could not be converted: there is no config.json in {folder}")
    _fold_adapter(order, folder)


def _run(command: list[str], checkpoint: Path) -> None:
    if code := subprocess.run(command, check=False).returncode:
        raise EvalFailure(f"the checkpoint {checkpoint} could not be converted: {command[0]} ended with {code}")


def _merger(order: EvalOrder, checkpoint: Path, folder: Path) -> list[str]:
    places = ["--local_dir", str(checkpoint / "actor"), "--target_dir", str(folder)]
    tied = ["--tie-word-embedding"] if _is_megatron(order) and _ties(checkpoint) else []
    return [sys.executable, "-m", "verl.model_merger", "merge", *order.merge, *tied, *places]


def _is_megatron(order: EvalOrder) -> bool:
    return "megatron" in order.merge


def _ready(order: EvalOrder, checkpoint: Path) -> Path | None:
    """Return the folder of weights in Hugging Face's form where nothing must be merged: of transformers' trainer the
    checkpoint itself, with a bridge a part of Megatron's.
    """
    if (checkpoint / "config.json").is_file() and any(checkpoint.glob(_WEIGHTS)):
        return checkpoint
    return next((folder for folder in _form(checkpoint) if _is_megatron(order) and any(folder.glob(_WEIGHTS))), None)


def _ties(checkpoint: Path) -> bool:
    """Whether the output layer shares the weights of the embedding: the merger wants to be told."""
    configs = [folder / "config.json" for folder in _form(checkpoint) if (folder / "config.json").is_file()]
    return bool(configs) and bool(json.loads(configs[0].read_text(encoding="utf-8")).get("tie_word_embeddings"))


def _form(checkpoint: Path) -> tuple[Path, ...]:
    """Where verl keeps the tokenizer and the config: 0.9's layout for Megatron, and the other ones."""
    return checkpoint / "actor/model/huggingface", checkpoint / "actor/huggingface"


def _fold_adapter(order: EvalOrder, folder: Path) -> None:
    """verl's merger leaves LoRA beside the weights of the base. Folded in, either engine reads one model.

    Where a checkpoint does not say alpha, as before 0.9, the merger writes 0: that would be the base alone.
    """
    adapter = folder / "lora_adapter"
    if not adapter.is_dir():
        return
    from peft import LoraConfig, PeftModel
    from transformers import AutoModelForCausalLM

    config = LoraConfig.from_pretrained(str(adapter))
    config.lora_alpha = order.lora_alpha or config.lora_alpha
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), adapter, config=config)
    model.merge_and_unload().save_pretrained(folder)
