"""Check the memory of a device: phases that do not fit, a rollout without room for its cache, and changes that help.

docs/memory.md explains the estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.backends.verl.rules.facts import ROLLOUT, VerlFacts
from rlx.planning.memory import GIB, MemoryEstimate, MemoryPhase, span_text
from rlx.planning.memory.estimate import Cache, estimate
from rlx.planning.memory.job import Offload, Recompute, TrainingSetup, fixed_tokens
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

# The engine's weights are exact; what its profiling run takes depends on kernels.
_WORK_MARGIN = 0.5
_FRACTIONS = tuple(step / 20 for step in range(19, 1, -1))


@rule("RLX300")
def too_large(facts: VerlFacts) -> Iterator[RuleFinding]:
    result = facts.memory
    if result and result.cannot_fit:
        worst = max(result.phases, key=lambda phase: phase.states)
        yield error(f"memory: {_needs(worst, result, f', {worst.states:.1f} in any case')}", _fix(result))


@rule("RLX301")
def too_close(facts: VerlFacts) -> Iterator[RuleFinding]:
    result = facts.memory
    if result and not result.fits and not result.cannot_fit:
        worst = max(result.phases, key=lambda phase: phase.longest)
        yield warning(f"memory: {_needs(worst, result)}: it may not fit", _fix(result))


@rule("RLX302")
def no_cache(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.memory and _room(facts.memory.cache, _WORK_MARGIN) < 1:
        yield error(_said(facts.memory), _cache_fix(facts.memory), "rollout.memory_fraction")


@rule("RLX303")
def little_cache(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.memory and _room(facts.memory.cache, -_WORK_MARGIN) < 1 <= _room(facts.memory.cache, _WORK_MARGIN):
        words = f"{_said(facts.memory)}: it may not start"
        yield warning(words, _cache_fix(facts.memory), "rollout.memory_fraction")


@rule("RLX304")
def whole_context(facts: VerlFacts) -> Iterator[RuleFinding]:
    key, most = f"{ROLLOUT}.max_model_len", facts.architecture.max_positions if facts.architecture else None
    takes_whole_context = (
        facts.release >= (0, 7) and facts.setting(f"{ROLLOUT}.name") == "vllm" and facts.setting(key) is None
    )
    if not (takes_whole_context and most and facts.memory and facts.longest):
        return
    cache = replace(facts.memory.cache, sequence=most)
    if _room(cache, _WORK_MARGIN) < 1 <= _room(facts.memory.cache, -_WORK_MARGIN):
        message = f"{_cache(cache, facts.memory.job.rollout.fraction)} (all positions of the model)"
        yield warning(message, f"overrides: {{{key}: {facts.longest}}}", "rollout.memory_fraction")


def _fix(result: MemoryEstimate) -> str:
    return "; or ".join(what_fits(result.job)) or "use more devices or another layout: rlx layouts RECIPE"


def _needs(phase: MemoryPhase, result: MemoryEstimate, states: str = "") -> str:
    largest = sorted(phase.parts.items(), key=lambda part: -part[1].longest)[:4]
    parts = ", ".join(f"{name} {span_text(size)}" for name, size in largest)
    assumed = f" (a device of {result.job.device.size:g} GiB is assumed)" if result.job.device.assumed else ""
    return (
        f"the phase {phase.name} needs {phase.lower:.1f} to {phase.longest:.1f} GiB a device{states} ({parts}), "
        f"and there are {result.capacity:.1f}{assumed}"
    )


def _room(cache: Cache, share: float) -> float:
    """Count longest sequences, if the work space is that share smaller than estimated."""
    return (cache.room + share * cache.work) / (cache.token * cache.sequence)


def _said(result: MemoryEstimate) -> str:
    return _cache(result.cache, result.job.rollout.fraction)


def _cache(cache: Cache, fraction: float) -> str:
    doubt = _WORK_MARGIN * cache.work
    return (
        f"rollout.memory_fraction {fraction:g} is {cache.pool / GIB:.1f} GiB a device: weights "
        f"{cache.weights / GIB:.1f} and work space {cache.work / GIB:.1f} ± {doubt / GIB:.1f} leave "
        f"{max(cache.room, 0) / GIB:.1f} for the KV cache, and one sequence of {cache.sequence:,} tokens takes "
        f"{cache.token * cache.sequence / GIB:.2f}"
    )


def _cache_fix(result: MemoryEstimate) -> str:
    return enough_for_cache(result.job) or "use more devices for a replica: raise rollout.tp"


def what_fits(job: TrainingSetup) -> tuple[str, ...]:
    """Single changes after which the run fits with the longest samples, the cheapest in time first; else all offloads.

    Empty: none of them helps, and the layout has to change.
    """
    found = tuple(words for words, changed in _single(job) if estimate(changed).fits)
    if found:
        return found
    away = replace(job, offload=Offload(True, True, True), reference_offload=True, recompute=Recompute())
    return (f"{_offloads(job, 'param', 'optimizer')}, with {_recompute(job)}",) if estimate(away).fits else ()


def enough_for_cache(job: TrainingSetup) -> str | None:
    """Find the smallest share of the device, else the smallest rollout.tp, with room for sequences. None: neither."""
    shares = (replace(job, rollout=replace(job.rollout, fraction=fraction)) for fraction in reversed(_FRACTIONS))
    for changed in shares:
        if _roomy(changed) and not estimate(changed).cannot_fit:
            return f"rollout.memory_fraction {changed.rollout.fraction:g}"
    for tp in (2, 4, 8, 16):
        changed = replace(job, rollout=replace(job.rollout, tp=tp))
        if tp > job.rollout.tp and job.shape.heads % tp == 0 and job.split.devices % tp == 0 and _roomy(changed):
            return f"rollout.tp {tp}"
    return None


def _roomy(job: TrainingSetup) -> bool:
    return estimate(job).cache.sequences >= 8


def _single(job: TrainingSetup) -> Iterator[tuple[str, TrainingSetup]]:
    for fraction in _FRACTIONS:
        lower = replace(job, rollout=replace(job.rollout, fraction=fraction))
        if fraction < job.rollout.fraction and _roomy(lower) and estimate(lower).fits:
            yield f"rollout.memory_fraction {fraction:g}", lower
            break
    if job.update_tokens.longest > job.rollout.sequence:
        tokens = fixed_tokens(1, job.rollout.sequence)
        fewest = min(tokens, job.log_prob_tokens, key=lambda count: count.longest)
        yield (
            _smaller_batches(job),
            replace(job, update_tokens=tokens, log_prob_tokens=fewest),
        )
    if not job.recompute.full:
        yield _recompute(job), replace(job, recompute=Recompute())
    if job.defers_sync:
        key = "actor_rollout_ref.actor.fsdp_config.use_no_sync_for_gradient_accumulation"
        yield f"overrides: {key}: false", replace(job, defers_sync=False)
    if not job.offload.optimizer:
        yield _offloads(job, "optimizer"), replace(job, offload=replace(job.offload, optimizer=True))
    if not job.offload.weights:
        yield _offloads(job, "param", "optimizer"), replace(job, offload=Offload(True, True, True))


def _smaller_batches(job: TrainingSetup) -> str:
    if not job.dynamic_batches:
        return "train.micro_batch_size 1 and rollout.log_prob_micro_batch_size 1"
    tokens = -(-job.rollout.sequence // job.split.cp)
    keys = ("actor.ppo_max_token_len_per_gpu", "rollout.log_prob_max_token_len_per_gpu")
    return "overrides: " + ", ".join(f"actor_rollout_ref.{key}: {tokens}" for key in keys)


def _recompute(job: TrainingSetup) -> str:
    if not job.is_megatron:
        return "actor_rollout_ref.model.enable_gradient_checkpointing: true"
    section = "actor_rollout_ref.actor.megatron.override_transformer_config.recompute"
    return f"{section}_granularity: full, {section}_method: uniform, {section}_num_layers: 1"


def _offloads(job: TrainingSetup, *parts: str) -> str:
    section = f"actor_rollout_ref.actor.{'megatron' if job.is_megatron else 'fsdp_config'}"
    return "overrides: " + ", ".join(f"{section}.{part}_offload: true" for part in parts)
