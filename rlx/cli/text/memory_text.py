"""The memory of a planned run, as lines of text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.api.planning import EarlierMemory, PlannedRun
    from rlx.model import LaunchPlan
    from rlx.planning.memory import MemoryEstimate, MemoryPhase, MemoryRange
    from rlx.planning.rules.facts import RecipeFacts


def memory_lines(planned: PlannedRun) -> Iterator[str]:
    """Yield GiB per device in each phase; nothing for a run on a CPU."""
    if planned.plan.device_kind == "cpu":
        return
    facts = _facts(planned)
    result = facts.memory if facts else None
    if facts and facts.architecture_problem:
        yield facts.architecture_problem
    yield from _estimated(facts, result) if facts and result else [f"not estimated: {_why_not(planned.plan, facts)}"]
    yield from _earlier(planned.earlier_memory, result)


def memory_use(planned_runs: Sequence[PlannedRun]) -> str:
    """Return `up to 52 of 61 GiB per device`, for the run that uses most; "" on CPUs."""
    facts = [_facts(planned) for planned in planned_runs if planned.plan.device_kind != "cpu"]
    estimates = [one.memory for one in facts if one and one.memory]
    if not estimates:
        return "memory not estimated" if facts else ""
    sizes = [(max(phase.upper for phase in estimate.phases), estimate.capacity) for estimate in estimates]
    used, capacity = max(sizes, key=lambda size: size[0] / size[1])
    return f"up to {used:.0f} of {capacity:.0f} GiB per device"


def _estimated(facts: RecipeFacts, result: MemoryEstimate) -> Iterator[str]:
    device = result.job.device
    assumed = f" (of {device.size:g}, assumed)" if device.assumed else ""
    yield f"{result.job.shape.name}, {_source(facts)}; GiB per device, of {result.capacity:.1f} usable{assumed}"
    width = max(len(phase.name) for phase in result.phases)
    yield from (_phase(phase, width) for phase in result.phases)
    yield _cache(result)


def _earlier(runs: Sequence[EarlierMemory], result: MemoryEstimate | None) -> Iterator[str]:
    """Yield what earlier runs used, with the estimate of the same."""
    if not runs:
        return
    logged = [run for run in runs if run.allocated_gib is not None]
    if logged:
        took = _ends_text([run.allocated_gib for run in logged])
        beside = f"; estimated {span_range(result.allocated)}" if result else ""
        yield f"{_counted(logged)} used {took} in the training processes{beside}"
    if sampled := [run for run in runs if run.sampled_gib is not None]:
        showed = _ends_text([run.sampled_gib for run in sampled])
        beside = f"; estimated {_as_shown(result)}" if result else ""
        yield f"{_counted(sampled)}: all processes on their devices used {showed}{beside}"


def _counted(runs: Sequence[EarlierMemory]) -> str:
    arms = ", ".join(dict.fromkeys(f"{run.name} {run.arm}" for run in runs))
    return f"{len(runs)} earlier run{'s' if len(runs) > 1 else ''} of this kind ({arms})"


def _ends_text(sizes: Sequence[float | None]) -> str:
    known = sorted(size for size in sizes if size is not None)
    return " to ".join(dict.fromkeys(f"{size:.1f}" for size in (known[0], known[-1])))


def _as_shown(result: MemoryEstimate) -> str:
    """Return the largest phase plus what the driver keeps, as the vendor's program shows it."""
    device = result.job.device
    kept = max(0.0, device.size - device.capacity)
    lower, upper = max(phase.lower for phase in result.phases), max(phase.upper for phase in result.phases)
    return f"{lower + kept:.1f}–{upper + kept:.1f}"


def memory_answer(planned: PlannedRun) -> dict[str, Any]:
    """Return the estimate for --json. `phases_gib` is null if nothing can be estimated, and `problem` says why."""
    plan = planned.plan
    if plan.device_kind == "cpu":
        return {"model": None, "source": None, "phases_gib": None, "problem": "the run is on a CPU"}
    facts = _facts(planned)
    result, shape = (facts.memory, facts.architecture) if facts else (None, None)
    return {
        "model": shape.name if shape else None,
        "source": _source(facts) if facts and shape else None,
        "capacity_gib": round(result.capacity, 2) if result else None,
        "phases_gib": phases_answer(result) if result else None,
        "allocated_gib": _ends(result.allocated) if result else None,
        "earlier_runs": planned.earlier_memory,
        "cached_sequences": result.cache.sequences if result else None,
        "problem": "" if result else _why_not(plan, facts),
    }


def phases_answer(result: MemoryEstimate) -> dict[str, Any]:
    """Map each phase to its GiB per device: states, range, longest samples, and each part with both ends."""
    return {
        phase.name: {
            "states": round(phase.states, 2),
            "lower": round(phase.lower, 2),
            "upper": round(phase.upper, 2),
            "longest": round(phase.longest, 2),
            "parts": {name: _ends(size) for name, size in phase.parts.items()},
        }
        for phase in result.phases
    }


def _ends(size: MemoryRange) -> list[float]:
    return [round(size.typical, 2), round(size.longest, 2)]


def range_text(phase: MemoryPhase) -> str:
    """Return both ends: `20.1–32.2`."""
    return f"{phase.lower:.1f}–{phase.upper:.1f}"


def span_range(size: MemoryRange) -> str:
    return f"{size.typical:.1f}–{size.longest:.1f}"


def _facts(planned: PlannedRun) -> RecipeFacts | None:
    """Read the recipe in the plan, which is complete. Return None if the settings of its back-end are unknown."""
    from rlx.api.launching import recipe_of
    from rlx.planning.rules.facts import facts_of

    try:
        resolved = recipe_of(planned.plan)
        return facts_of(resolved, planned.found) if resolved else None
    except UsageError:
        return None


def _source(facts: RecipeFacts) -> str:
    """Return where the shape of the model comes from."""
    from rlx.planning.models.architecture_config import CONFIG

    shape, found = facts.architecture, facts.found
    assert shape is not None
    if shape.source == CONFIG:
        return f"by config.json on {found.where}" if found and found.model else "by its config.json"
    unread = f", no config.json read on {found.where}" if found and not found.model else ""
    return f"by rlx's table{unread}" if shape.confirmed else f"by rlx's table (not confirmed{unread})"


def _why_not(plan: LaunchPlan, facts: RecipeFacts | None) -> str:
    if facts is None:
        return "the settings of the back-end are not known"
    if facts.architecture is None:
        return "the model is not known; name a similar one in model.arch"
    if plan.device_kind != "npu":
        return f"the memory of a {plan.device_kind} device is not known; rlx layouts RECIPE --memory GIB"
    return "the devices cannot be split like that"


def _phase(phase: MemoryPhase, width: int) -> str:
    """Return the range and its parts, the largest first; also the longest samples if they exceed the range."""
    from rlx.planning.memory import span_text

    parts = sorted(phase.parts.items(), key=lambda part: -part[1].longest)
    shown = ", ".join(f"{name} {span_text(size)}" for name, size in parts if size.longest >= 0.05)
    beyond = f"; {phase.longest:.1f} with every sample at its longest" if phase.longest > phase.upper else ""
    return f"{phase.name:{width}} {range_text(phase):>11}  {shown}{beyond}"


def _cache(result: MemoryEstimate) -> str:
    from rlx.planning.memory import GIB

    cache = result.cache
    return (
        f"of the rollout's {cache.pool / GIB:.1f}: weights {cache.weights / GIB:.1f}, work space "
        f"{cache.work / GIB:.1f}, KV cache for {cache.sequences:,} samples of {cache.sequence:,} tokens"
    )
