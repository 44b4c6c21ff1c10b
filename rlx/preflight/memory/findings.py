"""What the estimate means for a recipe: it does not fit, it might not, or the rollout has no room for its cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.errors import UsageError
from rlx.plan import Finding, Severity
from rlx.preflight.architecture_config import known_architecture
from rlx.preflight.memory.estimate import Estimate, Phase, estimate
from rlx.preflight.memory.inputs import Settings, device_of, job_of
from rlx.preflight.memory.job import GIB
from rlx.preflight.memory.levers import enough_for_cache, what_fits

if TYPE_CHECKING:
    from rlx.preflight.architectures import Architecture
    from rlx.preflight.memory.job import Device
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

# The engine's weights are exact; what its profiling run takes depends on kernels.
_WORK_MARGIN = 0.5


def memory_findings(
    resolved: ResolvedRecipe,
    settings: Settings,
    *,
    shape: Architecture | None = None,
    device: Device | None = None,
) -> tuple[Finding, ...]:
    """Everything about memory, errors first. `shape` and `device`: what a look at the host told, where somebody looked.

    Without a device whose memory is known nothing is said; a CPU run has none.
    """
    recipe = resolved.recipe
    if recipe.layout.device == "cpu":
        return ()
    try:
        shape = shape or known_architecture(recipe)
    except UsageError as problem:
        return (Finding("RLX304", Severity.WARNING, f"model.path: {problem.message}", problem.hint),)
    if shape is None:
        message = f"model.path: nothing is known of {recipe.model.path}, so its memory is not estimated"
        return (Finding("RLX304", Severity.NOTE, message, "name a similar model in model.arch"),)
    result = _estimate(recipe, settings, shape, device)
    return tuple(_findings(result)) if result else ()


def memory_estimate(recipe: Recipe, settings: Settings, device: Device | None = None) -> Estimate | None:
    """None where it cannot be made: unknown model or device, a CPU run, or devices that cannot be split like that."""
    try:
        shape = known_architecture(recipe)
    except UsageError:
        return None
    return _estimate(recipe, settings, shape, device) if shape else None


def _estimate(recipe: Recipe, settings: Settings, shape: Architecture, device: Device | None) -> Estimate | None:
    device = device or device_of(recipe)
    if device is None or recipe.layout.device == "cpu":
        return None
    job = job_of(recipe, settings, shape, device)
    return estimate(job) if job.split.is_whole else None


def _findings(result: Estimate) -> Iterator[Finding]:
    yield from _size(result)
    yield from _cache(result)


def _size(result: Estimate) -> Iterator[Finding]:
    if result.fits:
        return
    worst = max(result.phases, key=lambda phase: phase.total + phase.margin)
    fix = "; or ".join(what_fits(result.job)) or "use more devices or another layout: rlx layouts RECIPE"
    if result.cannot_fit:
        worst = max(result.phases, key=lambda phase: phase.total - phase.margin)
        yield Finding("RLX300", Severity.ERROR, f"memory: {_needs(worst, result)}", fix)
    else:
        yield Finding("RLX301", Severity.WARNING, f"memory: {_needs(worst, result)}: it may not fit", fix)


def _needs(phase: Phase, result: Estimate) -> str:
    largest = sorted(phase.parts.items(), key=lambda part: -part[1])[:4]
    parts = ", ".join(f"{name} {size:.1f}" for name, size in largest)
    assumed = f" (a device of {result.job.device.size:g} GiB is assumed)" if result.job.device.assumed else ""
    return (
        f"the phase {phase.name} needs {phase.total:.1f} ± {phase.margin:.1f} GiB a device ({parts}), "
        f"and there are {result.capacity:.1f}{assumed}"
    )


def _cache(result: Estimate) -> Iterator[Finding]:
    cache = result.cache
    needed, doubt = cache.token * cache.sequence, _WORK_MARGIN * cache.work
    if cache.room - doubt >= needed:
        return
    message = (
        f"rollout.memory_fraction {result.job.rollout.fraction:g} is {cache.pool / GIB:.1f} GiB a device: weights "
        f"{cache.weights / GIB:.1f} and work space {cache.work / GIB:.1f} ± {doubt / GIB:.1f} leave "
        f"{max(cache.room, 0) / GIB:.1f} for the KV cache, and one sequence of {cache.sequence:,} tokens takes "
        f"{needed / GIB:.2f}"
    )
    fix = enough_for_cache(result.job) or "use more devices for a replica: raise rollout.tp"
    if cache.room + doubt < needed:
        yield Finding("RLX302", Severity.ERROR, message, fix)
    else:
        yield Finding("RLX303", Severity.WARNING, f"{message}: it may not start", fix)
