"""Makes a tiny language model and a tiny task: the sum of two digits. Deterministic, offline, seconds on one core.

    python tiny_addition.py FOLDER      writes the MODELS, train.parquet and val.parquet there

It shows that the plumbing works, not that a model generalises: there are only a hundred sums of two digits, so
validation asks the very questions that training asked. The model gets a short supervised warm-up, because
reinforcement learning finds nothing to reinforce in a random model.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch
from tokenizers import pre_tokenizers
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

SEED = 0
WARM_UP_BATCH = 32
WARM_UP_RATE = 1e-3
TRAIN_REPEATS = 4
# Folder -> attention heads, and steps of the warm-up. vLLM on a CPU has no kernel for heads smaller than 32.
MODELS = {"model": (4, 180), "model-heads-32": (2, 160)}
DATA_SOURCE = "rlx/tiny-addition"

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
ROLES = ("user", "assistant", "system")
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

Sum = tuple[int, int]


def sums() -> list[Sum]:
    """All 100 pairs of digits, in an order fixed by the seed."""
    pairs = [(left, right) for left in range(10) for right in range(10)]
    random.Random(SEED).shuffle(pairs)
    return pairs


def build_tokenizer() -> Qwen2Tokenizer:
    """Make a byte-level tokenizer with one token per role name, so that prompts stay short.

    transformers 5 forces the class Qwen2Tokenizer on every model of type qwen2, so it is built as just that.
    """
    vocabulary = {character: number for number, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = []
    for role in ROLES:
        for length in range(2, len(role) + 1):
            if role[:length] not in vocabulary:
                vocabulary[role[:length]] = len(vocabulary)
                merges.append((role[: length - 1], role[length - 1]))
    for token in (END_OF_TEXT, TURN_START, TURN_END):
        vocabulary[token] = len(vocabulary)
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=merges,
        unk_token=END_OF_TEXT,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def build_model(tokenizer: Qwen2Tokenizer, heads: int) -> Qwen2ForCausalLM:
    """Make a random Qwen2 of 92 thousand parameters in float32, whatever the number of heads (2 or 4)."""
    torch.manual_seed(SEED)
    end, pad = tokenizer.convert_tokens_to_ids([TURN_END, END_OF_TEXT])
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.convert_tokens_to_ids(TURN_START),
        eos_token_id=end,
        pad_token_id=pad,
        use_sliding_window=False,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=pad)
    return model


def messages(pair: Sum) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{pair[0]}+{pair[1]}=?"}]


def warm_up(model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer, steps: int) -> Iterator[float]:
    """Supervised steps on random sums, stopped while the model is still often wrong. Yields each step's loss."""
    drawing, pairs = random.Random(SEED), sums()
    optimizer = torch.optim.AdamW(model.parameters(), lr=WARM_UP_RATE)
    for _ in range(steps):
        loss = model(**_batch(tokenizer, drawing.sample(pairs, WARM_UP_BATCH))).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def _batch(tokenizer: Qwen2Tokenizer, pairs: Sequence[Sum]) -> dict[str, torch.Tensor]:
    """Input ids, attention mask and labels, each (pairs, longest); only the answer is learnt."""
    rows = [_prompt_and_answer(tokenizer, pair) for pair in pairs]
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids, mask, labels = [], [], []
    for prompt, answer in rows:
        padding = width - len(prompt) - len(answer)
        ids.append(prompt + answer + [0] * padding)
        mask.append([1] * (width - padding) + [0] * padding)
        labels.append([-100] * len(prompt) + answer + [-100] * padding)
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask), "labels": torch.tensor(labels)}


def _prompt_and_answer(tokenizer: Qwen2Tokenizer, pair: Sum) -> tuple[list[int], list[int]]:
    prompt = tokenizer.apply_chat_template(messages(pair), add_generation_prompt=True, return_dict=False)
    answer = tokenizer(f"{sum(pair)}{TURN_END}", add_special_tokens=False)["input_ids"]
    return prompt, answer


def rows(pairs: Sequence[Sum], split: str) -> list[dict[str, Any]]:
    """verl's row format: chat messages, and the ground truth that the reward function compares with."""
    return [
        {
            "data_source": DATA_SOURCE,
            "prompt": messages(pair),
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(sum(pair))},
            "extra_info": {"index": index, "split": split},
        }
        for index, pair in enumerate(pairs)
    ]


def write_data(folder: Path) -> None:
    pairs = sums()
    for split, asked in {"train": pairs * TRAIN_REPEATS, "val": pairs}.items():
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows(asked, split)), folder / f"{split}.parquet")


def make(folder: Path, warm_up_steps: int | None = None) -> None:
    """Write models and data into `folder`, telling the progress on stderr. `warm_up_steps`: None for each its own."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # The order of floating-point sums, and so the weights, must not depend on the machine.
    for name, (heads, steps) in MODELS.items():
        make_model(folder / name, heads, steps if warm_up_steps is None else warm_up_steps)
    write_data(folder)


def make_model(folder: Path, heads: int, steps: int) -> None:
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, heads)
    for step, loss in enumerate(warm_up(model, tokenizer, steps), start=1):
        if step % 20 == 0 or step == steps:
            print(f"{folder.name}: warm-up {step}/{steps}, loss {loss:.2f}", file=sys.stderr, flush=True)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    sys.stderr.flush()
    os._exit(0)  # pyarrow's threads now and then abort an interpreter that is taken down, and the exit code counts.
