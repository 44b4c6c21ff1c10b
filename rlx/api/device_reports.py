"""Say what the devices of judged runs did, beside what `rlx plan` estimates for their recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.compare.device_report import DeviceReport
    from rlx.evidence import JudgedRun
    from rlx.model import LaunchPlan


def device_reports(runs: Sequence[JudgedRun], labels: Mapping[str, str]) -> tuple[DeviceReport, ...]:
    """A report for each run that was sampled, and for its other nodes. `labels`: what a run is called, by its id."""
    return tuple(report for run in runs for report in _reports(run, labels.get(run.run_id, run.name)))


def _reports(run: JudgedRun, label: str) -> Iterator[DeviceReport]:
    """Only the head knows the steps, and so the phases."""
    from rlx.compare.device_report import DeviceReport
    from rlx.evidence.device_use import device_use

    if use := device_use(run.usage, run.evidence):
        yield DeviceReport(run.run_id, label, use, _estimated(run.plan))
    for name, usage in run.usage_of_others.items():
        if use := device_use(usage, run.evidence):
            yield DeviceReport(run.run_id, f"{label}, {name}", use, {})


def _estimated(plan: LaunchPlan) -> Mapping[str, tuple[float, float]]:
    """By phase. What the driver keeps for itself is no part of the estimate, and npu-smi counts it."""
    from rlx.api.saved_plans import recipe_of
    from rlx.errors import UsageError
    from rlx.planning.rules.facts import facts_of

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
