"""Estimate planned runs from earlier ones: the power of their experiment, and their device memory.

Only files on this machine are read; no host is queried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlx.api.planning import EarlierMemory

if TYPE_CHECKING:
    from pathlib import Path

    from rlx.api.planning import Plans
    from rlx.api.power import EarlierArm, PowerQuestion, RecipePower
    from rlx.evidence import Evidence
    from rlx.model import LaunchPlan, Registration
    from rlx.runs import Index, RunRef

# Of the newest runs, so that looking at a plan takes no longer the more runs there are.
_LOOKED_AT, _SHOWN = 200, 12
# What memory depends on, by section of a recipe; None: all of it.
_PARTS: Mapping[str, tuple[str, ...] | None] = {
    "backend": ("kind", "version", "engine"),
    "model": None,
    "layout": None,
    "overrides": None,
    "data": ("max_prompt_tokens", "max_response_tokens"),
    "algorithm": ("kind", "kl"),
    "train": ("batch_size", "mini_batch_size", "micro_batch_size"),
    "rollout": ("engine", "n", "tp", "ep", "memory_fraction", "enforce_eager", "log_prob_micro_batch_size"),
}


def with_power(plans: Plans) -> Plans:
    """Add what the experiment of the plans can see; plans without one stay as they are."""
    first = next((plan for plan in plans.plans if plan.registration), None)
    if first is None or first.registration is None:
        return plans
    return replace(plans, power=_power(first, first.registration))


def _power(plan: LaunchPlan, asked: Registration) -> RecipePower:
    """Compute the power with the spread of earlier runs; without any, with the one that the number of items causes."""
    from rlx.api.power import Spread, computed_power, earlier_arms, items_power, of_one_metric, spread_of
    from rlx.api.runs import open_index, unheard

    arms = of_one_metric(earlier_arms(open_index(), plan.recipe, unheard, asked, queries_hosts=False))
    question = _question(asked, _items(plan.recipe), arms)
    spread = spread_of(arms)
    if spread is None and question.items:
        spread = Spread(items_power(question.items, arms).scatter)
    return computed_power(question, spread, arms)


def _question(asked: Registration, items: int | None, arms: Sequence[EarlierArm]) -> PowerQuestion:
    from rlx.api.power import PowerQuestion
    from rlx.compare.registered_design import registered_design

    design = registered_design(asked, is_share=all(arm.in_points for arm in arms))
    treatments = max(1, len(asked.arms) - 1)
    effect = None if asked.margin is not None else _largest_rise(arms)
    return PowerQuestion(asked.name, design, treatments, (len(asked.seeds),), items, effect)


def _largest_rise(arms: Sequence[EarlierArm]) -> float | None:
    """Return the points between the earlier runs and all right; None for values that are no shares."""
    from statistics import fmean

    known = [value for arm in arms if arm.in_points for value in arm.values]
    return 100 - fmean(known) if known else None


def _items(document: Mapping[str, Any]) -> int | None:
    post = (document.get("eval") or {}).get("post")
    count = post.get("row_count") if post else document["data"].get("val_rows")
    return count if isinstance(count, int) else None


def with_earlier_memory(plans: Plans) -> Plans:
    """Add to each run on devices what earlier ones took whose recipe is the same in all that memory depends on."""
    planned_runs = [
        planned for planned in plans.planned_runs if planned.plan.device_kind != "cpu" and planned.plan.has_recipe
    ]
    if not planned_runs:
        return plans
    taken = _taken({_compared(planned.plan.recipe): planned.plan.recipe for planned in planned_runs})
    kinds = (_compared(planned.plan.recipe) if planned.plan.has_recipe else "" for planned in plans.planned_runs)
    return replace(
        plans,
        planned_runs=tuple(
            replace(planned, earlier_memory=taken.get(kind, ())) if kind else planned
            for planned, kind in zip(plans.planned_runs, kinds, strict=True)
        ),
    )


def _taken(kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[EarlierMemory, ...]]:
    """By kind of recipe, the newest runs first."""
    from rlx.api.power import runs_of_model
    from rlx.api.runs import open_index

    index = open_index()
    newest = index.known_runs()[:_LOOKED_AT]
    found: dict[str, list[RunRef]] = {}
    for kind, like in kinds.items():
        found[kind] = [ref for ref, document in runs_of_model(index, newest, like) if _compared(document) == kind]
    return {kind: tuple(_measured(index, refs[:_SHOWN])) for kind, refs in found.items()}


def _measured(index: Index, refs: Sequence[RunRef]) -> Iterator[EarlierMemory]:
    """Yield the memory of ended runs that recorded it; of failed ones too, because what they used they used."""
    from rlx.runs.copies.mirror import kept
    from rlx.runs.judging.judge_runs import judge_cached

    copies = kept(index, refs)
    for run in judge_cached(index, refs):
        allocated, sampled = _most(run.evidence) or None, _sampled(copies[run.run_id].run_dir)
        if allocated or sampled:
            yield EarlierMemory(run.run_id, run.plan.name, run.plan.arm, allocated, sampled)


def _sampled(run_dir: Path) -> float | None:
    """Return the largest sampled use of its devices, in GiB."""
    from rlx.evidence.device_use import memory_gib
    from rlx.evidence.reading.usage_file import read_usage
    from rlx.runs import RunPaths

    usages = [read_usage(attempt) for attempt in RunPaths(run_dir).attempts]
    sizes = (memory_gib(usage.kind, sample) for usage in usages if usage.kind != "cpu" for sample in usage.samples)
    return max((size for size in sizes if size is not None), default=None)


def _most(evidence: Evidence) -> float:
    """Return the largest value that was logged; 0 where there is none."""
    from math import isfinite

    from rlx.evidence.log_grammar import Role
    from rlx.evidence.metrics import metric_of, series

    return max(filter(isfinite, series(evidence, metric_of(evidence, Role.DEVICE_MEMORY)).values()), default=0.0)


def _compared(document: Mapping[str, Any]) -> str:
    """Return the parts of a recipe that memory depends on, as one text."""
    import json

    sections = {name: document.get(name) or {} for name in _PARTS}
    chosen = {
        name: section if keys is None else {key: section.get(key) for key in keys}
        for (name, section), keys in zip(sections.items(), _PARTS.values(), strict=True)
    }
    return json.dumps(chosen, sort_keys=True)
