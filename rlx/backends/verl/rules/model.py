"""Check the model's own numbers against its split, the length of a sequence, and its low-rank adapters."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, MODEL, ROLLOUT, VerlFacts
from rlx.backends.verl.rules.layout import ROLLOUT_TP
from rlx.planning.memory.job import DTYPE_BYTES
from rlx.planning.models.architectures import Architecture, largest_tensor
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

MEGATRON = f"{ACTOR}.megatron"
_BUCKET = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"
LENGTH, TOKENS, CHUNKED = (
    f"{ROLLOUT}.{name}" for name in ("max_model_len", "max_num_batched_tokens", "enable_chunked_prefill")
)
MBRIDGE, VANILLA = f"{ACTOR}.megatron.use_mbridge", f"{ACTOR}.megatron.vanilla_mbridge"
MOST_RANKS = 512


@rule("RLX212")
def training_heads(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, tp = facts.architecture, facts.tp
    if facts.is_megatron and shape and tp and shape.heads % tp:
        fits = [size for size in divisors(shape.heads) if shape.kv_heads % size == 0]
        message = f"layout.tp {tp} does not divide the {shape.heads} attention heads of {shape.name}"
        yield misfit(shape, message, f"layout.tp {one_of(near(fits, tp))}", "layout.tp")


@rule("RLX213")
def training_kv_heads(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, tp = facts.architecture, facts.tp
    if facts.is_megatron and shape and not shape.latent and tp and shape.heads % tp == 0 and shape.kv_heads % tp:
        message = f"layout.tp {tp} does not divide the {shape.kv_heads} key-value heads of {shape.name}"
        yield misfit(shape, message, f"layout.tp {one_of(near(divisors(shape.kv_heads), tp))}", "layout.tp")


@rule("RLX214")
def pipeline_layers(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, pp = facts.architecture, facts.pp
    if not (facts.is_megatron and shape and pp and shape.layers % pp) or _uneven(facts):
        return
    message = f"layout.pp {pp} does not divide the {shape.layers} layers of {shape.name}"
    first = f"+{MEGATRON}.override_transformer_config.num_layers_in_first_pipeline_stage"
    yield misfit(shape, message, f"layout.pp {one_of(near(divisors(shape.layers), pp))}, or {first}", "layout.pp")


@rule("RLX215")
def training_experts(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, ep = facts.architecture, facts.count(f"{MEGATRON}.expert_model_parallel_size")
    if facts.is_megatron and shape and shape.experts and ep and shape.experts.count % ep:
        message = f"layout.ep {ep} does not divide the {shape.experts.count} experts of {shape.name}"
        yield misfit(shape, message, f"layout.ep {one_of(near(divisors(shape.experts.count), ep))}", "layout.ep")


@rule("RLX216")
def no_experts(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, recipe = facts.architecture, facts.recipe
    if shape and shape.experts is None:
        for key, ep in (("layout.ep", recipe.layout.ep), ("rollout.ep", recipe.rollout.ep)):
            if ep > 1:
                yield warning(f"{key} {ep}: {shape.name} has no experts", f"{key} 1", key)


@rule("RLX220")
def sequence_heads(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, cp = facts.architecture, facts.cp
    if facts.is_megatron or not shape or not cp or (shape.heads % cp == 0 and whole_heads(shape.kv_heads, cp)):
        return
    fits = [size for size in divisors(shape.heads) if whole_heads(shape.kv_heads, size)]
    message = f"layout.cp {cp} does not fit {shape.heads} attention and {shape.kv_heads} key-value heads"
    yield misfit(shape, f"{message} of {shape.name}", f"layout.cp {one_of(near(fits, cp))}", "layout.cp")


@rule("RLX221")
def virtual_pipeline(facts: VerlFacts) -> Iterator[RuleFinding]:
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
def training_vocabulary(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, tp = facts.architecture, facts.tp
    if facts.is_megatron and shape and tp and shape.heads % tp == 0 and shape.vocab % tp:
        fits = [size for size in divisors(shape.heads) if shape.vocab % size == 0]
        message = f"layout.tp {tp} does not divide the vocabulary of {shape.vocab} of {shape.name}"
        yield warning(message, f"layout.tp {one_of(near(fits, tp))}, or see that the bridge pads it", "layout.tp")


@rule("RLX217")
def rollout_heads(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, tp = facts.architecture, facts.count(ROLLOUT_TP)
    if shape and tp and shape.heads % tp:
        fits = [size for size in divisors(shape.heads) if not facts.devices or facts.devices % size == 0]
        message = f"{facts.named(ROLLOUT_TP)} does not divide the {shape.heads} attention heads of {shape.name}"
        yield misfit(shape, message, f"rollout.tp {one_of(near(fits, tp))}", facts.source(ROLLOUT_TP))


@rule("RLX218")
def rollout_kv_heads(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, tp = facts.architecture, facts.count(ROLLOUT_TP)
    if shape and not shape.latent and tp and shape.heads % tp == 0 and not whole_heads(shape.kv_heads, tp):
        fits = [size for size in divisors(shape.heads) if whole_heads(shape.kv_heads, size)]
        message = f"{facts.named(ROLLOUT_TP)} and the {shape.kv_heads} key-value heads of {shape.name} do not fit"
        yield misfit(shape, message, f"rollout.tp {one_of(near(fits, tp))}", facts.source(ROLLOUT_TP))


@rule("RLX219")
def rollout_experts(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, ep = facts.architecture, facts.count(f"{ROLLOUT}.expert_parallel_size")
    if shape and shape.experts and ep and shape.experts.count % ep:
        message = f"rollout.ep {ep} does not divide the {shape.experts.count} experts of {shape.name}"
        yield misfit(shape, message, f"rollout.ep {one_of(near(divisors(shape.experts.count), ep))}", "rollout.ep")


@rule("RLX239")
def weight_bucket(facts: VerlFacts) -> Iterator[RuleFinding]:
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


@rule("RLX210")
def rollout_context(facts: VerlFacts) -> Iterator[RuleFinding]:
    limit, longest = facts.count(LENGTH), facts.longest
    if limit and longest and limit < longest:
        message = f"{facts.named(LENGTH)} is less than the {longest} tokens of prompt and response"
        yield error(message, f"remove it, or write {longest}", facts.source(LENGTH))


@rule("RLX211")
def prefill(facts: VerlFacts) -> Iterator[RuleFinding]:
    tokens, context = facts.count(TOKENS), facts.count(LENGTH) or facts.longest
    if facts.setting(f"{ROLLOUT}.name") != "vllm" or not tokens or not context or tokens >= context:
        return
    message = f"{facts.named(TOKENS)} is less than a sample of {context} tokens"
    chunked = facts.setting(CHUNKED) is not False
    if chunked and facts.release < (0, 7):
        message += f", which verl {facts.settings.version} refuses with chunked prefill"
        yield error(message, f"{TOKENS} {context} or more", facts.source(TOKENS))
    elif not chunked and facts.release < (0, 9):
        fix = f"remove {facts.source(CHUNKED)}, or set {TOKENS} to {context} or more"
        yield error(f"{message}, and {CHUNKED} is off", fix, facts.source(TOKENS))


@rule("RLX223")
def model_context(facts: VerlFacts) -> Iterator[RuleFinding]:
    shape, limit = facts.architecture, facts.count(LENGTH)
    most = shape.max_positions if shape else None
    # rlx's own rollout goes on behind the last position, as transformers does.
    if not most or facts.setting(f"{ROLLOUT}.name") == "cpu":
        return
    if limit and limit > most and facts.release >= (0, 7):
        message = f"{facts.named(LENGTH)} is more than the {most} positions of the model"
        yield error(message, f"remove it, or write {most}", facts.source(LENGTH))
    if facts.longest and facts.longest > most:
        message = f"prompt and response of {facts.longest} tokens are more than the {most} positions of the model"
        left = most - (facts.count("data.max_prompt_length") or 0)
        fix = f"data.max_response_tokens {left}" if left > 0 else "shorter prompts and responses"
        yield error(message, fix, "data.max_response_tokens")


@rule("RLX250")
def bridge(facts: VerlFacts) -> Iterator[RuleFinding]:
    if not facts.is_megatron or facts.lora_rank is None:
        return
    if facts.release < (0, 7):
        message = f"model.lora with backend.engine megatron: verl {facts.settings.version} has none"
        yield error(message, "backend.version 0.7 or later, or engine fsdp", "model.lora.rank")
        return
    wrong = [key for key, wanted in ((MBRIDGE, True), (VANILLA, False)) if facts.setting(key) is not wanted]
    if wrong:
        settings = ", ".join(f"{key}: {'true' if key == MBRIDGE else 'false'}" for key in wrong)
        named = " and ".join(facts.named(key) for key in wrong)
        yield error(f"model.lora on Megatron needs Megatron-Bridge, and there is {named}", f"overrides: {{{settings}}}")


@rule("RLX251")
def bridge_and_mindspeed(facts: VerlFacts) -> Iterator[RuleFinding]:
    bridged = facts.is_true(MBRIDGE) and facts.setting(VANILLA) is False
    if facts.is_megatron and facts.recipe.layout.device == "npu" and facts.release == (0, 7) and bridged:
        message = f"Megatron-Bridge with verl {facts.settings.version} on NPUs, whose MindSpeed is 0.12.1"
        yield warning(message, "check Megatron-Bridge: 0.2.0rc6 does not import there; verl 0.8 has core_r0.16.0")


@rule("RLX252")
def lora_rank(facts: VerlFacts) -> Iterator[RuleFinding]:
    rank, merged = facts.lora_rank, facts.is_true(f"{MODEL}.lora.merge")
    if rank and rank > MOST_RANKS and facts.setting(f"{ROLLOUT}.name") == "vllm" and not merged:
        yield error(f"model.lora.rank {rank} is above {MOST_RANKS}", "rank 256, 320 or 512", "model.lora.rank")


@rule("RLX253")
def load_format(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ROLLOUT}.load_format"
    is_dummy = key in facts.settings.written and str(facts.setting(key)).startswith("dummy")
    if facts.lora_rank and is_dummy and not facts.is_true(f"{MODEL}.lora.merge"):
        yield error(f"{facts.named(key)} with model.lora", f"{key}: safetensors", facts.source(key))


def misfit(shape: Architecture | None, message: str, fix: str, key: str = "") -> RuleFinding:
    """Report an error, or a warning where the shape was not confirmed by the model's own config.json."""
    if shape is None or shape.confirmed:
        return error(message, fix, key)
    return warning(f"{message} (its shape is from memory)", fix, key)


def whole_heads(kv_heads: int, size: int) -> bool:
    """Each device has whole key-value heads, or each head is on whole devices."""
    return kv_heads % size == 0 or size % kv_heads == 0


def _uneven(facts: VerlFacts) -> bool:
    """Tell whether an override sets the number of layers of each stage."""
    section = facts.settings.section(f"{MEGATRON}.override_transformer_config")
    words = ("pipeline_stage", "pipeline_model_parallel_layout", "account_for_")
    return any(value for key, value in section.items() if any(word in key for word in words))


def _synced_bytes(facts: VerlFacts) -> int:
    """Bytes of an element on its way: FSDP's as they are kept, but verl 0.8 rounds them first."""
    if facts.is_megatron or facts.release == (0, 8):
        return 2
    return DTYPE_BYTES.get(str(facts.setting(f"{ACTOR}.fsdp_config.model_dtype")), 4)
