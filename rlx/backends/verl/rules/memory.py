"""Memory: a phase that does not fit on a device, a rollout whose cache has no room. docs/memory.md says how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.backends.verl.levers import enough_for_cache, what_fits
from rlx.backends.verl.rules.facts import ROLLOUT, VerlFacts
from rlx.planning.memory import GIB, Estimate, Phase, span_text
from rlx.planning.memory.cache import Cache
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

# The engine's weights are exact; what its profiling run takes depends on kernels.
_WORK_MARGIN = 0.5


@rule("RLX300")
def too_large(facts: VerlFacts) -> Iterator[Flaw]:
    result = facts.memory
    if result and result.cannot_fit:
        worst = max(result.phases, key=lambda phase: phase.states)
        yield error(f"memory: {_needs(worst, result, f', {worst.states:.1f} in any case')}", _fix(result))


@rule("RLX301")
def too_close(facts: VerlFacts) -> Iterator[Flaw]:
    result = facts.memory
    if result and not result.fits and not result.cannot_fit:
        worst = max(result.phases, key=lambda phase: phase.longest)
        yield warning(f"memory: {_needs(worst, result)}: it may not fit", _fix(result))


@rule("RLX302")
def no_cache(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.memory and _room(facts.memory.cache, _WORK_MARGIN) < 1:
        yield error(_said(facts.memory), _cache_fix(facts.memory), "rollout.memory_fraction")


@rule("RLX303")
def little_cache(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.memory and _room(facts.memory.cache, -_WORK_MARGIN) < 1 <= _room(facts.memory.cache, _WORK_MARGIN):
        words = f"{_said(facts.memory)}: it may not start"
        yield warning(words, _cache_fix(facts.memory), "rollout.memory_fraction")


@rule("RLX304")
def whole_context(facts: VerlFacts) -> Iterator[Flaw]:
    key, most = f"{ROLLOUT}.max_model_len", facts.architecture.max_positions if facts.architecture else None
    asked = facts.release >= (0, 7) and facts.setting(f"{ROLLOUT}.name") == "vllm" and facts.setting(key) is None
    if not (asked and most and facts.memory and facts.longest):
        return
    cache = replace(facts.memory.cache, sequence=most)
    if _room(cache, _WORK_MARGIN) < 1 <= _room(facts.memory.cache, -_WORK_MARGIN):
        message = f"{_cache(cache, facts.memory.job.rollout.fraction)} (all positions of the model)"
        yield warning(message, f"overrides: {{{key}: {facts.longest}}}", "rollout.memory_fraction")


def _fix(result: Estimate) -> str:
    return "; or ".join(what_fits(result.job)) or "use more devices or another layout: rlx layouts RECIPE"


def _needs(phase: Phase, result: Estimate, states: str = "") -> str:
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


def _said(result: Estimate) -> str:
    return _cache(result.cache, result.job.rollout.fraction)


def _cache(cache: Cache, fraction: float) -> str:
    doubt = _WORK_MARGIN * cache.work
    return (
        f"rollout.memory_fraction {fraction:g} is {cache.pool / GIB:.1f} GiB a device: weights "
        f"{cache.weights / GIB:.1f} and work space {cache.work / GIB:.1f} ± {doubt / GIB:.1f} leave "
        f"{max(cache.room, 0) / GIB:.1f} for the KV cache, and one sequence of {cache.sequence:,} tokens takes "
        f"{cache.token * cache.sequence / GIB:.2f}"
    )


def _cache_fix(result: Estimate) -> str:
    return enough_for_cache(result.job) or "use more devices for a replica: raise rollout.tp"
