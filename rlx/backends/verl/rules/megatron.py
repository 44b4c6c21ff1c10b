"""Refuse what Megatron's own configuration refuses: verl hands `override_transformer_config` on as it is."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, VerlFacts
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

_RECOMPUTE = ("granularity", "method", "num_layers")
# Fields of DistributedDataParallelConfig and OptimizerConfig that TransformerConfig lacks.
OF_OTHERS = frozenset(
    {
        "align_param_gather",
        "average_in_collective",
        "bucket_size",
        "check_for_large_grads",
        "check_for_nan_in_grad",
        "data_parallel_sharding_strategy",
        "grad_reduce_in_fp32",
        "gradient_reduce_div_fusion",
        "num_distributed_optimizer_instances",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "pad_buckets_for_high_nccl_busbw",
        "use_custom_fsdp",
        "use_distributed_optimizer",
        "adam_beta1",
        "adam_beta2",
        "adam_eps",
        "clip_grad",
        "decoupled_lr",
        "loss_scale",
        "lr",
        "min_lr",
        "optimizer",
        "optimizer_cpu_offload",
        "optimizer_offload_fraction",
        "overlap_cpu_optimizer_d2h_h2d",
        "use_precision_aware_optimizer",
        "weight_decay",
    }
)


@rule("RLX289")
def recomputation(facts: VerlFacts) -> Iterator[RuleFinding]:
    for section in _transformers(facts):
        granularity, method, layers = (facts.setting(f"{section}.recompute_{part}") for part in _RECOMPUTE)
        keys = [f"{section}.recompute_{part}" for part in _RECOMPUTE]
        if granularity is None:
            continue
        if granularity not in ("full", "selective"):
            yield error(f"{facts.named(keys[0])}: Megatron knows full and selective", "full or selective", keys[0])
        elif granularity == "selective" and layers is not None:
            message = f"{facts.named(keys[0])} with {facts.named(keys[2])}: selective takes no number of layers"
            yield error(message, f"{keys[2]}: null", keys[2])
        elif granularity == "full" and (method not in ("block", "uniform") or layers is None):
            message = f"{facts.named(keys[0])} without a method and a number of layers"
            yield error(message, f"{keys[1]}: uniform, {keys[2]}: 1", keys[0])


@rule("RLX290")
def sequence_parallelism(facts: VerlFacts) -> Iterator[RuleFinding]:
    for section in _transformers(facts):
        key, parent = f"{section}.sequence_parallel", section.rpartition(".")[0]
        tp = facts.count(f"{parent}.tensor_model_parallel_size")
        ep = facts.count(f"{parent}.expert_model_parallel_size") or 1
        wanted = facts.setting(key)
        if wanted is True and tp == 1:
            yield error(f"{facts.named(key)} with tp 1: there is nothing to share", f"remove {facts.source(key)}", key)
        elif wanted is False and tp and tp > 1 and ep > 1:
            message = f"{facts.named(key)} with tp {tp} and ep {ep}: experts and tensors need it"
            yield error(message, f"remove {facts.source(key)}", key)


@rule("RLX291")
def token_dispatcher(facts: VerlFacts) -> Iterator[RuleFinding]:
    for section in _transformers(facts):
        key = f"{section}.moe_token_dispatcher_type"
        kind = facts.setting(key) or "alltoall"
        if kind in ("allgather", "alltoall_seq"):
            message = f"{facts.named(key)} takes no samples of different lengths, which verl sends"
            yield error(message, f"{key}: alltoall", key)
        for option, wanted in (("moe_enable_deepep", "flex"), ("moe_shared_expert_overlap", "alltoall")):
            if facts.is_true(f"{section}.{option}") and kind != wanted:
                message = f"{facts.named(f'{section}.{option}')} with the dispatcher {kind}: it needs {wanted}"
                yield error(message, f"{key}: {wanted}", f"{section}.{option}")


@rule("RLX292")
def activations_on_cpu(facts: VerlFacts) -> Iterator[RuleFinding]:
    for section in _transformers(facts):
        key, stages = f"{section}.cpu_offloading", facts.pp or 1
        recomputed = facts.setting(f"{section}.recompute_granularity")
        if facts.is_true(key) and (stages > 1 or recomputed is not None):
            beside = f"pp {stages}" if stages > 1 else f"recompute_granularity {recomputed}"
            yield error(f"{facts.named(key)} with {beside}", f"remove {facts.source(key)}", key)


@rule("RLX293")
def fields_of_others(facts: VerlFacts) -> Iterator[RuleFinding]:
    for section in _transformers(facts):
        keys = set(facts.settings.section(section)) - facts.settings.removed
        names = sorted({key.removeprefix(f"{section}.") for key in keys} & OF_OTHERS)
        if not names:
            continue
        parent = section.rpartition(".")[0]
        by_mbridge = facts.is_true(f"{parent}.use_mbridge") and facts.setting(f"{parent}.vanilla_mbridge") is not False
        # Their classes are called with every key; the others get only the keys that they have.
        report = error if by_mbridge or facts.release < (0, 6) else warning
        lost = "the workers would end with TypeError" if report is error else "it would be left out"
        message = f"{section}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} none of the model's: {lost}"
        yield report(message, "overrides: " + ", ".join(f"~{section}.{name}: null" for name in names), section)


def _transformers(facts: VerlFacts) -> tuple[str, ...]:
    """Name the sections with a configuration of their own; the reference has the actor's."""
    if not facts.is_megatron:
        return ()
    has_critic = facts.is_nla or facts.recipe.algorithm.kind == "ppo"
    sections = (f"{ACTOR}.megatron", "critic.megatron") if has_critic else (f"{ACTOR}.megatron",)
    return tuple(f"{section}.override_transformer_config" for section in sections)
