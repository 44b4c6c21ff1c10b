"""The memory of a planned run, as lines of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.plan import LaunchPlan
    from rlx.preflight.memory import Estimate, Phase
    from rlx.preflight.rules.facts import Facts


def memory_lines(plan: LaunchPlan) -> Iterator[str]:
    """GiB a device in each phase. Nothing for a run on a CPU."""
    if plan.device_kind == "cpu":
        return
    facts = _facts(plan)
    result = facts.memory if facts else None
    if result is None:
        yield f"not estimated: {_why_not(plan, facts)}"
        return
    device, shape = result.job.device, result.job.shape
    doubt = "" if shape.confirmed else " (its shape is not confirmed)"
    assumed = f" (of {device.size:g}, assumed)" if device.assumed else ""
    yield f"{shape.name}{doubt}; GiB a device, of {result.capacity:.1f} usable{assumed}"
    width = max(len(phase.name) for phase in result.phases)
    yield from (_phase(phase, width) for phase in result.phases)
    yield _cache(result)


def _facts(plan: LaunchPlan) -> Facts | None:
    """From the recipe in the plan, which is complete. None: nobody can tell the settings of its back-end."""
    from rlx.errors import UsageError
    from rlx.preflight.rules.facts import Facts
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

    recipe = Recipe.model_validate(plan.recipe)
    try:
        return Facts.of(ResolvedRecipe(recipe, plan.arm, plan.control, (), {}, Path(), plan.recipe))
    except UsageError:
        return None


def _why_not(plan: LaunchPlan, facts: Facts | None) -> str:
    if facts is None:
        return "the settings of the back-end are not known"
    if facts.architecture is None:
        return "the model is not known; name a similar one in model.arch"
    if plan.device_kind != "npu":
        return f"the memory of a {plan.device_kind} device is not known; rlx layouts RECIPE --memory GIB"
    return "the devices cannot be split like that"


def _phase(phase: Phase, width: int) -> str:
    parts = sorted(phase.parts.items(), key=lambda part: -part[1])
    shown = ", ".join(f"{name} {size:.1f}" for name, size in parts if size >= 0.05)
    return f"{phase.name:{width}} {phase.total:5.1f} ± {phase.margin:4.1f}  {shown}"


def _cache(result: Estimate) -> str:
    from rlx.preflight.memory import GIB

    cache = result.cache
    return (
        f"of the rollout's {cache.pool / GIB:.1f}: weights {cache.weights / GIB:.1f}, work space "
        f"{cache.work / GIB:.1f}, KV cache for {cache.sequences:,} samples of {cache.sequence:,} tokens"
    )
