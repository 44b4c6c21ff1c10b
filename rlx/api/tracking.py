"""Track runs that rlx did not start, or import the logs of finished ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.model import LaunchPlan, Place
    from rlx.runs import RunRef
    from rlx.runs.importing.foreign_runs import Imported

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def adopt(
    log: str,
    name: str,
    *,
    host: str = "local",
    container: str | None = None,
    arm: str | None = None,
    recipe: str | None = None,
    seed: int | None = None,
) -> RunRef:
    """Track a run that was started outside rlx: from then on its console log is read at each query.

    `log` is its full path on the host, or in `container` there. Without `recipe`, a path or name, there are no
    expectations, and its verdict is unverified at best. Nothing is written where it runs. Raises UsageError for
    names that cannot be used and a log that is adopted already, RlxError if the log cannot be read, HostError if the
    host cannot be asked.
    """
    return adopt_at(place_of_log(host, container), log, plan_of(name, arm, recipe, seed))


def adopt_at(place: Place, path: str, plan: LaunchPlan) -> RunRef:
    """Track the log at that place as a run of that plan."""
    from rlx.api.runs import open_index
    from rlx.runs.importing.foreign_runs import adopt as take_in

    return take_in(open_index(), place, path, plan)


def place_of_log(host: str, container: str | None) -> Place:
    """Find the place of a log on the host itself, or in that container of it. Raises UsageError for an unknown host."""
    from rlx.hosts import site_of

    # An empty name means no container, even where the host's entry names one: the log is on the host itself.
    site = site_of(host, container or "")
    return replace(site.place, inside=site.container)


def import_logs(
    logs: str | Path | Sequence[str | Path],
    name: str,
    *,
    arm: str | None = None,
    recipe: str | None = None,
    seed: int | None = None,
    validation_items: int | None = None,
) -> Imported:
    """Import the logs of a finished run, console logs or metrics.jsonl, also as .gz; several are its attempts.

    They are copied, and never changed. Returns the new run as `.ref`, and `.remarks` on its logs. `validation_items`
    says how many items its validation set has where neither recipe nor log does. Raises UsageError for names that
    cannot be used, a log that this run has already, and a file that is no log of a run; RlxError for what cannot be
    read.
    """
    from rlx.api.runs import open_index
    from rlx.runs.importing.foreign_runs import import_logs as take_in

    paths = [Path(log) for log in ([logs] if isinstance(logs, str | Path) else logs)]
    return take_in(open_index(), paths, plan_of(name, arm, recipe, seed, validation_items))


def plan_of(
    name: str, arm: str | None, recipe: str | None, seed: int | None, validation_items: int | None = None
) -> LaunchPlan:
    """Plan such a run: everything that the recipe says, and nothing else. No host is queried.

    Raises UsageError for names that cannot be used, a recipe that does not fit, or another number of validation items
    than the recipe's.
    """
    from rlx.backends.registry import kinds
    from rlx.runs.importing.foreign_runs import plan_without_recipe

    for label, text in (("--name", name), ("--arm", arm or "main")):
        if not _NAME.fullmatch(text):
            raise UsageError(f"{label} {text!r}", "use up to 100 letters, digits and . _ - (not first)")
    if recipe is None:
        plan = plan_without_recipe(name, arm or "main", 1 if seed is None else seed, kinds()[0])
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
    from rlx.api.hosts import Target
    from rlx.api.planning import plan_at
    from rlx.hosts import Host
    from rlx.model import LOCAL, Site

    nowhere = Target(Host(LOCAL.host), Site())
    plans = plan_at(recipe, [arm] if arm else [], [] if seed is None else [seed], [], nowhere).plans
    if len(plans) > 1:
        arms = ", ".join(plan.arm for plan in plans)
        raise UsageError(f"{recipe} has several arms: {arms}", "say which one the log is of: --arm")
    # It had no hook that watched it or recorded its weights, and nothing was registered before it ran.
    expectations = replace(plans[0].expectations, watch=None, weights=None)
    return replace(plans[0], expectations=expectations, registration=None)
