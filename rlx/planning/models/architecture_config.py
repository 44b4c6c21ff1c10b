"""Read the shapes of a model from its config.json, as transformers writes it; they outrank the table.

Vision towers are counted as transformers 5.10 lays them out (`models/{qwen2_5_vl,qwen3_vl}/modeling_*.py`);
tests/planning/test_architectures.py compares the formulas with the modules.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.errors import UsageError
from rlx.local_files import parse_json, read_text
from rlx.planning.models.architectures import Architecture, Experts, Latent, architecture_of, linear_attention

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

CONFIG = "the model's config.json"
# In transformers, biases and norms of attention are part of the code, not always of the file.
_QKV_BIAS = {"qwen2", "qwen2_moe"}
_QK_NORM = {"qwen3", "qwen3_moe"}
_DENSE = {"llama", "qwen2", "qwen3"}
_MIXED = {"qwen2_moe", "qwen3_moe"}
_LATENT = {"deepseek_v2", "deepseek_v3"}
# Models with a vision tower, and the language model in each.
_LANGUAGE = {"qwen2_5_vl": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe"}
# Beyond any position, width or vocabulary; layers are counted one by one.
_LARGEST = 10_000_000
_MOST_BYTES = 4 << 20
SUPPORTED = tuple(sorted(_DENSE | _MIXED | _LATENT | _LANGUAGE.keys()))


def known_architecture(recipe: Recipe) -> Architecture | None:
    """Read config.json where the model's folder is on this machine, else the table. None: not known.

    Raises UsageError for a config.json here that does not describe a supported model.
    """
    try:
        path = config_file(recipe)
        text = read_text(path, _MOST_BYTES)
    except OSError:
        return architecture_of(recipe)
    return architecture_from_text(text, str(path))


def config_file(recipe: Recipe) -> Path:
    """Return the path of the model's config.json on this machine."""
    # Path.expanduser raises RuntimeError for an unknown ~user; os.path leaves it, and the file is then not found.
    return Path(os.path.expanduser(recipe.model.path), "config.json")  # noqa: PTH111


def architecture_from_text(text: str, where: str) -> Architecture:
    """Parse the text of a config.json. Raises UsageError with `where` if it describes no supported model."""
    try:
        config = parse_json(text)
        if not isinstance(config, dict):
            raise UsageError("it is no mapping")
        return architecture_from_config(config)
    except ValueError as problem:
        raise UsageError(f"{where}: no JSON ({problem})", "copy the model again") from None
    except UsageError as problem:
        raise UsageError(f"{where}: {problem.message}", problem.hint) from None


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """Read a config. Raises UsageError for an unknown model type or a missing number."""
    kind = config.get("model_type")
    if kind in _LANGUAGE:
        return _with_vision(config, kind)
    if kind not in SUPPORTED:
        why = linear_attention(str(kind)) or "is not known to rlx"
        raise UsageError(f"model_type {kind!r} {why}", f"known are {', '.join(SUPPORTED)}")
    heads, hidden = _number(config, "num_attention_heads"), _number(config, "hidden_size")
    return Architecture(
        name=str(config.get("_name_or_path") or kind),
        hidden=hidden,
        layers=_number(config, "num_hidden_layers"),
        heads=heads,
        kv_heads=_number(config, "num_key_value_heads", heads),
        head_dim=_number(config, "head_dim", hidden // heads),
        mlp_hidden=_number(config, "intermediate_size"),
        vocab=_number(config, "vocab_size"),
        # The default of every class here; PretrainedConfig's own is another.
        tied=bool(config.get("tie_word_embeddings", False)),
        source=CONFIG,
        confirmed=True,
        qkv_bias=bool(config.get("attention_bias", config.get("qkv_bias", kind in _QKV_BIAS))),
        qk_norm=kind in _QK_NORM,
        experts=_experts(config, kind),
        latent=_latent(config) if kind in _LATENT else None,
        max_positions=_positions(config),
    )


def _with_vision(config: Mapping[str, Any], kind: str) -> Architecture:
    """Read the language model in `text_config`, where newer files have it, and the tower in `vision_config`."""
    text = _section(config, "text_config") if config.get("text_config") else config
    tied = bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))
    language = architecture_from_config({**text, "model_type": _LANGUAGE[kind], "tie_word_embeddings": tied})
    tower = _tower(_section(config, "vision_config"), kind)
    return replace(language, name=str(config.get("_name_or_path") or kind), vision=count_vision(tower))


