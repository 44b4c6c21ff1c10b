"""Describe what will run, and what the run must show, as immutable values without I/O.

It knows the plan, the expectations, the findings, the registration of an experiment and the names in a run directory.
It knows no back-end, no host and no file format but its own JSON; it imports `rlx.errors`, `rlx.findings` and
`rlx.secret_text`, and other leaves.
"""

from rlx.model.command import MASK, Cmd, Secret
from rlx.model.expected_noise import (
    AdaptiveSigma,
    Link,
    NoiseExpectation,
    NoiseProcess,
    NoiseSchedule,
    SigmaSteps,
    sigmas_by_step,
    stage_sigmas,
)
from rlx.model.finding import Finding, Severity, finding_text, fix_line, fix_text, message_text
from rlx.model.jsonable import from_jsonable, salvage_jsonable, to_jsonable
from rlx.model.launch_plan import PLAN_SCHEMA_VERSION, START_VARIABLES, Cluster, LaunchPlan, PlannedFile
from rlx.model.registration import RegisteredArm, Registration
from rlx.model.run_expectations import (
    BatchesAStep,
    Expectations,
    ExpectedCorrection,
    StatedExpectations,
    WeightExpectation,
)
from rlx.model.run_state import RunState
from rlx.model.site import (
    DEFAULT_LEASES,
    LOCAL,
    NO_FOLDER,
    NO_PYTHON,
    NO_READER,
    BatchScheduler,
    Image,
    Installation,
    InstallationQuestion,
    Place,
    Site,
)

__all__ = [
    "DEFAULT_LEASES",
    "LOCAL",
    "MASK",
    "NO_FOLDER",
    "NO_PYTHON",
    "NO_READER",
    "PLAN_SCHEMA_VERSION",
    "START_VARIABLES",
    "AdaptiveSigma",
    "BatchScheduler",
    "BatchesAStep",
    "Cluster",
    "Cmd",
    "Expectations",
    "ExpectedCorrection",
    "Finding",
    "Image",
    "Installation",
    "InstallationQuestion",
    "LaunchPlan",
    "Link",
    "NoiseExpectation",
    "NoiseProcess",
    "NoiseSchedule",
    "Place",
    "PlannedFile",
    "RegisteredArm",
    "Registration",
    "RunState",
    "Secret",
    "Severity",
    "SigmaSteps",
    "Site",
    "StatedExpectations",
    "WeightExpectation",
    "finding_text",
    "fix_line",
    "fix_text",
    "from_jsonable",
    "message_text",
    "salvage_jsonable",
    "sigmas_by_step",
    "stage_sigmas",
    "to_jsonable",
]
