"""Ask for the queue of the entry."""

from __future__ import annotations

from rlx.errors import UsageError
from rlx.model import LaunchPlan, PlannedFile


def check(plan: LaunchPlan) -> None:
    if plan.cluster is not None:
        raise UsageError(f"{plan.run_name}: at_once has one node")


def options(plan: LaunchPlan) -> tuple[str, ...]:
    assert plan.site.batch
    return (f"queue={plan.site.batch.settings['queue']}",)


def files(plan: LaunchPlan) -> tuple[PlannedFile, ...]:
    return ()
