"""MindSpeed-RL: how batch and model are dealt out to the NPUs, as its validator and its workers assert it."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import (
    BATCH,
    CHECKS,
    CP,
    EP,
    INFER_EP,
    INFER_TP,
    LATE,
    MICRO,
    NPUS,
    PP,
    REFUSED,
    SAMPLES,
    TP,
    MindSpeedRlFacts,
    Sizes,
)
from rlx.preflight.rules.number_text import divisors, near, one_of
from rlx.preflight.rules.rule_table import Flaw, error, note, rule, warning

# Somebody has said how many layers each stage has.
_UNEVEN = ("actor_config.num_layer_list", "actor_config.noop_layers")


@rule(
    "RLX270",
    title="MindSpeed-RL: tp × pp × cp does not divide the NPUs",
    why=REFUSED,
    fix="sizes whose product divides the NPUs",
    source=f"{CHECKS}:80-105",
)
def split(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    sizes = Sizes(facts)
    npus, size = sizes[NPUS], sizes.model_parallel
    if npus and size and npus % size:
        message = f"layout: tp {sizes[TP]} × pp {sizes[PP]} × cp {sizes[CP]} = {size} does not divide the {npus} NPUs"
        yield error(message, f"make the product {one_of(near(divisors(npus), size))}", sizes.source(TP))


@rule(
    "RLX271",
    title="MindSpeed-RL: the batch cannot be dealt out to the training's groups",
    why=REFUSED,
    fix="a `train.batch_size` that the data-parallel size divides",
    source=f"{CHECKS}:133, :197",
)
def batch_over_groups(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    yield from _dealt_out(facts, Sizes(facts).groups, "data-parallel groups")


@rule(
    "RLX272",
    title="MindSpeed-RL: the micro batch does not divide a group's samples",
    why=REFUSED,
    fix="a `train.micro_batch_size` that divides batch_size / groups × n",
    source=f"{CHECKS}:108, :139",
)
def micro_batch(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    sizes = Sizes(facts)
    batch, groups, n, micro = sizes[BATCH], sizes.groups, sizes[SAMPLES], sizes[MICRO]
    if not (batch and groups and n and micro) or batch % groups:
        return
    share = batch // groups * n
    if share % micro:
        message = f"{sizes.named(MICRO)} does not divide the {share} samples of a group"
        yield error(message, f"use {one_of(near(divisors(share), micro))}", sizes.source(MICRO))


@rule(
    "RLX273",
    title="MindSpeed-RL: the batch cannot be dealt out to the rollout's groups",
    why=REFUSED,
    fix="a `train.batch_size` that NPUs / rollout.tp divides",
    source=f"{CHECKS}:158, :190",
)
def batch_over_rollouts(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    yield from _dealt_out(facts, Sizes(facts).replicas, "rollout replicas")


def _dealt_out(facts: MindSpeedRlFacts, parts: int | None, what: str) -> Iterator[Flaw]:
    batch = facts.count(BATCH)
    if parts and batch and batch % parts:
        fits = sorted({max(parts, batch // parts * parts), -(-batch // parts) * parts})
        message = f"{facts.named(BATCH)} does not divide over {parts} {what}"
        yield error(message, f"{facts.source(BATCH)} {one_of(fits)}", facts.source(BATCH))


@rule(
    "RLX274",
    title="MindSpeed-RL: the rollout's experts and the training's do not fit",
    why="it asserts this when the weights are resharded, after the model is loaded",
    fix="`layout.ep` × `layout.tp` that divides rollout.ep × rollout.tp, and no `moe_tp_extend_ep: false`",
    source=f"{LATE}:117-177: with moe_tp_extend_ep the training's size is tp × ep, and infer_ep × infer_tp a multiple "
    "of it; training EP needs moe_tp_extend_ep",
)
def resharded_experts(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    sizes = Sizes(facts)
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


@rule(
    "RLX275",
    title="MindSpeed-RL: tensor parallel sizes of training and rollout do not fit",
    why="it asserts this when the weights are resharded, after the model is loaded",
    fix="one a multiple of the other, and NPUs / pp a multiple of rollout.tp",
    source=f"{LATE}:140-177: train_tp % infer_tp; (world // pp) >= infer_tp and divisible",
)
def resharded_tensors(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    sizes = Sizes(facts)
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


@rule(
    "RLX276",
    title="MindSpeed-RL: the model's numbers do not fit the split",
    why="Megatron fails when it builds the model; MindSpeed-RL checks none of it before",
    fix="sizes that divide heads, key-value heads, layers and experts; `actor_config.num_layer_list` for uneven layers",
    source=f"{LATE}:275 for layers; not checked early: heads, query groups, experts",
)
def shape(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    sizes, model = Sizes(facts), facts.architecture
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


@rule(
    "RLX277",
    title="MindSpeed-RL: pools of devices",
    why="its integrated worker is all roles at once on all NPUs: pools are ignored, or refused after Ray has started",
    fix="remove `layout.pools`",
    source=f"{CHECKS}:33-40: reference_resource and reward_resource must be None",
)
def pools(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    for name in facts.recipe.layout.pools or ():
        yield error(f"layout.pools.{name}: the integrated worker has no pools", "remove it", "layout.pools")


@rule(
    "RLX278",
    title="MindSpeed-RL: more NPUs than the nodes of the run have",
    why="its placement groups wait for the others for ever",
    fix="`layout.nodes` and `layout.devices_per_node`, and no `rl_config.actor_resource.num_npus` in overrides",
    source="MindSpeed-RL 05a90d77, workers/scheduler/launcher.py: construct_placement_groups",
)
def enough_npus(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    sizes, layout = Sizes(facts), facts.recipe.layout
    there = layout.nodes * layout.devices_per_node
    if (sizes[NPUS] or 0) > there:
        message = f"{sizes.named(NPUS)}: {layout.nodes} × {layout.devices_per_node} NPUs make {there}"
        yield error(message, "more layout.nodes, or remove it from overrides", sizes.source(NPUS))


@rule(
    "RLX279",
    title="MindSpeed-RL: a model that it cannot hand to its rollout",
    why="it raises after both copies are loaded: Model architectures … are not supported for now",
    fix="Qwen2, Qwen2.5, Qwen3, Qwen3-MoE, DeepSeek V2 or V3, or Llama; or verl",
    source="MindSpeed-RL 05a90d77, workers/resharding/weight_adaptor.py, about :705-730",
)
def known_weights(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    model = facts.architecture
    # Of the types that rlx knows only Qwen1.5-MoE has a gate on its shared experts.
    if model and model.experts and model.experts.shared_gate:
        message = f"model.arch {model.name}: MindSpeed-RL has no weights of Qwen2MoeForCausalLM"
        yield error(message, "another model, or backend.kind verl", "model.path")


@rule(
    "RLX288",
    title="MindSpeed-RL: experts that are not dealt out, or none that could be",
    why="without `layout.ep` each expert is cut in pieces by tp, or whole on every NPU; a dense model has none",
    fix="a `layout.ep` in place of `layout.tp`: tp 1 and ep 4 take the NPUs of tp 4; 1 for a dense model",
    source=f"{LATE}:117: with moe_tp_extend_ep tp × ep NPUs share the experts",
)
def experts_dealt_out(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    model, sizes = facts.architecture, Sizes(facts)
    ep, tp = sizes[EP] or 1, sizes[TP] or 1
    if model is None:
        return
    if model.experts is None and ep > 1:
        yield warning(f"{sizes.named(EP)}: {model.name} has no experts", f"{sizes.source(EP)} 1", sizes.source(EP))
    elif model.experts and ep == 1:
        held = f"cut in {tp} by {sizes.named(TP)}" if tp > 1 else "whole on every NPU of its stage"
        message = f"{sizes.named(EP)}: each of the {model.experts.count} experts of {model.name} is {held}"
        yield note(message, _dealt_out_by(sizes, model.experts.count, tp), sizes.source(EP))


def _dealt_out_by(sizes: Sizes, experts: int, tp: int) -> str:
    """Name a split over as many NPUs that the rollout can take, if there is one."""
    whole = (sizes[INFER_EP] or 1) * (sizes[INFER_TP] or 1)
    if tp > 1 and experts % tp == 0 and whole % tp == 0:
        return f"{sizes.source(TP)} 1 and {sizes.source(EP)} {tp} give each NPU {experts // tp} whole experts"
    rollout = f"{sizes.source(INFER_EP)} × {sizes.source(INFER_TP)}"
    return f"{sizes.source(EP)}, and a {rollout} ({whole} now) that {sizes.source(EP)} × {sizes.source(TP)} divides"
