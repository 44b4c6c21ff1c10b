"""Promise what will run: immutable values without I/O. Imports nothing of rlx but `rlx.errors`."""

from rlx.plan.adaptive_sigma import AdaptiveSigma
from rlx.plan.batch_scheduler import Batch
from rlx.plan.batches_a_step import BatchesAStep
from rlx.plan.command import MASK, Cmd, Secret
from rlx.plan.finding import Finding, Severity
from rlx.plan.image import Image
from rlx.plan.installation import NO_FOLDER, NO_PYTHON, NO_READER, Installation, InstallationQuestion
from rlx.plan.jsonable import from_jsonable, salvage_jsonable, to_jsonable
from rlx.plan.launch_plan import (
    DEFAULT_LEASES,
    PLAN_SCHEMA_VERSION,
    START_VARIABLES,
    Cluster,
    Expectations,
    LaunchPlan,
    PlannedFile,
    Site,
)
from rlx.plan.noise_promise import Link, NoiseProcess, NoisePromise
from rlx.plan.noise_schedule import NoiseSchedule, Span, sigmas_by_step, stage_sigmas
from rlx.plan.place import LOCAL, Place
from rlx.plan.planned_correction import Correction
from rlx.plan.registration import RegisteredArm, Registration
from rlx.plan.run_state import RunState
from rlx.plan.weight_promise import WeightPromise

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
    "Batch",
    "BatchesAStep",
    "Cluster",
    "Cmd",
    "Correction",
    "Expectations",
    "Finding",
    "Image",
    "Installation",
    "InstallationQuestion",
    "LaunchPlan",
    "Link",
    "NoiseProcess",
    "NoisePromise",
    "NoiseSchedule",
    "Place",
    "PlannedFile",
    "RegisteredArm",
    "Registration",
    "RunState",
    "Secret",
    "Severity",
    "Site",
    "Span",
    "WeightPromise",
    "from_jsonable",
    "salvage_jsonable",
    "sigmas_by_step",
    "stage_sigmas",
    "to_jsonable",
]
