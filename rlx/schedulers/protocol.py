"""Define what every scheduler's folder must hold, a Protocol for each module, and return the modules by name.

A scheduler submits runs, reports all runs of a host in one answer, cancels them, and lists who has which devices.
The host does the first three, by the parts of supervise.sh in the scheduler's `payload`, since a launch is one command
and a run must not depend on the laptop. The modules define the requests and interpret the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from rlx.model import RunState
from rlx.schedulers.registry import check_batch_scheduler, name_of, part

if TYPE_CHECKING:
    from rlx.model import BatchScheduler, Finding, LaunchPlan, PlannedFile, Site


class EntryPart(Protocol):
    """The module `entry`: the key of a host's entry that is called as the scheduler is. Not of leases."""

    def read(self, reader: Any, node: Any, key: str) -> Mapping[str, Any] | None:
        """Read the settings as JSON; None where they are wrong, which is left with the reader."""

    def device(self, settings: Mapping[str, Any]) -> tuple[str, int] | None:
        """Return the kind of device that a job may ask for, and how many a node has."""

    def words(self, settings: Mapping[str, Any]) -> str:
        """Say where runs are submitted to."""


class RequestPart(Protocol):
    """The module `request`: what a run asks for when it is submitted.

    `GIVES_RAY = True`, which may be left out: its jobs run inside a Ray that is there, and a trainer that knows Ray
    joins that and asks it for devices, instead of starting one of its own.
    """

    def check(self, plan: LaunchPlan) -> None:
        """Raise UsageError for a run that cannot be submitted; a plan may come from a file."""

    def options(self, plan: LaunchPlan) -> Sequence[str]:
        """Return what the scheduler's `submit` reads, a line each; nothing where the devices are enough."""

    def files(self, plan: LaunchPlan) -> Sequence[PlannedFile]:
        """Return further files of the run directory that it reads."""


class Job(Protocol):
    """What a scheduler says of the job of one run."""

    def state_before_start(self, *, just_sent: bool) -> RunState:
        """Conclude about a run whose script has not begun."""

    def state_without_record(self, *, lives: bool) -> RunState | None:
        """Conclude about a run that began and has recorded no end; None: it runs. `lives`: it has just written."""

    def detail(self, state: RunState, *, started: bool, stop_asked: bool) -> str:
        """Say what a person must know of a run that has recorded no end; empty if the state says it all."""

    def cut_words(self, cut: str) -> str:
        """Say why the scheduler ended the run, by the word that its supervisor noted; empty for no such word."""


@dataclass(frozen=True, slots=True)
class SilentJob:
    """A job whose scheduler cannot be asked, and `why`."""

    why: str

    def state_before_start(self, *, just_sent: bool) -> RunState:
        return RunState.STARTING if just_sent else RunState.UNREACHABLE

    def state_without_record(self, *, lives: bool) -> RunState | None:
        return None if lives else RunState.UNREACHABLE

    def detail(self, state: RunState, *, started: bool, stop_asked: bool) -> str:
        return self.why

    def cut_words(self, cut: str) -> str:
        return ""


class FactsPart(Protocol):
    """The module `job_facts`: what the lines of one report say of the jobs of all its runs."""

    def read_answers(self, lines: Sequence[str]) -> Any:
        """Read all lines of a report that begin with the scheduler's name, without that. Raises ValueError."""

    def find_job(self, run_id: str, attempt: int, number: str, created: float, answers: Any) -> Job:
        """Find the job of a run's attempt, which was `created` at that time, by the number that was noted of it."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of any user, as its scheduler reports it; times in seconds since 1970.

    `run_id`: of the run that it is, None for a job that rlx did not submit; `name` is what its owner calls
    it. It has, or waits for, `nodes` nodes with `devices` each (`npu:4`; empty: none), at `where`. `reason`: why it
    waits. `since`: when it began, or was submitted. `start` is the scheduler's guess of a job that waits, `end` is when
    its time limit ends it; None where the scheduler does not say.
    """

    number: str
    run_id: str | None
    name: str
    user: str
    nodes: int
    devices: str
    where: str
    waits: bool
    reason: str
    since: float
    start: float | None
    end: float | None


@dataclass(frozen=True, slots=True)
class Resource:
    """What all nodes of a scheduler have of one kind, by its own name of that, and how much of it is in use."""

    name: str
    used: float
    total: float


@dataclass(frozen=True, slots=True)
class JobQueue:
    """All jobs that have not ended, and what there is to have, where the scheduler says so."""

    jobs: tuple[QueuedJob, ...]
    resources: tuple[Resource, ...] = ()


class CapacityPart(Protocol):
    """The module `capacity`: who has what, and who waits."""

    def capacity(self, place: Any, site: Site) -> Any:
        """Ask the place in one round trip: leases, a JobQueue, or a tuple of QueuedJob. Raises RlxError."""


class LoginNodePart(Protocol):
    """The module `login_node`: what to ask one, and what to say about the answers."""

    def questions(self, site: Site) -> Sequence[Any]:
        """Return the questions of the scheduler's own."""

    def findings(self, results: Any) -> Iterator[Finding]:
        """Return what is to be said about the answers."""

    def rows(self, results: Any) -> Iterator[tuple[str, str]]:
        """Return the lines of `rlx doctor`, each a name and a text."""


def entry_of(name: str) -> EntryPart:
    """Return the module `entry` of that scheduler. Raises as `registry.part` does."""
    return cast("EntryPart", part(name, "entry"))


def request_of(batch: BatchScheduler | None) -> RequestPart:
    """Return the module `request` of a site's scheduler."""
    return cast("RequestPart", part(name_of(batch), "request"))


def gives_ray(batch: BatchScheduler | None) -> bool:
    """Return whether the runs of a site are started inside a Ray that is there."""
    return batch is not None and bool(getattr(request_of(batch), "GIVES_RAY", False))


def facts_of(name: str) -> FactsPart:
    """Return the module `job_facts` of a batch scheduler. Raises UsageError where a run names another."""
    check_batch_scheduler(name)
    return cast("FactsPart", part(name, "job_facts"))


def capacity_of(batch: BatchScheduler | None) -> CapacityPart:
    """Return the module `capacity` of a site's scheduler."""
    return cast("CapacityPart", part(name_of(batch), "capacity"))


def login_node_of(batch: BatchScheduler) -> LoginNodePart:
    """Return the module `login_node` of a login node's scheduler."""
    return cast("LoginNodePart", part(batch.scheduler, "login_node"))
