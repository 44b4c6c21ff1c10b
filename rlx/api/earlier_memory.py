"""Find what earlier runs of the same kind really took of their devices, to stand beside the estimate.

It changes nothing of the estimate. Files that are on this machine answer, nobody is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlx.api.plans import EarlierMemory

if TYPE_CHECKING:
    from pathlib import Path

    from rlx.api.plans import Draft, Plans
    from rlx.evidence import Evidence
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


def with_earlier_memory(plans: Plans) -> Plans:
    """Add to each run on devices what earlier ones took whose recipe is the same in all that memory depends on."""
    drafts = [draft for draft in plans.drafts if draft.plan.device_kind != "cpu" and draft.plan.has_recipe]
    if not drafts:
        return plans
    taken = _taken({_compared(draft.plan.recipe): draft.plan.recipe for draft in drafts})
    return replace(plans, drafts=tuple(_with(draft, taken) for draft in plans.drafts))


def _with(draft: Draft, taken: Mapping[str, tuple[EarlierMemory, ...]]) -> Draft:
    return (
        replace(draft, earlier_memory=taken.get(_compared(draft.plan.recipe), ())) if draft.plan.has_recipe else draft
    )


def _taken(kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[EarlierMemory, ...]]:
    """By kind of recipe, the newest runs first."""
    from rlx.api.earlier_runs import runs_of_model
    from rlx.api.selection import open_index

    index = open_index()
    newest = index.known_runs()[:_LOOKED_AT]
    found: dict[str, list[RunRef]] = {}
    for kind, like in kinds.items():
        found[kind] = [ref for ref, document in runs_of_model(index, newest, like) if _compared(document) == kind]
    return {kind: tuple(_measured(index, refs[:_SHOWN])) for kind, refs in found.items()}


def _measured(index: Index, refs: Sequence[RunRef]) -> Iterator[EarlierMemory]:
    """Runs that have ended and tell it; also those that failed, since what they took they took."""
    from rlx.runs.copies.mirror import kept
    from rlx.runs.judging.judge_runs import judge_cached

    copies = kept(index, refs)
    for run in judge_cached(index, refs):
        allocated, sampled = _most(run.evidence) or None, _sampled(copies[run.run_id].run_dir)
        if allocated or sampled:
            yield EarlierMemory(run.run_id, run.plan.name, run.plan.arm, allocated, sampled)


def _sampled(run_dir: Path) -> float | None:
    """What its devices showed, in GiB."""
    from rlx.evidence.device_use import memory_gib
    from rlx.evidence.reading.usage_file import read_usage
    from rlx.runs import RunPaths

    usages = [read_usage(attempt) for attempt in RunPaths(run_dir).attempts]
    sizes = (memory_gib(usage.kind, sample) for usage in usages if usage.kind != "cpu" for sample in usage.samples)
    return max((size for size in sizes if size is not None), default=None)


def _most(evidence: Evidence) -> float:
    """The largest value that was logged; 0 where there is none."""
    from math import isfinite

    from rlx.evidence.log_grammar import Role
    from rlx.evidence.metrics import metric_of, series

    return max(filter(isfinite, series(evidence, metric_of(evidence, Role.DEVICE_MEMORY)).values()), default=0.0)


def _compared(document: Mapping[str, Any]) -> str:
    """The parts of a recipe that memory depends on, as one text."""
    import json

    sections = {name: document.get(name) or {} for name in _PARTS}
    chosen = {
        name: section if keys is None else {key: section.get(key) for key in keys}
        for (name, section), keys in zip(sections.items(), _PARTS.values(), strict=True)
    }
    return json.dumps(chosen, sort_keys=True)