def _tower(config: Mapping[str, Any], kind: str) -> Vision:
    newer = kind != "qwen2_5_vl"
    levels = config.get("deepstack_visual_indexes") or []
    if not isinstance(levels, list):
        raise UsageError("deepstack_visual_indexes is no list", "copy the model's config.json again")
    return Vision(
        depth=_number(config, "depth"),
        hidden=_number(config, "hidden_size"),
        mlp_hidden=_number(config, "intermediate_size"),
        out=_number(config, "out_hidden_size"),
        patch=_number(config, "patch_size", 16 if newer else 14),
        positions=_number(config, "num_position_embeddings") if newer else 0,
        deepstack=len(levels) if newer else 0,
        gated=not newer,
    )


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    if not isinstance(found, dict):
        raise UsageError(f"{name} is no mapping", "copy the model's config.json again")
    return found


def _positions(config: Mapping[str, Any]) -> int | None:
    """Read the positions; None for scaled ones (`rope_scaling`), which engines count differently."""
    return None if config.get("rope_scaling") else _number(config, "max_position_embeddings", 0) or None


def _experts(config: Mapping[str, Any], kind: str) -> Experts | None:
    if kind in _MIXED:
        count = "num_local_experts" if "num_local_experts" in config else "num_experts"
        return Experts(
            count=_number(config, count),
            active=_number(config, "num_experts_per_tok"),
            hidden=_number(config, "moe_intermediate_size"),
            layers=_mixed_layers(config),
            shared_hidden=_number(config, "shared_expert_intermediate_size") if kind == "qwen2_moe" else 0,
            shared_gate=kind == "qwen2_moe",
        )
    if kind in _LATENT and config.get("n_routed_experts"):
        hidden = _number(config, "moe_intermediate_size")
        every = _number(config, "moe_layer_freq", 1)
        layers = range(_number(config, "first_k_dense_replace", 0), _number(config, "num_hidden_layers"))
        return Experts(
            count=_number(config, "n_routed_experts"),
            active=_number(config, "num_experts_per_tok"),
            hidden=hidden,
            layers=sum(layer % every == 0 for layer in layers),
            shared_hidden=hidden * _number(config, "n_shared_experts", 0),
        )
    return None


def _mixed_layers(config: Mapping[str, Any]) -> int:
    """Count layers with experts: every `decoder_sparse_step`-th, except those in `mlp_only_layers`."""
    named, every = config.get("mlp_only_layers") or [], _number(config, "decoder_sparse_step", 1)
    if not (isinstance(named, list) and all(type(layer) is int for layer in named)):
        raise UsageError("mlp_only_layers is no list of whole numbers", "copy the model's config.json again")
    dense = set(named)
    layers = range(_number(config, "num_hidden_layers"))
    return sum(layer not in dense and (layer + 1) % every == 0 for layer in layers)


def _latent(config: Mapping[str, Any]) -> Latent:
    return Latent(
        q_rank=_number(config, "q_lora_rank") if config.get("q_lora_rank") is not None else None,
        kv_rank=_number(config, "kv_lora_rank"),
        nope_dim=_number(config, "qk_nope_head_dim"),
        rope_dim=_number(config, "qk_rope_head_dim"),
        value_dim=_number(config, "v_head_dim"),
    )


def _number(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """Read a whole number, positive unless the default is 0. A null counts as missing, as in transformers."""
    value = config.get(key)
    if value is None and default is not None:
        return default
    if type(value) is not int or not (0 if default == 0 else 1) <= value <= _LARGEST:
        message = f"{key} is {value!r}, not a whole number from 1 to {_LARGEST}"
        raise UsageError(message, "copy the model's config.json again")
    return value


_CHANNELS, _FRAMES, _MERGED = 3, 2, 4  # colours, frames of a patch, patches that become one token


@dataclass(frozen=True, slots=True)
class Vision:
    """The widths of a vision tower; `out` is the language model's. Only Qwen3-VL has `positions` and `deepstack`."""

    depth: int
    hidden: int
    mlp_hidden: int
    out: int
    patch: int
    positions: int = 0
    deepstack: int = 0
    gated: bool = False


def count_vision(tower: Vision) -> int:
    """Count parameters: Qwen2.5-VL has gated MLPs and RMSNorm; Qwen3-VL plain MLPs, LayerNorm, biases and mergers."""
    hidden, width, wide = tower.hidden, tower.mlp_hidden, _MERGED * tower.hidden
    attention = 4 * hidden * hidden + 4 * hidden
    matrices = 3 if tower.gated else 2
    mlp = matrices * hidden * width + (matrices - 1) * width + hidden
    norm = 1 if tower.gated else 2
    block = attention + mlp + 2 * norm * hidden
    embedding = _CHANNELS * _FRAMES * tower.patch**2 * hidden + (0 if tower.gated else hidden)
    merger = wide * wide + wide + wide * tower.out + tower.out
    mergers = merger + norm * hidden + tower.deepstack * (merger + norm * wide)
    return tower.depth * block + embedding + tower.positions * hidden + mergers
