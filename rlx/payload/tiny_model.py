"""Makes a random model of a given class and given shapes, with a byte-level tokenizer: what a rehearsal trains.

    python tiny_model.py FOLDER ORDER      ORDER is JSON: model_type, chat (chatml, llama or deepseek), config

Deterministic and offline. The class is the one that transformers has for the model type, so module names, fused
experts and latent attention are those of the real model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from tiny_addition import END_OF_TEXT, TURN_END, TURN_START, build_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

SEED = 0
_EACH = "{% for m in messages %}"
_ASSISTANT = "{% if add_generation_prompt %}"
# What a turn looks like in each family; chatml is what tiny_addition's tokenizer has already.
CHAT_TEMPLATES = {
    "llama": _EACH + "{{ '<|im_start|>' + m['role'] + '\n\n' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "" + _ASSISTANT + "{{ '<|im_start|>assistant\n\n' }}{% endif %}",
    "deepseek": _EACH + "{{ m['role'] + ': ' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "" + _ASSISTANT + "{{ 'assistant: ' }}{% endif %}",
}


def make(folder: Path, order: dict[str, Any]) -> None:
    """Write config, weights (float32) and tokenizer into `folder`."""
    tokenizer = build_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATES.get(order["chat"], tokenizer.chat_template)
    start, end, pad = tokenizer.convert_tokens_to_ids([TURN_START, TURN_END, END_OF_TEXT])
    marks = {"bos_token_id": start, "eos_token_id": end, "pad_token_id": pad}
    config = AutoConfig.for_model(order["model_type"], vocab_size=len(tokenizer), **marks, **order["config"])
    torch.manual_seed(SEED)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=pad)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(json.dumps({"class": type(model).__name__, "parameters": sum(p.numel() for p in model.parameters())}))


if __name__ == "__main__":
    make(Path(sys.argv[1]), json.loads(sys.argv[2]))
