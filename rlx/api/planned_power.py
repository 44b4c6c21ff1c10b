"""Say of planned runs what their experiment can see, from what is on this machine: nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlx.plan import Finding, Severity

if TYPE_CHECKING:
    from rlx.api.earlier_runs import EarlierArm
    from rlx.api.planning import Plans
    from rlx.api.power import PowerQuestion, RecipePower
    from rlx.plan import LaunchPlan, Registration

_LOW = 0.5


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


def power_findings(found: RecipePower | None) -> Iterator[Finding]:
    """Warn of a design that will rather say nothing. What is only assumed accuses nobody."""
    if found is None or found.spread is None or found.spread.observed is None:
        return
    row = found.seeds[0]
    if row.power is None or row.power >= _LOW:
        return
    seeds = f"; {found.seeds_needed} seeds an arm show it with 80 % power" if found.seeds_needed else ""
    message = (
        f"experiment: with {row.seeds} seeds an arm, which spread by {found.spread.sd:.2g} points, "
        f"{_claim_words(found)} in {_percent(row.power)} of cases{seeds}"
    )
    fix = "more seeds, before the first launch: rlx power RECIPE --seeds N says what they can see"
    yield Finding("RLX042", Severity.WARNING, message, fix, "experiment.seeds")


def _claim_words(found: RecipePower) -> str:
    """What the design shows in so few cases."""
    from rlx.compare.registered_design import Claim

    margin = found.design.margin
    if found.design.claim is Claim.EQUIVALENCE:
        return f"arms without any difference would be shown to be within {margin:g} points"
    if margin is not None:
        return f"arms without any difference would be shown to lose less than {margin:g} points"
    return f"even the largest rise there is room for, {found.effect:.2g} points, would be seen"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
