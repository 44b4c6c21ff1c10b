"""LaunchPlan: everything that will happen, as one immutable value. `rlx plan` prints it, `rlx launch` executes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlx import renamed_keys
from rlx.plan.batch_scheduler import Batch
from rlx.plan.batches_a_step import BatchesAStep
from rlx.plan.finding import Finding
from rlx.plan.image import Image
from rlx.plan.noise_promise import NoisePromise
from rlx.plan.noise_schedule import NoiseSchedule
from rlx.plan.place import LOCAL, Place
from rlx.plan.planned_correction import Correction
from rlx.plan.registration import Registration
from rlx.plan.weight_promise import WeightPromise

PLAN_SCHEMA_VERSION = 1
DEFAULT_LEASES = "/var/tmp/rlx-leases"

# What exists only at start. supervise.sh alone sets these; templates and payload may read them.
START_VARIABLES = (
    "RLX_RUN",  # the run id; every process of the run carries it
    "RLX_RUN_DIR",  # absolute path of the run directory
    "RLX_ATTEMPT_DIR",  # absolute path of attempts/<k>
    "RLX_RAY_TMP",  # short private directory for Ray (socket paths are limited to 107 bytes)
    "RLX_DEVICES",  # leased device numbers, comma-separated
    "RLX_NODE",  # which node of the run this is, from 0; node 0, the head, trains
    "RLX_NODES",  # how many nodes the run has
    "RLX_HEAD",  # ADDRESS:PORT of the head's Ray; empty with one node
    "RLX_RESUME_FROM",  # the checkpoint that a further attempt goes on from, or `none`; empty for the first attempt
)


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of the run directory. `path` is relative to it; `mode` is the permission bits."""

    path: str
    content: str
    mode: int = 0o600


@dataclass(frozen=True, slots=True)
class Site:
    """The place where a run goes.

    `root` is the folder of the runs as `place` writes it; it may start with `~`, which is the home directory there.
    With a `container` (as people call it; `container_id` is the full id that was found), the command runs in it, and
    `container_root` is the same folder as the container sees it; None where the runs lie inside it (`place.inside`);
    `image` is the id of its image. `leases` is the folder of tickets and device locks, the same for everybody on that
    host. `setup` are scripts that are sourced before anything else, `env` is exported after them; `proxies` maps a
    variable to the name of the secret that holds its value. `path_prefix` is put before PATH: for this machine, the
    folder of the interpreter that runs rlx. `address` is what other hosts reach this one by; None: nobody said. With
    `batch`, the host is a login node, and its scheduler decides when and on which node a run starts; with a
    `job_image`, each job makes a container of it there, and what is in that is seen on a node only.
    """

    place: Place = LOCAL
    container: str | None = None
    container_id: str | None = None
    image: str | None = None
    root: str = "~/rlx"
    container_root: str | None = None
    leases: str = DEFAULT_LEASES
    setup: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)
    path_prefix: tuple[str, ...] = ()
    address: str | None = None
    batch: Batch | None = None
    job_image: Image | None = None

    @staticmethod
    def upgraded(written: dict[str, Any]) -> dict[str, Any]:
        """Return what an earlier version wrote in the form of now: Slurm's settings stood under a key of their own."""
        if "slurm" not in written:
            return written
        slurm = written["slurm"]
        rest = {name: value for name, value in written.items() if name != "slurm"}
        return rest if slurm is None else {"batch": {"scheduler": "slurm", "settings": slurm}, **rest}

    @property
    def host(self) -> str:
        return self.place.host


