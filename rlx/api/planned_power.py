"""Say of planned runs what their experiment can see, from what is on this machine: nobody is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.earlier_runs import EarlierArm
    from rlx.api.plans import Plans
    from rlx.api.power import PowerQuestion, RecipePower
    from rlx.model import LaunchPlan, Registration


def with_power(plans: Plans) -> Plans:
    """Add what the experiment of the plans can see; plans without one stay as they are."""
    first = next((plan for plan in plans.plans if plan.registration), None)
    if first is None or first.registration is None:
        return plans
    return replace(plans, power=_power(first, first.registration))


def _power(plan: LaunchPlan, asked: Registration) -> RecipePower:
    """By the spread of earlier runs, else by one that is assumed: as far as chance moves a run of so many items."""
    from rlx.api.earlier_runs import earlier_arms
    from rlx.api.power import Spread, computed_power, items_power, of_one_metric, spread_of
    from rlx.api.selection import open_index
    from rlx.api.telling import unheard

    arms = of_one_metric(earlier_arms(open_index(), plan.recipe, unheard, asked, asks=False))
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
    """The points between the earlier runs and all right; None for values that are no shares."""
    from statistics import fmean

    known = [value for arm in arms if arm.in_points for value in arm.values]
    return 100 - fmean(known) if known else None


def _items(document: Mapping[str, Any]) -> int | None:
    post = (document.get("eval") or {}).get("post")
    count = post.get("row_count") if post else document["data"].get("val_rows")
    return count if isinstance(count, int) else None
