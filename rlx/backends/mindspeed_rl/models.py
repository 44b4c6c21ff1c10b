"""The descriptions of models that MindSpeed-RL ships in configs/model/ (branches 2.2.0, 2.3.0 and master).

Of Qwen3-30B-A3B its ffn_hidden_size is 8192 where the model's own config.json says 6144; no layer of that model reads
it. Of Qwen2.5-32B its norm_epsilon is 1e-5 where the model's own is 1e-6.
"""

from __future__ import annotations

_SHIPPED = {
    "qwen2.5-7b": "qwen25_7b",
    "qwen2.5-32b": "qwen25_32b",
    "qwen3-8b": "qwen3_8b",
    "qwen3-32b": "qwen3_32b",
    "qwen3-30b-a3b": "qwen3_30b_a3b",
    "qwen3-235b-a22b": "qwen3_235b_a22b",
    "deepseek-v3": "deepseekv3_671b",
    "deepseek-r1": "deepseekv3_671b",
}
SHIPPED = frozenset(_SHIPPED.values())


def sub_config(architecture: str | None) -> str | None:
    """The name of the shipped description of `model.arch`; None if there is none."""
    return _SHIPPED.get(architecture or "")


def architecture(name: str) -> str | None:
    """The `model.arch` of a shipped description; None for a description of somebody's own."""
    return next((arch for arch, shipped in _SHIPPED.items() if shipped == name), None)
