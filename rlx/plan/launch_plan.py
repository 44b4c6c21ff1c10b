"""LaunchPlan: everything that will happen, as one immutable value. `rlx plan` prints it, `rlx launch` executes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlx.plan.finding import Finding
from rlx.plan.noise import NoiseSchedule

PLAN_SCHEMA_VERSION = 1

# What exists only at start. supervise.sh alone sets these; templates and payload may read them.
START_VARIABLES = (
    "RLX_RUN",  # the run id; every process of the run carries it
    "RLX_RUN_DIR",  # absolute path of the run directory
    "RLX_ATTEMPT_DIR",  # absolute path of attempts/<k>
    "RLX_RAY_TMP",  # short private directory for Ray (socket paths are limited to 107 bytes)
    "RLX_DEVICES",  # leased device numbers, comma-separated
)


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of the run directory. `path` is relative to it; `mode` is the permission bits."""

    path: str
    content: str
    mode: int = 0o600


@dataclass(frozen=True, slots=True)
class Site:
    """Where a run goes. `root` may start with `~`, which is that host's home directory.

    `path_prefix` is put before PATH: for this machine, the folder of the interpreter that runs rlx.
    """

    host: str = "local"
    container: str | None = None
    root: str = "~/rlx"
    path_prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the recipe promises of the run. A verdict is the log held against this, and nothing else.

    `metric` is a full metric name or "auto": the val-core key that the log shows. `noise` is None for an arm in which
    no noise may occur. `reports_probability_gap`: the back-end logs `training/rollout_probs_diff_*`.
    """

    total_steps: int | None
    validation_steps: tuple[int, ...]
    last_step_validated: bool
    validation_items: int | None
    validation_samples: int
    metric: str
    noise: NoiseSchedule | None
    reports_probability_gap: bool


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One run of one arm with one seed.

    `files` holds every file of the run directory with its content, `launch.sh` among them; `command` is the command
    that launch.sh ends in, for reading; `env` is what it exports. `treatment` are the dotted recipe keys that the arm
    changes. `recipe` is the resolved recipe. `devices` is the number of devices to lease (one slot on a CPU).
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
    findings: tuple[Finding, ...] = ()
    schema_version: int = field(default=PLAN_SCHEMA_VERSION)

    @property
    def run_name(self) -> str:
        """What a person calls the run: recipe, arm and seed."""
        return f"{self.name}-{self.arm}-s{self.seed}"
