"""Find settings that would make a run fit: those worth changing, tried one after the other on the same formulas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.planning.memory.estimate import estimate
from rlx.planning.memory.inputs import fixed_tokens
from rlx.planning.memory.job import Count, Job, Offload, Recompute

_FRACTIONS = tuple(step / 20 for step in range(19, 1, -1))


def what_fits(job: Job) -> tuple[str, ...]:
    """Single changes after which the run fits with the longest samples, the cheapest in time first; else all offloads.

    Empty: none of them helps, and the layout has to change.
    """
    found = tuple(words for words, changed in _single(job) if estimate(changed).fits)
    if found:
        return found
    away = replace(job, offload=Offload(True, True, True), reference_offload=True, recompute=Recompute())
    return (f"{_offloads(job, 'param', 'optimizer')}, with {_recompute(job)}",) if estimate(away).fits else ()


def enough_for_cache(job: Job) -> str | None:
    """The smallest share of the device, else the smallest rollout.tp, with room for some sequences. None: neither."""
    shares = (replace(job, rollout=replace(job.rollout, fraction=fraction)) for fraction in reversed(_FRACTIONS))
    for changed in shares:
        if _roomy(changed) and not estimate(changed).cannot_fit:
            return f"rollout.memory_fraction {changed.rollout.fraction:g}"
    for tp in (2, 4, 8, 16):
        changed = replace(job, rollout=replace(job.rollout, tp=tp))
        if tp > job.rollout.tp and job.shape.heads % tp == 0 and job.split.devices % tp == 0 and _roomy(changed):
            return f"rollout.tp {tp}"
    return None


def _roomy(job: Job) -> bool:
    return estimate(job).cache.sequences >= 8


def _single(job: Job) -> Iterator[tuple[str, Job]]:
    for fraction in _FRACTIONS:
        lower = replace(job, rollout=replace(job.rollout, fraction=fraction))
        if fraction < job.rollout.fraction and _roomy(lower) and estimate(lower).fits:
            yield f"rollout.memory_fraction {fraction:g}", lower
            break
    if job.update_tokens.longest > job.rollout.sequence:
        tokens = fixed_tokens(1, job.rollout.sequence)
        yield (
            _smaller_batches(job),
            replace(job, update_tokens=tokens, log_prob_tokens=_fewer(tokens, job.log_prob_tokens)),
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


def _smaller_batches(job: Job) -> str:
    if not job.dynamic_batches:
        return "train.micro_batch_size 1 and rollout.log_prob_micro_batch_size 1"
    tokens = -(-job.rollout.sequence // job.split.cp)
    keys = ("actor.ppo_max_token_len_per_gpu", "rollout.log_prob_max_token_len_per_gpu")
    return "overrides: " + ", ".join(f"actor_rollout_ref.{key}: {tokens}" for key in keys)


def _fewer(one: Count, other: Count) -> Count:
    return min(one, other, key=lambda tokens: tokens.longest)


def _recompute(job: Job) -> str:
    if not job.is_megatron:
        return "actor_rollout_ref.model.enable_gradient_checkpointing: true"
    section = "actor_rollout_ref.actor.megatron.override_transformer_config.recompute"
    return f"{section}_granularity: full, {section}_method: uniform, {section}_num_layers: 1"


def _offloads(job: Job, *parts: str) -> str:
    section = f"actor_rollout_ref.actor.{'megatron' if job.is_megatron else 'fsdp_config'}"
    return "overrides: " + ", ".join(f"{section}.{part}_offload: true" for part in parts)
