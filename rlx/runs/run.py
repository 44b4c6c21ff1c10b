"""The reference of a run: its names and the place of its files."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from rlx.model import LaunchPlan, Place, Site
from rlx.model.run_dir import ATTEMPTS_DIR, LOG_FILE, SCRIPT_DIR


@dataclass(frozen=True, slots=True)
class RunRef:
    """One run on one host. `name` is the recipe's; `root` may start with `~`; `created` is an epoch.

    A run of several nodes has one reference for each: node 0, the head, which users call the run, and its workers.
    `container` is the id of the one that shares the folder of the run, from its launch or the inventory and never from
    its files; empty if there is none or it is not known. `group` is the name under which this user's launches of
    scripts belong together; empty for other runs, whose launches each stand for themselves.
    """

    run_id: str
    launch_id: str
    name: str
    arm: str
    seed: int
    place: Place
    root: str
    created: float
    node: int = 0
    container: str = field(default="", compare=False)
    group: str = field(default="", compare=False)

    @property
    def group_id(self) -> str:
        """Return what runs have in common that are shown and compared together: their launch, or a script's name."""
        return f"name {self.group}" if self.group else self.launch_id

    @property
    def head_id(self) -> str:
        """Return the id of the run that this is a node of: its own for the head."""
        return self.run_id.removesuffix(_node_suffix(self.node))

    @property
    def host(self) -> str:
        return self.place.host

    @property
    def run_name(self) -> str:
        """Return the name of the run; runs of several launches may share it."""
        return f"{self.name}-{self.arm}-s{self.seed}"

    @property
    def short_name(self) -> str:
        """Return the name of the run in a table of its launch."""
        return f"{self.arm}-s{self.seed}"

    @property
    def remote_dir(self) -> str:
        """Return the run directory as its host writes it."""
        return f"{self.root}/runs/{self.run_id}"

    @property
    def run_dir(self) -> Path:
        """Return the run directory of a run on this machine."""
        return Path(self.remote_dir).expanduser()

    @property
    def shown_dir(self) -> str:
        """Return the run directory as users find it on its host."""
        return str(self.run_dir) if self.place.is_local else self.remote_dir

    @property
    def session(self) -> str:
        """Return the name of its tmux session."""
        return tmux_name(self.run_id)


def tmux_name(text: str) -> str:
    """Name a session or window of tmux, which allows neither dots nor colons there."""
    return text.replace(".", "_").replace(":", "_")


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The attempts in a run directory; `rlx.model.run_dir` names its files."""

    run_dir: Path

    @property
    def attempts(self) -> tuple[Path, ...]:
        """Return the attempt directories, oldest first."""
        try:
            found = [path for path in (self.run_dir / ATTEMPTS_DIR).iterdir() if path.name.isdecimal()]
        except OSError:
            return ()
        return tuple(sorted(found, key=lambda path: int(path.name)))

    @property
    def latest(self) -> Path:
        attempts = self.attempts
        return attempts[-1] if attempts else self.run_dir / ATTEMPTS_DIR / "1"

    @property
    def log(self) -> Path:
        """Return the console log of the latest attempt."""
        return self.latest / LOG_FILE


def new_launch_id(now: float) -> str:
    return f"{_stamp(now)}-{secrets.token_hex(3)}"


def new_ref(plan: LaunchPlan, launch_id: str, now: float) -> RunRef:
    """Make a new run of a plan, with a unique id."""
    run_id = f"{plan.run_name}-{_stamp(now)}-{secrets.token_hex(2)}"
    site = plan.site
    names = (run_id, launch_id, plan.name, plan.arm, plan.seed)
    return RunRef(*names, site.place, site.root, now, container=container_of(site), group=group_of(plan))


def group_of(plan: LaunchPlan) -> str:
    """Return the name under which launches of a script belong together; empty for any other plan."""
    has_script = any(file.path.startswith(f"{SCRIPT_DIR}/") for file in plan.files)
    return plan.name if has_script and not plan.has_recipe else ""


def container_of(site: Site) -> str:
    """Return the id of the container that shares the folder of the runs; empty where none does."""
    return site.container_id or "" if site.container_root is not None else ""


def is_run_id(ref: RunRef) -> bool:
    """Tell whether its id is one that `new_ref` makes, so that it cannot be the name of another run."""
    return re.fullmatch(rf"{re.escape(ref.run_name)}-\d{{8}}-\d{{6}}-[0-9a-f]{{4}}", ref.head_id) is not None


def worker_ref(head: RunRef, worker: LaunchPlan) -> RunRef:
    """Return the part of a run on another node."""
    run_id = f"{head.run_id}{_node_suffix(worker.node)}"
    site, node = worker.site, worker.node
    return replace(head, run_id=run_id, place=site.place, root=site.root, node=node, container=container_of(site))


def one_a_job(refs: Iterable[RunRef]) -> list[RunRef]:
    """Leave out workers whose head is among these at the same place: both are one job.

    Workers elsewhere are on hosts of their own.
    """
    refs = list(refs)
    heads = {ref.run_id: ref.place for ref in refs if not ref.node}
    return [ref for ref in refs if not ref.node or heads.get(ref.head_id) != ref.place]


def _node_suffix(node: int) -> str:
    return f"-node{node}" if node else ""


def _stamp(now: float) -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))


def utc_text(seconds: float) -> str:
    """Write seconds since 1970 as an ISO time in UTC, to the second: `2026-11-23T06:40:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
