"""What was promised: immutable values without I/O. Imports nothing of rlx but `rlx.errors`."""

from rlx.plan.command import MASK, Cmd, Secret
from rlx.plan.finding import Finding, Severity
from rlx.plan.jsonable import from_jsonable, to_jsonable
from rlx.plan.launch_plan import (
    PLAN_SCHEMA_VERSION,
    START_VARIABLES,
    Expectations,
    LaunchPlan,
    PlannedFile,
    Site,
)
from rlx.plan.noise import NoiseSchedule, sigmas_by_step, stage_sigmas
from rlx.plan.state import RunState

__all__ = [
    "MASK",
    "PLAN_SCHEMA_VERSION",
    "START_VARIABLES",
    "Cmd",
    "Expectations",
    "Finding",
    "LaunchPlan",
    "NoiseSchedule",
    "PlannedFile",
    "RunState",
    "Secret",
    "Severity",
    "Site",
    "from_jsonable",
    "sigmas_by_step",
    "stage_sigmas",
    "to_jsonable",
]
