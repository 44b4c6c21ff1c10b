"""MindSpeed-RL: what its validate_config.py and its workers assert, on the recipe's own values.

rlx has no back-end for it yet, so the values are those of the recipe and no override counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rlx.preflight.rules import registry
from rlx.preflight.rules.facts import Facts
from rlx.preflight.rules.registry import Flaw, error
from rlx.preflight.rules.words import divisors, near, one_of

rule = partial(registry.rule, backend="mindspeed-rl")
CHECKS = "MindSpeed-RL 05a90d77, config_cls/validate_config.py"
_LATE = "MindSpeed-RL 05a90d77, workers/resharding/vllm_weight_container.py"


def _devices(facts: Facts) -> int:
    return facts.recipe.layout.nodes * facts.recipe.layout.devices_per_node


def _groups(facts: Facts) -> int | None:
    """Data-parallel groups of the training; None where the devices cannot be split like that."""
    layout = facts.recipe.layout
    size = layout.tp * layout.pp * layout.cp
    return None if _devices(facts) % size else _devices(facts) // size


@rule(
    "RLX270",
    title="MindSpeed-RL: tp × pp × cp does not divide the NPUs",
    why="it refuses the configuration after Ray has started",
    fix="sizes whose product divides the NPUs",
    source=f"{CHECKS}:80-105",
)
def split(facts: Facts) -> Iterator[Flaw]:
    layout = facts.recipe.layout
    size = layout.tp * layout.pp * layout.cp
    if _groups(facts) is None:
        message = f"layout: tp {layout.tp} × pp {layout.pp} × cp {layout.cp} = {size} does not divide"
        fits = one_of(near(divisors(_devices(facts)), size))
        yield error(f"{message} the {_devices(facts)} NPUs", f"make the product {fits}", "layout.tp")


@rule(
    "RLX271",
    title="MindSpeed-RL: the batch cannot be dealt out to the training's groups",
    why="it refuses the configuration after Ray has started",
    fix="a `train.batch_size` that the data-parallel size divides",
    source=f"{CHECKS}:133",
)
def batch_over_groups(facts: Facts) -> Iterator[Flaw]:
    batch, groups = facts.recipe.train.batch_size, _groups(facts)
    if groups and batch % groups:
        fits = sorted({max(groups, batch // groups * groups), -(-batch // groups) * groups})
        message = f"train.batch_size {batch} does not divide over {groups} data-parallel groups"
        yield error(message, f"train.batch_size {one_of(fits)}", "train.batch_size")


@rule(
    "RLX272",
    title="MindSpeed-RL: the micro batch does not divide a group's samples",
    why="it refuses the configuration after Ray has started",
    fix="a `train.micro_batch_size` that divides batch_size / groups × n",
    source=f"{CHECKS}:108, :139",
)
def micro_batch(facts: Facts) -> Iterator[Flaw]:
    train, groups = facts.recipe.train, _groups(facts)
    if groups and train.batch_size % groups == 0:
        share = train.batch_size // groups * facts.recipe.rollout.n
        if share % train.micro_batch_size:
            message = f"train.micro_batch_size {train.micro_batch_size} does not divide the {share} samples of a group"
            yield error(
                message, f"use {one_of(near(divisors(share), train.micro_batch_size))}", "train.micro_batch_size"
            )


@rule(
    "RLX273",
    title="MindSpeed-RL: the batch cannot be dealt out to the rollout's groups",
    why="it refuses the configuration after Ray has started",
    fix="a `train.batch_size` that NPUs / rollout.tp divides",
    source=f"{CHECKS}:158, :190",
)
def batch_over_rollouts(facts: Facts) -> Iterator[Flaw]:
    batch, replicas = facts.recipe.train.batch_size, _devices(facts) // facts.recipe.rollout.tp
    if replicas and batch % replicas:
        fits = sorted({max(replicas, batch // replicas * replicas), -(-batch // replicas) * replicas})
        message = f"train.batch_size {batch} does not divide over {replicas} rollout replicas"
        yield error(message, f"train.batch_size {one_of(fits)}", "train.batch_size")


@rule(
    "RLX274",
    title="MindSpeed-RL: the rollout's experts and the training's do not fit",
    why="it asserts this when the weights are resharded, after the model is loaded",
    fix="a `layout.ep` that divides rollout.ep × rollout.tp",
    source=f"{_LATE}:140-177: (infer_ep*infer_tp) % train_ep == 0",
)
def resharded_experts(facts: Facts) -> Iterator[Flaw]:
    rollout, ep = facts.recipe.rollout, facts.recipe.layout.ep
    if (rollout.ep * rollout.tp) % ep:
        message = f"layout.ep {ep} does not divide rollout.ep {rollout.ep} × rollout.tp {rollout.tp}"
        yield error(message, f"layout.ep {one_of(near(divisors(rollout.ep * rollout.tp), ep))}", "layout.ep")


@rule(
    "RLX275",
    title="MindSpeed-RL: tensor parallel sizes of training and rollout do not fit",
    why="it asserts this when the weights are resharded, after the model is loaded",
    fix="one a multiple of the other, and NPUs / pp a multiple of rollout.tp",
    source=f"{_LATE}:140-177: train_tp % infer_tp; (world // pp) >= infer_tp and divisible",
)
def resharded_tensors(facts: Facts) -> Iterator[Flaw]:
    layout, tp = facts.recipe.layout, facts.recipe.rollout.tp
    stage = _devices(facts) // layout.pp
    if layout.tp > tp and layout.tp % tp:
        message = f"layout.tp {layout.tp} is no multiple of rollout.tp {tp}"
        yield error(message, f"rollout.tp {one_of(near(divisors(layout.tp), tp))}", "rollout.tp")
    elif layout.tp < tp and (stage < tp or stage % tp):
        message = f"rollout.tp {tp} does not divide the {stage} NPUs of a pipeline stage"
        yield error(message, f"rollout.tp {one_of(near(divisors(stage), tp))}" if stage else "lower pp", "rollout.tp")


@rule(
    "RLX276",
    title="MindSpeed-RL: the model's numbers do not fit the split",
    why="Megatron fails when it builds the model; MindSpeed-RL checks none of it before",
    fix="sizes that divide heads, key-value heads, layers and experts",
    source=f"{_LATE}:275 for layers; not checked early: heads, query groups, experts",
)
def shape(facts: Facts) -> Iterator[Flaw]:
    layout, model = facts.recipe.layout, facts.architecture
    if model is None:
        return
    sizes = [("layout.tp", layout.tp, model.heads, "attention heads")]
    sizes += [] if model.latent else [("layout.tp", layout.tp, model.kv_heads, "key-value heads")]
    sizes += [("rollout.tp", facts.recipe.rollout.tp, model.heads, "attention heads")]
    sizes += [("layout.pp", layout.pp, model.layers, "layers")]
    sizes += [("layout.ep", layout.ep, model.experts.count, "experts")] if model.experts else []
    for key, size, whole, what in sizes:
        if whole % size:
            fits = one_of(near(divisors(whole), size))
            yield error(f"{key} {size} does not divide the {whole} {what} of {model.name}", f"{key} {fits}", key)
