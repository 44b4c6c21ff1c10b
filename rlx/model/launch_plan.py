"""Describe everything that a launch will do, as one immutable value, and seal it once its recipe has been checked.

`rlx plan` prints the value that `rlx launch` executes.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlx import __version__, renamed_keys
from rlx.model.finding import Finding
from rlx.model.jsonable import to_jsonable
from rlx.model.registration import Registration
from rlx.model.run_dir import SCRIPT_DIR
from rlx.model.run_expectations import Expectations
from rlx.model.site import Site

PLAN_SCHEMA_VERSION = 1
SCRIPT_ENV, SCRIPT_COMMAND = "env.", "command"
"""How a variable, and the arguments, that a person gave to a script are called in the treatment of its plan."""

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
    seal of the preflight (`seal`); without it, and on a plan that was changed since, nothing is launched.
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
        """Return this plan and those of its workers, in the order of their numbers."""
        return (self, *self.workers)

    @property
    def parts(self) -> tuple[LaunchPlan, ...]:
        """Return the plans of the hosts that take part: of its nodes, and the plan alone where a job gets all nodes."""
        return self.nodes if self.site.batch is None else (self,)

    @property
    def run_name(self) -> str:
        """Return the name that a person gives the run: recipe, arm and seed."""
        return f"{self.name}-{self.arm}-s{self.seed}"

    @property
    def has_recipe(self) -> bool:
        """Return False for a user's own launch script or an imported log, for which nothing says what to expect."""
        return bool(self.recipe)

    @property
    def is_launched(self) -> bool:
        """Return False for a run that was imported by its log: its plan does not hold what a launch would send."""
        return bool(self.files)

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Return all secrets whose values the launch needs: the recipe's variables, and those that proxies refer to."""
        return tuple(dict.fromkeys((*self.secrets, *self.site.proxies.values())))


def script_words(plan: LaunchPlan) -> dict[str, str]:
    """Return what a person gave to the script of a plan, as it is typed: `env.LR` -> `LR=4e-4`, and its arguments.

    Empty for a plan of a recipe.
    """
    if plan.has_recipe:
        return {}
    names = (key.removeprefix(SCRIPT_ENV) for key in plan.treatment if key.startswith(SCRIPT_ENV))
    words = {f"{SCRIPT_ENV}{name}": f"{name}={shlex.quote(plan.env.get(name, ''))}" for name in names}
    # `bash script/NAME ARGS`, or the command line that was given in place of a script.
    own = plan.command[2:] if plan.command[1:2] and plan.command[1].startswith(f"{SCRIPT_DIR}/") else plan.command
    return {**words, **({SCRIPT_COMMAND: shlex.join(own)} if SCRIPT_COMMAND in plan.treatment else {})}


def with_current_names(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan with the current names of recipe keys, whichever version wrote it."""
    if not renamed_keys.RENAMED:
        return plan
    recipe, workers = renamed_keys.current_names(plan.recipe), tuple(map(with_current_names, plan.workers))
    treatment = tuple(sorted(map(renamed_keys.current_key, plan.treatment)))
    return replace(plan, recipe=recipe, treatment=treatment, workers=workers)


def seal(plan: LaunchPlan) -> LaunchPlan:
    """Seal a plan whose recipe the rules have checked, so that a launch can distinguish it from any other.

    The seal is the digest of the plan and of the rules' version. Only `rlx.planning.checked` does so.
    """
    return replace(plan, checked=_digest(plan))


def is_sealed(plan: LaunchPlan) -> bool:
    """Return whether the plan is as it was when the rules of this version checked it."""
    return plan.checked == _digest(plan)


def _digest(plan: LaunchPlan) -> str:
    document = [__version__, to_jsonable(replace(plan, checked=""))]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
