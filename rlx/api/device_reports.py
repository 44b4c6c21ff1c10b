"""Say what the devices of judged runs did, beside what `rlx plan` estimates for their recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.compare.device_report import DeviceReport
    from rlx.evidence import JudgedRun
    from rlx.plan import LaunchPlan


def device_reports(runs: Sequence[JudgedRun], labels: Mapping[str, str]) -> tuple[DeviceReport, ...]:
    """A report for each run that was sampled. `labels`: what a run is called, by its id."""
    from rlx.compare.device_report import DeviceReport
    from rlx.evidence.device_use import device_use

    uses = [(run, device_use(run.usage, run.evidence)) for run in runs]
    return tuple(
        DeviceReport(run.run_id, labels.get(run.run_id, run.name), use, _estimated(run.plan))
        for run, use in uses
        if use
    )


def _estimated(plan: LaunchPlan) -> Mapping[str, tuple[float, float]]:
    """By phase. What the driver keeps for itself is no part of the estimate, and npu-smi counts it."""
    from rlx.api.saved_plans import recipe_of
    from rlx.errors import UsageError
    from rlx.preflight.rules.facts import facts_of

    if plan.device_kind == "cpu":
        return {}
    try:
        resolved = recipe_of(plan)
        found = facts_of(resolved).memory if resolved else None
    except UsageError:
        return {}
    if found is None:
        return {}
    kept = max(0.0, found.job.device.size - found.capacity) if plan.device_kind == "npu" else 0.0
    return {phase.name: (phase.lower + kept, phase.upper + kept) for phase in found.phases}
