"""The model's own numbers against the split of the generation."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, ROLLOUT, VerlFacts
from rlx.backends.verl.rules.layout import ROLLOUT_TP
from rlx.backends.verl.rules.model import misfit, whole_heads
from rlx.planning.memory.inputs import DTYPE_BYTES
from rlx.planning.models.parameters import largest_tensor
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, rule, warning

_BUCKET = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"


@rule("RLX217")
def rollout_heads(facts: VerlFacts) -> Iterator[Flaw]:
    shape, tp = facts.architecture, facts.count(ROLLOUT_TP)
    if shape and tp and shape.heads % tp:
        fits = [size for size in divisors(shape.heads) if not facts.devices or facts.devices % size == 0]
        message = f"{facts.named(ROLLOUT_TP)} does not divide the {shape.heads} attention heads of {shape.name}"
        yield misfit(shape, message, f"rollout.tp {one_of(near(fits, tp))}", facts.source(ROLLOUT_TP))


@rule("RLX218")
def rollout_kv_heads(facts: VerlFacts) -> Iterator[Flaw]:
    shape, tp = facts.architecture, facts.count(ROLLOUT_TP)
    if shape and not shape.latent and tp and shape.heads % tp == 0 and not whole_heads(shape.kv_heads, tp):
        fits = [size for size in divisors(shape.heads) if whole_heads(shape.kv_heads, size)]
        message = f"{facts.named(ROLLOUT_TP)} and the {shape.kv_heads} key-value heads of {shape.name} do not fit"
        yield misfit(shape, message, f"rollout.tp {one_of(near(fits, tp))}", facts.source(ROLLOUT_TP))


@rule("RLX219")
def rollout_experts(facts: VerlFacts) -> Iterator[Flaw]:
    shape, ep = facts.architecture, facts.count(f"{ROLLOUT}.expert_parallel_size")
    if shape and shape.experts and ep and shape.experts.count % ep:
        message = f"rollout.ep {ep} does not divide the {shape.experts.count} experts of {shape.name}"
        yield misfit(shape, message, f"rollout.ep {one_of(near(divisors(shape.experts.count), ep))}", "rollout.ep")


@rule("RLX239")
def weight_bucket(facts: VerlFacts) -> Iterator[Flaw]:
    shape, bucket = facts.architecture, facts.count(_BUCKET)
    if shape is None or bucket is None or facts.lora_rank or facts.recipe.rollout.engine != "vllm":
        return
    name, elements = largest_tensor(shape)
    needed = -(-elements * _synced_bytes(facts) // 2**20)
    if needed <= bucket:
        return
    message = f"{facts.named(_BUCKET)}: {name} of {shape.name} takes {needed} MiB"
    fix = f"overrides: {{{_BUCKET}: {-(-needed // 1024) * 1024}}}"
    if facts.release < (0, 8):
        yield misfit(shape, message, fix, facts.source(_BUCKET))
    elif facts.recipe.layout.device != "cuda":
        yield warning(message, fix, facts.source(_BUCKET))


def _synced_bytes(facts: VerlFacts) -> int:
    """Bytes of an element on its way: FSDP's as they are kept, but verl 0.8 rounds them first."""
    if facts.is_megatron or facts.release == (0, 8):
        return 2
    return DTYPE_BYTES.get(str(facts.setting(f"{ACTOR}.fsdp_config.model_dtype")), 4)
