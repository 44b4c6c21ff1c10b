"""Find what of a registered experiment is still to be launched: what is missing, and what its machine ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.api.plans import Missing

if TYPE_CHECKING:
    from rlx.api.host_check import HostLooks
    from rlx.api.plans import Plans
    from rlx.api.target import Target
    from rlx.compare.run_slots import EndedRun
    from rlx.model import Registration
    from rlx.recipe import RecipeFile
    from rlx.runs import Index


def plan_missing(
    file: RecipeFile, arms: Sequence[str], target: Target, looks: HostLooks, *, send: Sequence[str] = ()
) -> Plans:
    """Plan what is to be launched of these arms: of an experiment of which runs are there, what is missing.

    No plan where nothing is. Raises what `rlx.plan` raises.
    """
    from rlx.api.planning import named_arms, plan_at
    from rlx.api.plans import Plans

    missing = missing_runs(file, named_arms(file, arms))
    if missing is None:
        return plan_at(file, arms, None, (), target, looks, send=send)
    if not missing.launches:
        return Plans((), missing=missing)
    plans = plan_at(file, (), None, (), target, looks, send=send, slots=missing.launches)
    return replace(plans, missing=missing)


def missing_runs(file: RecipeFile, arms: Sequence[str]) -> Missing | None:
    """Find what is to be launched of these arms of the recipe's experiment; None where nothing of it is known yet.

    The hosts of its runs are asked. Raises RlxError.
    """
    from rlx.backends.shared.registering import registration_of

    asked = registration_of(file.name, file.control, file.experiment)
    if asked is None:
        return None
    from rlx.api.experiments import ended_runs, known_runs
    from rlx.api.selection import open_index
    from rlx.runs.index.registrations import known_here

    index = open_index()
    asked = known_here(index.home, asked) or asked
    runs = ended_runs(known_runs(index, asked))
    if cut_off := _cut_off(index, asked, arms):
        return Missing(asked, cut_off, completes=True)
    return _missing(asked, runs, arms) if runs else None


def _missing(asked: Registration, runs: Sequence[EndedRun], arms: Sequence[str]) -> Missing:
    """What is to be launched, in blocks: each seed with its arms in the order that the experiment fixes."""
    from rlx.compare.run_slots import run_slots

    slots = tuple(slot for slot in run_slots(asked, runs).slots if slot.arm in arms)
    wanted = [(slot.next_seed, slot.arm) for slot in slots if slot.next_seed is not None]
    seeds = dict.fromkeys(seed for seed, _ in wanted)
    blocks = ((seed, asked.block(seed, [arm for other, arm in wanted if other == seed])) for seed in seeds)
    return Missing(asked, tuple((seed, arm) for seed, block in blocks for arm in block), slots)


def _cut_off(index: Index, asked: Registration, arms: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Seed and arm of all runs of a launch of which some may still arrive: only as a whole it is the same launch."""
    refs = index.interrupted(asked.name)
    return tuple((ref.seed, ref.arm) for ref in refs) if {ref.arm for ref in refs} <= set(arms) else ()
