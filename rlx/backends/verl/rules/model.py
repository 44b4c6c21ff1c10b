"""The model's own numbers against the split: heads, layers and experts go to whole devices only."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, VerlFacts
from rlx.preflight.models.architectures import Architecture
from rlx.preflight.rules.number_text import divisors, near, one_of
from rlx.preflight.rules.rule_table import Flaw, error, rule, warning

MEGATRON = f"{ACTOR}.megatron"
TABLE = "heads, layers and experts: rlx/preflight/models/architectures.json"


@rule(
    "RLX212",
    title="tensor parallelism of the training does not divide the attention heads",
    why="Megatron fails when it builds the model, after minutes",
    fix="a `layout.tp` that divides the heads and, with grouped queries, the key-value heads",
    source=f"Megatron core: num_attention_heads % tensor_model_parallel_size; {TABLE}",
)
def training_heads(facts: VerlFacts) -> Iterator[Flaw]:
    shape, tp = facts.architecture, facts.tp
    if facts.is_megatron and shape and tp and shape.heads % tp:
        fits = [size for size in divisors(shape.heads) if shape.kv_heads % size == 0]
        message = f"layout.tp {tp} does not divide the {shape.heads} attention heads of {shape.name}"
        yield misfit(shape, message, f"layout.tp {one_of(near(fits, tp))}", "layout.tp")


@rule(
    "RLX213",
    title="tensor parallelism of the training does not divide the key-value heads",
    why="Megatron fails when it builds the model, after minutes",
    fix="a `layout.tp` that divides the key-value heads",
    source=f"Megatron core: num_query_groups % tensor_model_parallel_size; {TABLE}",
)
def training_kv_heads(facts: VerlFacts) -> Iterator[Flaw]:
    shape, tp = facts.architecture, facts.tp
    if facts.is_megatron and shape and not shape.latent and tp and shape.heads % tp == 0 and shape.kv_heads % tp:
        message = f"layout.tp {tp} does not divide the {shape.kv_heads} key-value heads of {shape.name}"
        yield misfit(shape, message, f"layout.tp {one_of(near(divisors(shape.kv_heads), tp))}", "layout.tp")


@rule(
    "RLX214",
    title="the pipeline does not divide the layers",
    why="Megatron fails when it builds the model, after minutes",
    fix="a `layout.pp` that divides the layers, or an override that says how many the first or last stage has",
    source=f"Megatron core: num_layers should be divisible by pipeline_model_parallel_size; {TABLE}",
)
def pipeline_layers(facts: VerlFacts) -> Iterator[Flaw]:
    shape, pp = facts.architecture, facts.pp
    if not (facts.is_megatron and shape and pp and shape.layers % pp) or _uneven(facts):
        return
    message = f"layout.pp {pp} does not divide the {shape.layers} layers of {shape.name}"
    first = f"+{MEGATRON}.override_transformer_config.num_layers_in_first_pipeline_stage"
    yield misfit(shape, message, f"layout.pp {one_of(near(divisors(shape.layers), pp))}, or {first}", "layout.pp")


@rule(
    "RLX215",
    title="expert parallelism of the training does not divide the experts",
    why="Megatron fails when it builds the model, after minutes",
    fix="a `layout.ep` that divides the experts",
    source=f"Megatron core: num_moe_experts % expert_model_parallel_size; {TABLE}",
)
def training_experts(facts: VerlFacts) -> Iterator[Flaw]:
    shape, ep = facts.architecture, facts.count(f"{MEGATRON}.expert_model_parallel_size")
    if facts.is_megatron and shape and shape.experts and ep and shape.experts.count % ep:
        message = f"layout.ep {ep} does not divide the {shape.experts.count} experts of {shape.name}"
        yield misfit(shape, message, f"layout.ep {one_of(near(divisors(shape.experts.count), ep))}", "layout.ep")


@rule(
    "RLX216",
    title="experts are split, and the model has none",
    why="the devices are grouped for nothing, or the engine refuses it",
    fix="leave `layout.ep` and `rollout.ep` at 1",
    source=TABLE,
)
def no_experts(facts: VerlFacts) -> Iterator[Flaw]:
    shape, recipe = facts.architecture, facts.recipe
    if shape and shape.experts is None:
        for key, ep in (("layout.ep", recipe.layout.ep), ("rollout.ep", recipe.rollout.ep)):
            if ep > 1:
                yield warning(f"{key} {ep}: {shape.name} has no experts", f"{key} 1", key)


@rule(
    "RLX220",
    title="the sequence parallel size and the heads do not fit",
    why="verl asserts it when it patches the model, after minutes",
    fix="a `layout.cp` that divides the heads, and divides the key-value heads or is a multiple of them",
    source="verl models/transformers/monkey_patch.py, 0.6.1 :274, 0.9.1 :343: num_attention_heads % ulysses_sp_size; "
    "num_key_value_heads % ulysses_sp_size == 0 or ulysses_sp_size % num_key_value_heads == 0",
)
def sequence_heads(facts: VerlFacts) -> Iterator[Flaw]:
    shape, cp = facts.architecture, facts.cp
    if facts.is_megatron or not shape or not cp or (shape.heads % cp == 0 and whole_heads(shape.kv_heads, cp)):
        return
    fits = [size for size in divisors(shape.heads) if whole_heads(shape.kv_heads, size)]
    message = f"layout.cp {cp} does not fit {shape.heads} attention and {shape.kv_heads} key-value heads"
    yield misfit(shape, f"{message} of {shape.name}", f"layout.cp {one_of(near(fits, cp))}", "layout.cp")


@rule(
    "RLX221",
    title="virtual pipeline stages do not divide the layers",
    why="Megatron fails when it builds the model, after minutes",
    fix="a size for which pp × virtual stages divides the layers",
    source=f"Megatron core: virtual pipeline needs num_layers % (pp × vpp) == 0 and pp > 1; {TABLE}",
)
def virtual_pipeline(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{MEGATRON}.virtual_pipeline_model_parallel_size"
    shape, pp, virtual = facts.architecture, facts.pp, facts.count(key)
    if not (facts.is_megatron and virtual and virtual > 1 and pp):
        return
    if pp == 1:
        yield misfit(
            shape, f"{facts.named(key)} with layout.pp 1: there is no pipeline to split", f"remove {facts.source(key)}"
        )
    elif shape and shape.layers % (pp * virtual) and not _uneven(facts):
        message = f"{facts.named(key)} × layout.pp {pp} does not divide the {shape.layers} layers of {shape.name}"
        fits = [size for size in divisors(shape.layers // pp)] if shape.layers % pp == 0 else [1]
        yield misfit(shape, message, f"{key} {one_of(near(fits, virtual))}", facts.source(key))


@rule(
    "RLX225",
    title="tensor parallelism of the training does not divide the vocabulary",
    why="the embedding is split over its rows; unless the bridge pads them, Megatron fails when it builds the model",
    fix="a `layout.tp` that divides the vocabulary",
    source="Megatron core, tensor_parallel/utils.py, vocab_range_from_global_vocab_size: divide; verl "
    "models/mcore/model_initializer.py passes vocab_size unpadded",
)
def training_vocabulary(facts: VerlFacts) -> Iterator[Flaw]:
    shape, tp = facts.architecture, facts.tp
    if facts.is_megatron and shape and tp and shape.heads % tp == 0 and shape.vocab % tp:
        fits = [size for size in divisors(shape.heads) if shape.vocab % size == 0]
        message = f"layout.tp {tp} does not divide the vocabulary of {shape.vocab} of {shape.name}"
        yield warning(message, f"layout.tp {one_of(near(fits, tp))}, or see that the bridge pads it", "layout.tp")


def misfit(shape: Architecture | None, message: str, fix: str, key: str = "") -> Flaw:
    """Numbers that nobody has held against the model itself may warn, not forbid."""
    if shape is None or shape.confirmed:
        return error(message, fix, key)
    return warning(f"{message} (its shape is from memory)", fix, key)


def whole_heads(kv_heads: int, size: int) -> bool:
    """Each device has whole key-value heads, or each head is on whole devices."""
    return kv_heads % size == 0 or size % kv_heads == 0


def _uneven(facts: VerlFacts) -> bool:
    """Tell whether somebody has said how many layers each stage has."""
    section = facts.settings.section(f"{MEGATRON}.override_transformer_config")
    words = ("pipeline_stage", "pipeline_model_parallel_layout", "account_for_")
    return any(value for key, value in section.items() if any(word in key for word in words))
