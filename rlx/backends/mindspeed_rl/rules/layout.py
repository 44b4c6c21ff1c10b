"""MindSpeed-RL: how batch and model are split over the NPUs, as its validator and its workers assert it."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import (
    BATCH,
    CP,
    EP,
    INFER_EP,
    INFER_TP,
    MICRO,
    NPUS,
    PP,
    SAMPLES,
    TP,
    MindSpeedRlFacts,
    NpuSizes,
)
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import RuleFinding, error, note, rule, warning

# These set the number of layers of each stage.
_UNEVEN = ("actor_config.num_layer_list", "actor_config.noop_layers")


@rule("RLX270")
def split(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    sizes = NpuSizes(facts)
    npus, size = sizes[NPUS], sizes.model_parallel
    if npus and size and npus % size:
        message = f"layout: tp {sizes[TP]} × pp {sizes[PP]} × cp {sizes[CP]} = {size} does not divide the {npus} NPUs"
        yield error(message, f"make the product {one_of(near(divisors(npus), size))}", sizes.source(TP))


@rule("RLX271")
def batch_over_groups(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    yield from _dealt_out(facts, NpuSizes(facts).groups, "data-parallel groups")


@rule("RLX272")
def micro_batch(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    sizes = NpuSizes(facts)
    batch, groups, n, micro = sizes[BATCH], sizes.groups, sizes[SAMPLES], sizes[MICRO]
    if not (batch and groups and n and micro) or batch % groups:
        return
    share = batch // groups * n
    if share % micro:
        message = f"{sizes.named(MICRO)} does not divide the {share} samples of a group"
        yield error(message, f"use {one_of(near(divisors(share), micro))}", sizes.source(MICRO))


@rule("RLX273")
def batch_over_rollouts(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    yield from _dealt_out(facts, NpuSizes(facts).replicas, "rollout replicas")


def _dealt_out(facts: MindSpeedRlFacts, parts: int | None, what: str) -> Iterator[RuleFinding]:
    batch = facts.count(BATCH)
    if parts and batch and batch % parts:
        fits = sorted({max(parts, batch // parts * parts), -(-batch // parts) * parts})
        message = f"{facts.named(BATCH)} does not divide over {parts} {what}"
        yield error(message, f"{facts.source(BATCH)} {one_of(fits)}", facts.source(BATCH))


@rule("RLX274")
def resharded_experts(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    sizes = NpuSizes(facts)
    infer_ep, infer_tp, ep = sizes[INFER_EP], sizes[INFER_TP], sizes[EP]
    if not (infer_ep and infer_tp and ep):
        return
    tp = sizes[TP] or 1 if ep > 1 else 1
    if (whole := infer_ep * infer_tp) % (tp * ep):
        over = f" × {sizes.named(TP)}" if tp > 1 else ""
        message = f"{sizes.named(EP)}{over} does not divide {sizes.named(INFER_EP)} × {sizes.named(INFER_TP)}"
        fits = [size for size in divisors(whole) if whole % (tp * size) == 0]
        fix = f"{sizes.source(EP)} {one_of(near(fits, ep))}" if fits else f"a larger {sizes.source(INFER_TP)}"
        yield error(message, fix, sizes.source(EP))
    if ep > 1 and not facts.is_true("actor_config.moe_tp_extend_ep"):
        yield error(f"{sizes.named(EP)} without moe_tp_extend_ep", "remove the override", sizes.source(EP))


@rule("RLX275")
def resharded_tensors(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    sizes = NpuSizes(facts)
    train, infer, npus, pp = sizes[TP], sizes[INFER_TP], sizes[NPUS], sizes[PP]
    if not (train and infer and npus and pp):
        return
    stage, where = npus // pp, sizes.source(INFER_TP)
    if train > infer and train % infer:
        message = f"{sizes.named(TP)} is no multiple of {sizes.named(INFER_TP)}"
        yield error(message, f"{where} {one_of(near(divisors(train), infer))}", where)
    elif train < infer and (stage < infer or stage % infer):
        message = f"{sizes.named(INFER_TP)} does not divide the {stage} NPUs of a pipeline stage"
        yield error(message, f"{where} {one_of(near(divisors(stage), infer))}" if stage else "lower pp", where)


@rule("RLX276")
def shape(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    sizes, model = NpuSizes(facts), facts.architecture
    if model is None:
        return
    wholes = [(TP, model.heads, "attention heads")]
    wholes += [] if model.latent else [(TP, model.kv_heads, "key-value heads")]
    wholes += [(INFER_TP, model.heads, "attention heads")]
    wholes += [(PP, model.layers, "layers")] if all(facts.setting(key) is None for key in _UNEVEN) else []
    wholes += [(EP, model.experts.count, "experts")] if model.experts else []
    for key, whole, what in wholes:
        if (size := sizes[key]) and whole % size:
            fits = f"{sizes.source(key)} {one_of(near(divisors(whole), size))}"
            message = f"{sizes.named(key)} does not divide the {whole} {what} of {model.name}"
            yield error(message, fits, sizes.source(key))


@rule("RLX277")
def pools(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    for name in facts.recipe.layout.pools or ():
        yield error(f"layout.pools.{name}: the integrated worker has no pools", "remove it", "layout.pools")


@rule("RLX278")
def enough_npus(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    sizes, layout = NpuSizes(facts), facts.recipe.layout
    there = layout.nodes * layout.devices_per_node
    if (sizes[NPUS] or 0) > there:
        message = f"{sizes.named(NPUS)}: {layout.nodes} × {layout.devices_per_node} NPUs make {there}"
        yield error(message, "more layout.nodes, or remove it from overrides", sizes.source(NPUS))


@rule("RLX279")
def known_weights(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    model = facts.architecture
    # Of the types that rlx knows only Qwen1.5-MoE has a gate on its shared experts.
    if model and model.experts and model.experts.shared_gate:
        message = f"model.arch {model.name}: MindSpeed-RL has no weights of Qwen2MoeForCausalLM"
        yield error(message, "another model, or backend.kind verl", "model.path")


@rule("RLX288")
def experts_dealt_out(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    model, sizes = facts.architecture, NpuSizes(facts)
    ep, tp = sizes[EP] or 1, sizes[TP] or 1
    if model is None:
        return
    if model.experts is None and ep > 1:
        yield warning(f"{sizes.named(EP)}: {model.name} has no experts", f"{sizes.source(EP)} 1", sizes.source(EP))
    elif model.experts and ep == 1:
        held = f"cut in {tp} by {sizes.named(TP)}" if tp > 1 else "whole on every NPU of its stage"
        message = f"{sizes.named(EP)}: each of the {model.experts.count} experts of {model.name} is {held}"
        yield note(message, _dealt_out_by(sizes, model.experts.count, tp), sizes.source(EP))


def _dealt_out_by(sizes: NpuSizes, experts: int, tp: int) -> str:
    """Name a split over as many NPUs that the rollout can take, if there is one."""
    whole = (sizes[INFER_EP] or 1) * (sizes[INFER_TP] or 1)
    if tp > 1 and experts % tp == 0 and whole % tp == 0:
        return f"{sizes.source(TP)} 1 and {sizes.source(EP)} {tp} give each NPU {experts // tp} whole experts"
    rollout = f"{sizes.source(INFER_EP)} × {sizes.source(INFER_TP)}"
    return f"{sizes.source(EP)}, and a {rollout} ({whole} now) that {sizes.source(EP)} × {sizes.source(TP)} divides"
