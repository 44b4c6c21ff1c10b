"""Answers of a model in Hugging Face's form, by its own tokenizer and chat template: with transformers or with vLLM.

What both are told in full is not left to the model's generation_config.json: penalties and top_k in there would make
another policy of it than the one that was trained.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlx_eval_order import EvalFailure, EvalOrder

Chat = Sequence["dict[str, str]"]


def answers(order: EvalOrder, folder: Path, chats: Sequence[Chat]) -> list[tuple[str, str]]:
    """Prompt and answer of each chat, decoded without special tokens, as verl decodes them."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder), padding_side="left")
    if not tokenizer.chat_template:
        raise EvalFailure("the model's tokenizer has no chat template")
    prompts = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False) for chat in chats]
    generate = _by_vllm if order.engine == "vllm" else _by_transformers
    outputs = generate(order, folder, tokenizer, prompts)
    return [
        (tokenizer.decode(prompt, skip_special_tokens=True), tokenizer.decode(output, skip_special_tokens=True))
        for prompt, output in zip(prompts, outputs, strict=True)
    ]


def _by_transformers(order: EvalOrder, folder: Path, tokenizer: Any, prompts: list[list[int]]) -> Iterator[list[int]]:
    import torch
    from transformers import AutoModelForCausalLM

    if order.device == "npu":
        importlib.import_module("torch_npu")
    model = AutoModelForCausalLM.from_pretrained(folder).to(order.device, getattr(torch, order.dtype)).eval()
    end = model.generation_config.eos_token_id or model.config.eos_token_id or tokenizer.eos_token_id
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model.generation_config = _sampling(order, end, tokenizer.pad_token_id)
    torch.manual_seed(order.seed)
    for start in range(0, len(prompts), order.batch_size):
        yield from _batch(model, tokenizer, prompts[start : start + order.batch_size])


def _sampling(order: EvalOrder, end: int | list[int], pad: int) -> Any:
    from transformers import GenerationConfig

    sampled = {"do_sample": True, "temperature": order.temperature, "top_k": 0, "top_p": 1.0}
    how = sampled if order.temperature > 0 else {"do_sample": False}
    return GenerationConfig(max_new_tokens=order.max_response_tokens, eos_token_id=end, pad_token_id=pad, **how)


def _batch(model: Any, tokenizer: Any, prompts: list[list[int]]) -> list[list[int]]:
    import torch

    inputs = tokenizer.pad({"input_ids": prompts}, return_tensors="pt").to(model.device)
    with torch.inference_mode():
        tokens = model.generate(**inputs)
    return tokens[:, inputs["input_ids"].shape[1] :].tolist()


def _by_vllm(order: EvalOrder, folder: Path, tokenizer: Any, prompts: list[list[int]]) -> list[list[int]]:
    from vllm import LLM, SamplingParams

    model = LLM(
        model=str(folder),
        dtype=order.dtype,
        tensor_parallel_size=order.devices,
        gpu_memory_utilization=order.memory,
        enforce_eager=order.eager,
        seed=order.seed,
        max_model_len=max(map(len, prompts)) + order.max_response_tokens,
    )
    # One seed for all would make the answers to a prompt the same.
    sampling = [
        SamplingParams(temperature=order.temperature, max_tokens=order.max_response_tokens, seed=order.seed + number)
        for number in range(len(prompts))
    ]
    done = model.generate([{"prompt_token_ids": prompt} for prompt in prompts], sampling)
    outputs = [list(one.outputs[0].token_ids) for one in done]
    # Its engine is a process of its own, which goes with this object.
    del model
    gc.collect()
    return outputs
