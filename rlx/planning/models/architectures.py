"""The shapes of models that layouts and memory depend on, and their numbers of parameters.

`architectures.json` holds the shapes that are known without the model, each row with its sources. `"confirmed": false`
would mark an unconfirmed row, whose misfits only warn; a config.json is always better (`architecture_config`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

_LINEAR = re.compile(r"qwen3[-_](next|5)|qwen3\.5", re.IGNORECASE)
# Suffixes that change the weights, not the shapes: Qwen3-30B-A3B-Instruct-2507 is a qwen3-30b-a3b.
_FLAVOUR = re.compile(r"-(instruct|chat|base|math|coder|thinking|\d{4})$")


@dataclass(frozen=True, slots=True)
class Experts:
    """The experts of a mixture layer. `shared_hidden` is the width of all the shared experts of a layer together."""

    count: int
    active: int
    hidden: int
    layers: int
    shared_hidden: int = 0
    shared_gate: bool = False


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1). Without `q_rank` queries are full."""

    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """The shapes of a model. `mlp_hidden` is the width of a dense layer; `max_positions` in tokens, None: not known.

    `vision` counts the parameters of the tower that turns images into tokens; all other numbers are the language
    model's. `source` names the origin of the numbers; `confirmed` is False without a source.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_hidden: int
    vocab: int
    tied: bool
    source: str
    confirmed: bool
    qkv_bias: bool = False
    qk_norm: bool = False
    experts: Experts | None = None
    latent: Latent | None = None
    max_positions: int | None = None
    vision: int = 0

    @property
    def dense_layers(self) -> int:
        return self.layers - (self.experts.layers if self.experts else 0)


def architecture_of(recipe: Recipe) -> Architecture | None:
    """Find the architecture by `model.arch`, else by the name of the model's folder. None: not in the table."""
    return find_architecture(recipe.model.arch or recipe.model.path)


def find_architecture(name: str) -> Architecture | None:
    """Find a model in the table: `/models/Qwen2.5-7B-Instruct` is `qwen2.5-7b`. None: not in the table."""
    short = name.rstrip("/").rsplit("/", 1)[-1].lower()
    table = _table()
    while short not in table:
        shorter = _FLAVOUR.sub("", short)
        if shorter == short:
            return None
        short = shorter
    return table[short]


def linear_attention(name: str) -> str:
    """Return why a model is recognised but not estimated; "" for any other."""
    return "mixes linear attention into its layers, which rlx does not estimate" if _LINEAR.search(name) else ""


def known_architectures() -> tuple[Architecture, ...]:
    return tuple(_table().values())


@cache
def _table() -> dict[str, Architecture]:
    text = files("rlx.planning.models").joinpath("architectures.json").read_text(encoding="utf-8")
    return {name: _read(name, row) for name, row in json.loads(text).items()}


def _read(name: str, row: dict[str, Any]) -> Architecture:
    parts: dict[str, Any] = {}
    if "experts" in row:
        parts["experts"] = Experts(**row["experts"])
    if "latent" in row:
        parts["latent"] = Latent(**row["latent"])
    return Architecture(name=name, **{**row, **parts})


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of parameters of the whole model. A tied output layer counts once, in `embedding`.

    `mlp`: the parts of the MLPs that every token uses: dense layers, shared experts and routers. `active_experts` of
    the `experts` are used for one token. `vision`: the vision tower.
    """

    embedding: int
    head: int
    attention: int
    mlp: int
    experts: int
    active_experts: int
    norms: int
    vision: int = 0

    @property
    def total(self) -> int:
        return self.active + self.experts - self.active_experts

    @property
    def active(self) -> int:
        """The parameters used for one token, including the embedding, as in published counts."""
        return self.embedding + self.head + self.attention + self.mlp + self.active_experts + self.norms + self.vision


def count_parameters(shape: Architecture) -> Parameters:
    table = shape.vocab * shape.hidden
    return Parameters(
        embedding=table,
        head=0 if shape.tied else table,
        attention=shape.layers * _attention(shape),
        mlp=shape.dense_layers * 3 * shape.hidden * shape.mlp_hidden + _shared(shape),
        experts=_routed(shape, shape.experts.count) if shape.experts else 0,
        active_experts=_routed(shape, shape.experts.active) if shape.experts else 0,
        norms=shape.layers * _norms(shape) + shape.hidden,
        vision=shape.vision,
    )


def _attention(shape: Architecture) -> int:
    """Count one layer's projections; multi-head latent attention after arXiv:2405.04434, appendix C."""
    if shape.latent is None:
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        bias = queries + 2 * keys if shape.qkv_bias else 0
        return shape.hidden * 2 * (queries + keys) + bias
    latent = shape.latent
    queries = shape.heads * (latent.nope_dim + latent.rope_dim)
    up = shape.heads * (latent.nope_dim + latent.value_dim)
    query = shape.hidden * queries if latent.q_rank is None else latent.q_rank * (shape.hidden + queries)
    keys = shape.hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank * up
    return query + keys + shape.heads * latent.value_dim * shape.hidden


def _shared(shape: Architecture) -> int:
    """Count routers, shared experts and their gates in all layers."""
    if shape.experts is None:
        return 0
    experts = shape.experts
    return experts.layers * shape.hidden * (experts.count + 3 * experts.shared_hidden + experts.shared_gate)


def _routed(shape: Architecture, experts: int) -> int:
    assert shape.experts is not None
    return shape.experts.layers * experts * 3 * shape.hidden * shape.experts.hidden


def _norms(shape: Architecture) -> int:
    """Count one layer's norms: before attention and MLP, on the heads of queries and keys, on the latents."""
    heads = 2 * shape.head_dim if shape.qk_norm else 0
    latents = (shape.latent.q_rank or 0) + shape.latent.kv_rank if shape.latent else 0
    return 2 * shape.hidden + heads + latents


def largest_tensor(shape: Architecture) -> tuple[str, int]:
    """Name the largest tensor as verl hands it to the rollout, with its elements.

    Experts go one by one: Megatron's bridges export them so, and verl takes apart what transformers has put together.
    """
    tensors = {"the embedding": shape.vocab * shape.hidden, "an MLP's projection": shape.hidden * shape.mlp_hidden}
    return max(tensors.items(), key=lambda tensor: tensor[1])
