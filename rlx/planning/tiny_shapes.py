"""Derive the tiny model of a rehearsal: the class and the ratios of the real model, with two narrow layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.local_files import parse_json, read_bytes
from rlx.planning.models.architecture_config import config_file
from rlx.planning.models.architectures import Architecture, Experts, Latent
from rlx.planning.rules.facts import facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlx.recipe import ResolvedRecipe

_LAYERS = 2
_MOST_BYTES = 4 << 20
_KV_HEADS = 2
_LEAST_WIDTH = 64
_EXPERTS = 8
# A byte is a token, so prompts are longer than with the real tokenizer.
_POSITIONS = 8192
# Five times the usual value: at 0.02 such a small model rates all tokens as equally likely.
_SPREAD = 0.1
_CHATS = {"llama": "llama", "deepseek_v2": "deepseek", "deepseek_v3": "deepseek"}


@dataclass(frozen=True, slots=True)
class TinyModel:
    """The input of payload/tiny_model.py. `config`: arguments of transformers' configuration class."""

    model_type: str
    chat: str
    config: Mapping[str, Any]

    @property
    def shown(self) -> str:
        """The description for messages: `random qwen2: 2 layers, 12 heads, 2 key-value heads`."""
        config = self.config
        heads = f"{config['num_attention_heads']} heads, {config['num_key_value_heads']} key-value heads"
        experts = config.get("num_experts") or config.get("n_routed_experts")
        mixed = f", {experts} experts, {config['num_experts_per_tok']} a token" if experts else ""
        return f"random {self.model_type}: {config['num_hidden_layers']} layers, {heads}{mixed}"


def tiny_model_of(resolved: ResolvedRecipe, head_dim: int) -> TinyModel:
    """Derive the recipe's tiny model, with heads of at least that width.

    Raises UsageError where the back-end's settings are not known.
    """
    facts = facts_of(resolved)
    try:
        kind = parse_json(read_bytes(config_file(facts.recipe), _MOST_BYTES)).get("model_type")
    except (OSError, ValueError, AttributeError):
        kind = None
    return tiny_model(facts.architecture, kind, head_dim) if facts.architecture else stand_in(head_dim)


def tiny_model(shape: Architecture, model_type: str | None = None, head_dim: int = 8) -> TinyModel:
    """Derive a tiny model. `model_type`: the one of the model's config.json; None: derived from the shapes."""
    kind = model_type or _kind(shape)
    kv_heads = min(shape.kv_heads, _KV_HEADS)
    heads = kv_heads * (shape.heads // shape.kv_heads)
    while heads * head_dim < _LEAST_WIDTH:
        head_dim *= 2
    hidden = heads * head_dim
    config: dict[str, Any] = {
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": _POSITIONS,
        "tie_word_embeddings": shape.tied,
        "initializer_range": _SPREAD,
    }
    if shape.latent:
        config |= _latent(shape.latent, head_dim)
    elif not kind.startswith("qwen2"):
        config["head_dim"] = head_dim  # Qwen2's class has none: a head is hidden / heads wide.
    if shape.experts:
        config |= _experts(shape, shape.experts, kind, hidden)
    return TinyModel(kind, _CHATS.get(kind, "chatml"), config)


def stand_in(head_dim: int = 8) -> TinyModel:
    """Replace an unknown model by a Qwen2 with grouped heads."""
    shape = Architecture("qwen2", 64, 2, 4, 2, 16, 128, 512, True, "", True, qkv_bias=True)
    return tiny_model(shape, head_dim=head_dim)


def _kind(shape: Architecture) -> str:
    """Return transformers' model type for a row of the table, which has the shapes only."""
    if shape.latent:
        return "deepseek_v3"
    if shape.experts:
        return "qwen2_moe" if shape.experts.shared_gate else "qwen3_moe"
    if shape.qk_norm:
        return "qwen3"
    return "qwen2" if shape.qkv_bias else "llama"


def _experts(shape: Architecture, experts: Experts, kind: str, hidden: int) -> dict[str, Any]:
    active = min(experts.active, _EXPERTS // 2)
    common = {"num_experts_per_tok": active, "moe_intermediate_size": hidden // 4}
    dense_first = 1 if shape.dense_layers else 0
    if kind.startswith("deepseek"):
        groups = {"n_group": 1, "topk_group": 1, "n_shared_experts": 1 if experts.shared_hidden else 0}
        return {**common, **groups, "n_routed_experts": _EXPERTS, "first_k_dense_replace": dense_first}
    shared = {"shared_expert_intermediate_size": hidden} if experts.shared_gate else {}
    return {**common, **shared, "num_experts": _EXPERTS, "mlp_only_layers": [0] if dense_first else []}


def _latent(latent: Latent, head_dim: int) -> dict[str, Any]:
    sizes = {"qk_nope_head_dim": head_dim, "qk_rope_head_dim": head_dim, "v_head_dim": head_dim}
    return {**sizes, "kv_lora_rank": 2 * head_dim, "q_lora_rank": 4 * head_dim if latent.q_rank else None}
