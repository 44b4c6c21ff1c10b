"""The tiny task with TRL's GRPOTrainer, as its users write it: TRL's own arguments, and nothing of rlx."""

from __future__ import annotations

from pathlib import Path

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, TrlParser

ASSETS = Path("~/.cache/rlx/tiny-cpu").expanduser()


def correct(completions: list[list[dict[str, str]]], truth: list[str], **_: object) -> list[float]:
    return [float(each[0]["content"].strip() == wanted) for each, wanted in zip(completions, truth, strict=True)]


def rows(split: str) -> object:
    found = load_dataset("parquet", data_files=str(ASSETS / f"{split}.parquet"), split="train")
    return found.map(lambda row: {"truth": row["reward_model"]["ground_truth"]}, remove_columns=["reward_model"])


if __name__ == "__main__":
    (arguments,) = TrlParser((GRPOConfig,)).parse_args_and_config()
    print(f"Training parameters {arguments}")
    GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(ASSETS / "model", dtype="float32"),
        reward_funcs=correct,
        args=arguments,
        train_dataset=rows("train"),
        eval_dataset=rows("val"),
        processing_class=AutoTokenizer.from_pretrained(ASSETS / "model"),
    ).train()
