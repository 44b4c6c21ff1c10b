"""The shapes of models, as far as layouts and memory depend on them.

`architectures.json` holds what is known without the model, each row with its sources. `"confirmed": false` would mark a
row from memory, of which misfits only warn; a config.json is always better (`architecture_config`).
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
# What distinguishes weights, not shapes: Qwen3-30B-A3B-Instruct-2507 is a qwen3-30b-a3b.
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
    """Widths in numbers, `mlp_hidden` of a dense layer; `max_positions` in tokens, None: not known.

    `vision` counts the parameters of the tower that turns images into tokens; all else is the language model's.

    `source` names where the numbers are from; `confirmed` is False for those from memory.
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
    """Look it up by `model.arch`, else by the name of the model's folder. None: not in the table."""
    return find_architecture(recipe.model.arch or recipe.model.path)


def find_architecture(name: str) -> Architecture | None:
    """`/models/Qwen2.5-7B-Instruct` is `qwen2.5-7b`. None: not in the table."""
    short = name.rstrip("/").rsplit("/", 1)[-1].lower()
    table = _table()
    while short not in table:
        shorter = _FLAVOUR.sub("", short)
        if shorter == short:
            return None
        short = shorter
    return table[short]


def linear_attention(name: str) -> str:
    """Say why a model is recognised and yet not estimated; "" for any other."""
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
