"""Rewrite a recipe from FSDP to Megatron. Source: the migration guide in runs/qwen_7b of kitft/verl.

Strategy, Megatron's sizes, smaller micro batches; settings of FSDP are translated where Megatron has the same, else
removed. The critic follows by itself, where rlx writes its keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rlx.backends.shared.migration import REMOVED, Keys, MigrationSizes
from rlx.errors import UsageError

# The guide's tensor parallel size, and what is left of it where heads or devices do not divide by it.
TENSOR_PARALLEL = (4, 2, 1)
_FSDP = re.compile(r"(actor_rollout_ref\.(?:actor|ref)|critic(?:\.model)?)\.fsdp(?:_config)?(?:\.(.+))?")
_SAME_IN_MEGATRON = ("param_offload", "optimizer_offload", "seed")
_ONLY_FSDP = re.compile(r"(.*\.)?(ulysses_sequence_parallel_size|use_remove_padding)")
_STRATEGY = re.compile(r"(actor_rollout_ref\.(actor|ref)|critic)\.strategy")


def to_megatron(document: Mapping[str, Any], sizes: MigrationSizes) -> dict[Keys, object]:
    """Path in the recipe → new value, None to remove it. `document` is the resolved recipe.

    Halving the micro batch keeps every batch divisible: each data parallel group has `tp` times the samples of a
    device before. Raises UsageError for a recipe that is no FSDP recipe of verl.
    """
    if document["backend"]["engine"] == "megatron":
        engine = f"{document['backend']['kind']} with {document['backend']['engine']}"
        raise UsageError(f"backend: {engine} is not to be migrated", "name a recipe for verl with fsdp or fsdp2")
    micro = document["train"]["micro_batch_size"]
    changes: dict[Keys, object] = {
        ("backend", "engine"): "megatron",
        ("layout", "tp"): sizes.tp,
        ("train", "micro_batch_size"): sizes.micro_batch_size or max(1, micro // 2 if micro % 2 == 0 else micro),
    }
    changes |= {("layout", name): size for name, size in (("pp", sizes.pp), ("ep", sizes.ep)) if size > 1}
    return {**changes, **dict(override_changes(document["overrides"]))}


def splits(document: Mapping[str, Any], sizes: MigrationSizes) -> list[MigrationSizes]:
    """Return the sizes that divide the devices, with any tp unless one is given. Raises UsageError if none does."""
    layout = document["layout"]
    devices = layout["nodes"] * layout["devices_per_node"]
    wanted = [sizes.tp] if sizes.tp else TENSOR_PARALLEL
    even = [tp for tp in wanted if devices % (tp * sizes.pp * layout["cp"]) == 0]
    if not even:
        group = f"tp {' or '.join(map(str, wanted))} × pp {sizes.pp} × cp {layout['cp']}"
        raise UsageError(f"layout: {devices} devices are not whole groups of {group}", "give other --tp and --pp")
    return [replace(sizes, tp=tp) for tp in even]


def override_changes(overrides: Mapping[str, Any]) -> Iterator[tuple[Keys, object]]:
    for written, value in overrides.items():
        key = written.lstrip("+~")
        prefix = written[: len(written) - len(key)]
        if found := _FSDP.fullmatch(key):
            yield ("overrides", written), REMOVED
            if found[2] in _SAME_IN_MEGATRON:
                section = found[1].removesuffix(".model")
                yield ("overrides", f"{prefix}{section}.megatron.{found[2]}"), value
        elif _ONLY_FSDP.fullmatch(key) or (_STRATEGY.fullmatch(key) and not key.startswith("critic")):
            yield ("overrides", written), REMOVED
        elif key == "critic.strategy":
            yield ("overrides", written), "megatron"


def advice(document: Mapping[str, Any]) -> Iterator[str]:
    """Name what cannot be decided from the recipe alone."""
    backend, layout = document["backend"], document["layout"]
    if backend["entrypoint"]:
        yield "a critic of the fork's own may have a pool: --set overrides.ray_kwargs.resource_pool.critic.num_gpus=4"
    if document["model"]["lora"]:
        yield "model.lora: verl's Megatron trains adapters by Megatron-Bridge only, from 0.7 on"
    if layout["cp"] > 1:
        yield f"layout.cp {layout['cp']}: was Ulysses' sequence parallel size, is Megatron's context parallel size now"