@dataclass(frozen=True, slots=True)
class Expectations:
    """The promises of a recipe about its run. A verdict is the log held against this, and nothing else.

    `metric` is a full metric name or "auto": the val-core key that the log shows. `noise` is None for an arm in which
    no noise may occur. `reports_probability_gap`: the back-end logs the gap between rollout and actor.
    `witness`: the role of the metric that stands in for that gap where this run does not log it; empty for the gap
    itself. `correction`: what training does about samples that rollout and actor differ on; None: nothing.
    `watch`: by what an arm without noise must show that it has none; None where nothing looks.
    `batches`: of the data that a step may take, where the trainer takes several and logs how many; None elsewhere.
    `weights`: what the run records of the weights that it trains and generates with; None: nothing.
    `is_read`: steps and validations are those of the configuration that the log prints, which nobody promised.
    """

    total_steps: int | None
    validation_steps: tuple[int, ...]
    last_step_validated: bool
    validation_items: int | None
    validation_samples: int
    metric: str
    noise: NoiseSchedule | None
    reports_probability_gap: bool
    witness: str = ""
    correction: Correction | None = None
    watch: NoisePromise | None = None
    is_read: bool = False
    batches: BatchesAStep | None = None
    weights: WeightPromise | None = None

    @property
    def reports_witness(self) -> bool:
        """Tell whether the log shows the noise a second time, by the gap or by what stands in for it."""
        return self.reports_probability_gap or bool(self.witness)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One node of several: which, of how many, and the address of node 0, the head, as the other nodes reach it."""

    node: int
    nodes: int
    head: str


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One run of one arm with one seed.

    `files` holds every file of the run directory with its content, `launch.sh` among them; `command` is the command
    that launch.sh ends in, for reading; `env` is what it exports. `treatment` are the dotted recipe keys that the arm
    changes. `recipe` is the resolved recipe. `devices` is the number of devices to lease on its host (one slot on a
    CPU); `device_list` names them, for a run that wants exactly these. A run of several nodes has a `cluster` and
    `workers`, a plan for each further node: there, launch.sh only joins the Ray of this one, the head. `checked` is the
    seal of the preflight (rlx/plan/checked.py); without it, and on a plan that was changed since, nothing is launched.
    `registration` is the experiment that the run belongs to; None: it answers no registered question.
    """

    name: str
    arm: str
    control: str | None
    seed: int
    backend: str
    backend_version: str
    site: Site
    command: tuple[str, ...]
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    expectations: Expectations
    treatment: tuple[str, ...]
    recipe: Mapping[str, Any]
    device_kind: str
    devices: int
    device_list: tuple[int, ...] = ()
    findings: tuple[Finding, ...] = ()
    cluster: Cluster | None = None
    workers: tuple[LaunchPlan, ...] = ()
    registration: Registration | None = None
    checked: str = ""
    schema_version: int = field(default=PLAN_SCHEMA_VERSION)

    @property
    def node(self) -> int:
        return self.cluster.node if self.cluster else 0

    @property
    def nodes(self) -> tuple[LaunchPlan, ...]:
        """This plan and those of its workers, in the order of their numbers."""
        return (self, *self.workers)

    @property
    def parts(self) -> tuple[LaunchPlan, ...]:
        """The plans of the hosts that take part: of its nodes, and the plan alone where a job gets all nodes."""
        return self.nodes if self.site.batch is None else (self,)

    @property
    def run_name(self) -> str:
        """The name that a person gives the run: recipe, arm and seed."""
        return f"{self.name}-{self.arm}-s{self.seed}"

    @property
    def has_recipe(self) -> bool:
        """False for a launch script of the users' own, or a log that was taken in: nothing says what it promised."""
        return bool(self.recipe)

    @property
    def is_launched(self) -> bool:
        """False for a run that was taken in by its log: what would have been sent is not in such a plan."""
        return bool(self.files)

    @property
    def secret_names(self) -> tuple[str, ...]:
        """All secrets whose values the launch needs: the recipe's variables, and those that proxies refer to."""
        return tuple(dict.fromkeys((*self.secrets, *self.site.proxies.values())))


def with_current_names(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan with the current names of recipe keys, whichever version wrote it."""
    if not renamed_keys.RENAMED:
        return plan
    recipe, workers = renamed_keys.current_names(plan.recipe), tuple(map(with_current_names, plan.workers))
    treatment = tuple(sorted(map(renamed_keys.current_key, plan.treatment)))
    return replace(plan, recipe=recipe, treatment=treatment, workers=workers)
