"""Ask for the devices that a plan names; the holder on the host waits for them."""

from __future__ import annotations

from rlx.errors import UsageError
from rlx.model import LaunchPlan, PlannedFile


def check(plan: LaunchPlan) -> None:
    """Raise UsageError for a run that only a job could be; a plan may come from a file."""
    if plan.site.job_image is not None:
        message = f"{plan.run_name}: its image is for a job, and {plan.site.host} has no batch scheduler"
        raise UsageError(message, "write the plan again")


def options(plan: LaunchPlan) -> tuple[str, ...]:
    """Return nothing: the order of a launch names kind and devices of each run."""
    return ()


def files(plan: LaunchPlan) -> tuple[PlannedFile, ...]:
    """Return nothing: a ticket is written when the run begins to wait."""
    return ()
