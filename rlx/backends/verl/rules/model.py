"""The model's own numbers against the split: heads, layers and experts go to whole devices only."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, VerlFacts
from rlx.planning.models.architectures import Architecture
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

MEGATRON = f"{ACTOR}.megatron"


@rule("RLX212")
def training_heads(facts: VerlFacts) -> Iterator[Flaw]:
    shape, tp = facts.architecture, facts.tp
    if facts.is_megatron and shape and tp and shape.heads % tp:
        fits = [size for size in divisors(shape.heads) if shape.kv_heads % size == 0]
        message = f"layout.tp {tp} does not divide the {shape.heads} attention heads of {shape.name}"
        yield misfit(shape, message, f"layout.tp {one_of(near(fits, tp))}", "layout.tp")


@rule("RLX213")
def training_kv_heads(facts: VerlFacts) -> Iterator[Flaw]:
    shape, tp = facts.architecture, facts.tp
    if facts.is_megatron and shape and not shape.latent and tp and shape.heads % tp == 0 and shape.kv_heads % tp:
        message = f"layout.tp {tp} does not divide the {shape.kv_heads} key-value heads of {shape.name}"
        yield misfit(shape, message, f"layout.tp {one_of(near(divisors(shape.kv_heads), tp))}", "layout.tp")


@rule("RLX214")
def pipeline_layers(facts: VerlFacts) -> Iterator[Flaw]:
    shape, pp = facts.architecture, facts.pp
    if not (facts.is_megatron and shape and pp and shape.layers % pp) or _uneven(facts):
        return
    message = f"layout.pp {pp} does not divide the {shape.layers} layers of {shape.name}"
    first = f"+{MEGATRON}.override_transformer_config.num_layers_in_first_pipeline_stage"
    yield misfit(shape, message, f"layout.pp {one_of(near(divisors(shape.layers), pp))}, or {first}", "layout.pp")


@rule("RLX215")
def training_experts(facts: VerlFacts) -> Iterator[Flaw]:
    shape, ep = facts.architecture, facts.count(f"{MEGATRON}.expert_model_parallel_size")
    if facts.is_megatron and shape and shape.experts and ep and shape.experts.count % ep:
        message = f"layout.ep {ep} does not divide the {shape.experts.count} experts of {shape.name}"
        yield misfit(shape, message, f"layout.ep {one_of(near(divisors(shape.experts.count), ep))}", "layout.ep")


@rule("RLX216")
def no_experts(facts: VerlFacts) -> Iterator[Flaw]:
    shape, recipe = facts.architecture, facts.recipe
    if shape and shape.experts is None:
        for key, ep in (("layout.ep", recipe.layout.ep), ("rollout.ep", recipe.rollout.ep)):
            if ep > 1:
                yield warning(f"{key} {ep}: {shape.name} has no experts", f"{key} 1", key)


@rule("RLX220")
def sequence_heads(facts: VerlFacts) -> Iterator[Flaw]:
    shape, cp = facts.architecture, facts.cp
    if facts.is_megatron or not shape or not cp or (shape.heads % cp == 0 and whole_heads(shape.kv_heads, cp)):
        return
    fits = [size for size in divisors(shape.heads) if whole_heads(shape.kv_heads, size)]
    message = f"layout.cp {cp} does not fit {shape.heads} attention and {shape.kv_heads} key-value heads"
    yield misfit(shape, f"{message} of {shape.name}", f"layout.cp {one_of(near(fits, cp))}", "layout.cp")


@rule("RLX221")
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


@rule("RLX225")
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
