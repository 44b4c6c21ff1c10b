"""The plan of a run that rlx did not start, from what a person says of it; shared by `rlx adopt` and `rlx import`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.plan import LaunchPlan

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def plan_of(
    name: str, arm: str | None, recipe: str | None, seed: int | None, validation_items: int | None = None
) -> LaunchPlan:
    """What the run promises: all that the recipe says, and nothing that nobody says. No host is looked at.

    Raises UsageError for names that cannot be used, a recipe that does not fit, or another number of validation items
    than the recipe's.
    """
    from rlx.backends.registry import kinds
    from rlx.runs.adopted.adopted_store import unplanned

    for label, text in (("--name", name), ("--arm", arm or "main")):
        if not _NAME.fullmatch(text):
            raise UsageError(f"{label} {text!r}", "use up to 100 letters, digits and . _ - (not first)")
    if recipe is None:
        plan = unplanned(name, arm or "main", 1 if seed is None else seed, kinds()[0])
    else:
        plan = replace(_recipe_plan(recipe, arm, seed), name=name)
    return plan if validation_items is None else _with_items(plan, validation_items)


def _with_items(plan: LaunchPlan, items: int) -> LaunchPlan:
    planned = plan.expectations.validation_items
    if planned not in (None, items):
        raise UsageError(
            f"--val-size {items}: the recipe says {planned} (data.val_rows)", "leave it out, or correct the recipe"
        )
    return replace(plan, expectations=replace(plan.expectations, validation_items=items))


def _recipe_plan(recipe: str, arm: str | None, seed: int | None) -> LaunchPlan:
    from rlx.api.planning import draft_plans
    from rlx.cli.frame.site_options import Target
    from rlx.hosts import Host
    from rlx.plan import LOCAL, Site

    nowhere = Target(Host(LOCAL.host), Site())
    drafts = draft_plans(recipe, [arm] if arm else [], [] if seed is None else [seed], [], nowhere)
    if len(drafts) > 1:
        arms = ", ".join(draft.plan.arm for draft in drafts)
        raise UsageError(f"{recipe} has several arms: {arms}", "say which one the log is of: --arm")
    return drafts[0].plan
