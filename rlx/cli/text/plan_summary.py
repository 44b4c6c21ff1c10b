"""Summarise plans: how many runs and steps, whether they fit, what was found; then a row per arm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rlx.api.plans import finding_text
from rlx.cli.text.memory_text import memory_use
from rlx.cli.text.plan_text import devices_text, steps_text, where_text
from rlx.evidence.verdict import counted
from rlx.model import LaunchPlan, Severity
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rlx.api.plans import Plans


def headline(plans: Plans) -> str:
    """`2 runs · 116 steps each · 52 of 61 GiB · 3 notes`."""
    parts = [counted(len(plans.plans), "run"), _steps(plans.plans)]
    if memory := memory_use(plans.drafts):
        parts.append(memory)
    severities = [finding.severity for finding in plans.findings]
    counts = [counted(severities.count(one), one.value) for one in Severity if one in severities]
    return " · ".join([*parts, *(counts or ["no findings"])])


def findings_lines(plans: Plans) -> Iterator[str]:
    """Each finding once, errors first."""
    for finding in plans.findings:
        yield "  " + finding_text(finding).replace("\n", "\n  ")


def place_line(plans: Plans) -> str:
    """Say where the runs are, if all are in one place: a path is too long for a column."""
    places = {where_text(plan.site) for plan in plans.plans}
    return f"in {places.pop()}" if len(places) == 1 else ""


def arms_table(plans: Plans) -> Table:
    """A row for what the seeds of an arm have in common."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for plan in plans.plans:
        rows.setdefault(_row(plan), []).append(plan.seed)
    arm, steps, validations, noise, devices, where = zip(*rows, strict=True)
    return Table(
        [
            Column("arm", arm),
            Column("seed", [", ".join(map(str, seeds)) for seeds in rows.values()], flows=True),
            Column("steps", steps),
            Column("validated at", validations, rank=2, flows=True),
            *([Column("noise", noise, rank=1, flows=True)] if any(each != "none" for each in noise) else []),
            Column("devices", devices, rank=3, flows=True),
            *([Column("in", where, flows=True)] if len({*where}) > 1 else []),
        ]
    )


def _row(plan: LaunchPlan) -> tuple[str, ...]:
    expected = plan.expectations
    steps = "?" if expected.total_steps is None else str(expected.total_steps)
    validated = steps_text(expected.validation_steps) if expected.validation_steps else "–"
    return plan.arm, steps, validated, _noise(plan), devices_text(plan), where_text(plan.site)


def _steps(plans: Sequence[LaunchPlan]) -> str:
    known = sorted({plan.expectations.total_steps or 0 for plan in plans})
    if not known or known[0] == 0:
        return "number of steps not known"
    if known[1:]:
        return f"{known[0]} to {known[-1]} steps"
    return f"{known[0]} steps{' each' if plans[1:] else ''}"


def _noise(plan: LaunchPlan) -> str:
    noise = plan.expectations.noise
    sigmas = [sigma for _, _, sigma in noise.spans if sigma] if noise else []
    if not sigmas:
        return "none"
    return f"σ {sigmas[0]:g} → {sigmas[-1]:g}" if sigmas[0] != sigmas[-1] else f"σ {sigmas[0]:g}"
