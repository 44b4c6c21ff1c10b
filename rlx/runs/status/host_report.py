"""Query hosts about their runs, and derive the state of a run from what its host reports.

A state is never stored, and never concluded from a missing answer.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from rlx.errors import RlxError
from rlx.hosts import Completed, transport_for
from rlx.hosts.clock import Clock, compare_clocks
from rlx.hosts.host_errors import reading_answer
from rlx.hosts.script_parts import ScriptPart, run_part
from rlx.model import Place, RunState
from rlx.model.run_dir import (
    HEARTBEAT_FILE,
    LINEAGE_FILE,
    LOG_FILE,
    MANIFEST_FILE,
    METRICS_FILE,
    STARTED_DIR,
    STOP_FILE,
)
from rlx.runs import supervisor
from rlx.runs.queries import DEADLINE_S, QueryResult, query_places
from rlx.runs.run import RunRef
from rlx.schedulers.protocol import Job, SilentJob, facts_of
from rlx.schedulers.registry import PACKAGES

START_GRACE_S = 20.0
"""A holder or supervisor that has not reported yet counts as starting for this long."""
_LAST_EPOCH = 1e11
_CLOCK = "/proc/self/"
_HEARTBEAT_GRACE_S = 60.0
"""A supervisor writes every 5 s; a file server may show it to others as late as this."""
_UNLISTED = "unlisted"
_NO_ANSWER = frozenset({"unknown", "paused", _UNLISTED})
_IN_ANOTHER_ID = "RLX411"
_IN_ANOTHER = (
    f"{_IN_ANOTHER_ID} its files name a container that is not known to be its own, and nothing was asked in there: "
    "rlx status --host HOST asks the one in the host's entry"
)
_ENDS = {
    "restarted": "its container was restarted, which ended it",
    "exited": "its container was stopped, which ended it",
    "dead": "its container was stopped, which ended it",
    "created": "its container was stopped, which ended it",
    "restarting": "its container was restarted, which ended it",
    "removing": "its container was removed, which ended it",
    "gone": "its container was removed, which ended it",
}
_MOST_IDS_A_CALL = 500


GONE = "GONE"
"""Of a Ray job that its cluster, or this machine, had and does not have any more."""


class Life(StrEnum):
    """A process that a file of the run directory names; `none`: no such file, `unknown`: it cannot be determined."""

    NONE = "none"
    LIVE = "live"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RayJobs:
    """The Ray jobs of a run that has recorded no end.

    `code` is the exit code of the run once all of them are over, None before. `status`, `job` and `address` are of the
    one that stands for them: the first that is open, else the last. `silent` is since when its dashboard has not
    answered; None: it does.
    """

    code: int | None
    status: str
    silent: float | None
    job: str
    address: str


@dataclass(frozen=True, slots=True)
class Exit:
    """The recorded end: a shell's exit status (128 + signal), what recorded it, and when by the host's clock."""

    code: int
    by: str
    epoch: float


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What `supervise.sh report` reports of one run. Times are epochs by the host's clock.

    `members` counts the processes that carry the run's mark, the leader included. `ahead` counts the runs that wait
    before this one or hold devices of its kind. `container` is docker's word for the state of the run's container, or
    `gone`, `unknown`, or `restarted` if it started after the run did; `unlisted` if rlx knows no such container of the
    run; empty if it has none. `foreign` names the devices that a waiting run cannot have because other processes use
    them, as `device:pid,…`. `node` names the machine that has the run if another one reports: both see the folder.
    `is_removed`: the run directory is gone, and its processes are known by their mark alone. `job`: what a batch
    scheduler says about one that is a job; `cut`: why it was told to end; `heartbeat`: when its supervisor last wrote.
    `clock`: the host's clock against this machine's, None for this machine. `ray`: the jobs that it has submitted.
    """

    run_id: str
    now: float
    attempt: int
    holder: Life
    supervisor: Life
    leader: Life
    members: int
    ahead: int
    created: float
    stop_asked: bool
    started: float | None
    log_bytes: int
    log_time: float | None
    metrics_bytes: int
    exit: Exit | None
    container: str = ""
    foreign: str = ""
    metrics_time: float | None = None
    node: str = ""
    is_removed: bool = False
    job: Job | None = None
    cut: str = ""
    heartbeat: float | None = None
    clock: Clock | None = None
    ray: RayJobs | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Tell whether the reporting host cannot know the state. One that sees processes of the run was renamed."""
        return bool(self.node) and not self.members

    @property
    def is_alive(self) -> bool:
        return Life.LIVE in (self.supervisor, self.leader) or self.members > 0

    @property
    def may_be_alive(self) -> bool:
        return self.is_alive or Life.UNKNOWN in (self.supervisor, self.leader)

    @property
    def is_followed(self) -> bool:
        """Tell whether a process of rlx is there that records the end of its Ray jobs."""
        return Life.LIVE in (self.supervisor, self.leader, self.holder)


# ---- parsing a report ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    size: int
    time: float


@dataclass(slots=True)
class _Records:
    """The records of a report by kind: those of `runs` and `inside` are the values of a run."""

    now: float | None = None
    runs: dict[str, dict[str, str]] = field(default_factory=dict)
    inside: dict[str, dict[str, str]] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    members: Counter[str] = field(default_factory=Counter)
    files: dict[tuple[str, str], _File] = field(default_factory=dict)
    ray: dict[str, RayJobs] = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=dict)

    def add_run(self, words: Sequence[str]) -> None:
        self.runs[words[0]] = _values(words[1:])

    def add_inside(self, words: Sequence[str]) -> None:
        """Add what was seen of a run inside its container."""
        self.inside[words[0]] = _values(words[1:])

    def add_container(self, words: Sequence[str]) -> None:
        self.containers[words[0]] = words[1]

    def add_ray(self, words: Sequence[str]) -> None:
        """Add what is known of the Ray jobs of a run; what a process of the run has written may be anything."""
        with suppress(ValueError):
            run_id, _, code, status, silent, name, address = words
            self.ray[run_id] = RayJobs(_number(code), status, _number(silent), name, address)

    def add_members(self, words: Sequence[str]) -> None:
        """Count processes by their marks, of which a word may hold several."""
        marks = [mark for word in words for mark in word.split("\0") if mark]
        self.members.update(mark.removeprefix("RLX_RUN=") for mark in marks)

    def add_file(self, words: Sequence[str]) -> None:
        """Add size and time of a file; that of a file of /proc is the time now."""
        path, size, time = words
        self.files[path.partition("/")[0], path.rpartition("/")[2]] = _File(int(size), epoch_of(time))
        self.now = epoch_of(time) if path == _CLOCK else self.now


_ADD: Mapping[str, Callable[[_Records, Sequence[str]], None]] = {
    "run": _Records.add_run,
    "in": _Records.add_inside,
    "container": _Records.add_container,
    "submitted": _Records.add_ray,
    "marked": _Records.add_members,
    "file": _Records.add_file,
}
"""How each kind of line is read; others begin with the name of a batch scheduler, or are of a later supervise.sh."""


def parse_report(text: str) -> dict[str, RunFacts]:
    """Parse a report into the facts of its runs, by id. Runs without directory and process are left out.

    Raises ValueError or LookupError for what is no report.
    """
    records = _read_records(text)
    if (now := records.now) is None:
        raise ValueError("it is empty")
    marked = {run_id: _removed(run_id, now, records) for run_id in records.members if run_id not in records.runs}
    existing = {run_id: _facts(run_id, now, _values_of(run_id, records), records.files) for run_id in records.runs}
    existing = {run_id: replace(facts, ray=records.ray.get(run_id)) for run_id, facts in existing.items()}
    return marked | existing | _with_jobs(existing, records)


def _with_jobs(existing: Mapping[str, RunFacts], records: _Records) -> dict[str, RunFacts]:
    """Add to the runs that are jobs what their schedulers say."""
    found: dict[str, RunFacts] = {}
    answers: dict[str, Any] = {}
    for run_id, facts in existing.items():
        name, _, number = records.runs[run_id].get("job", "").partition(",")
        if name:
            found[run_id] = replace(facts, job=_job(name, number, facts, records, answers))
    return found


def _job(name: str, number: str, facts: RunFacts, records: _Records, answers: dict[str, Any]) -> Job:
    """Return what its scheduler says of a job; one that cannot be loaded affects its own runs only."""
    try:
        scheduler = facts_of(name)
    except RlxError as problem:
        return SilentJob(problem.message)
    if name not in answers:
        answers[name] = scheduler.read_answers(records.others.get(name, ()))
    return scheduler.find_job(facts.run_id, facts.attempt, number, facts.created, answers[name])


def _read_records(text: str) -> _Records:
    records = _Records()
    for line in text.splitlines():
        kind, *words = line.split()
        if kind in _ADD:
            _ADD[kind](records, words)
        else:
            records.others.setdefault(kind, []).append(" ".join(words))
    return records


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)


def _values(words: Sequence[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def _values_of(run_id: str, records: _Records) -> dict[str, str]:
    """Return the values of a run, with those of its processes as seen from the host or inside its container."""
    values = records.runs[run_id]
    if "container" not in values:
        return {**values, "members": str(records.members[run_id])}
    status = records.containers.get(values["container"], "unknown")
    status = _UNLISTED if _UNLISTED in values and status == "running" else status
    return {**values, **_contained(status, records.inside.get(run_id))}


def epoch_of(text: str | float) -> float:
    """Return seconds since 1970. Raises ValueError for a time that no calendar has."""
    try:
        seconds = float(text)
    except OverflowError:
        seconds = math.inf
    if not (math.isfinite(seconds) and abs(seconds) < _LAST_EPOCH):
        raise ValueError(f"{str(text)[:40]} is no time")
    return seconds


def _contained(status: str, seen: Mapping[str, str] | None) -> dict[str, str]:
    """Conclude about the processes in a container: as seen there, all dead, or unknown."""
    if status == "running" and seen is not None:
        return {**seen, "container": "restarted" if "restarted" in seen else status}
    life = Life.UNKNOWN if status in {"running", *_NO_ANSWER} else Life.DEAD
    status = "unknown" if status == "running" else status
    return {"supervisor": life, "leader": life, "members": "0", "container": status}


def _facts(run_id: str, now: float, values: Mapping[str, str], files: Mapping[tuple[str, str], _File]) -> RunFacts:
    log, metrics = files.get((run_id, LOG_FILE)), files.get((run_id, METRICS_FILE))
    started = files.get((run_id, STARTED_DIR))
    shipped = files.get((run_id, LINEAGE_FILE)) or files.get((run_id, MANIFEST_FILE))
    return RunFacts(
        run_id=run_id,
        now=now,
        attempt=int(values["attempt"]),
        holder=Life(values["holder"]),
        supervisor=Life(values["supervisor"]),
        leader=Life(values["leader"]),
        members=int(values["members"]),
        ahead=int(values["ahead"]),
        created=shipped.time if shipped else now,
        stop_asked=(run_id, STOP_FILE) in files,
        started=started.time if started else None,
        log_bytes=log.size if log else 0,
        log_time=log.time if log else None,
        metrics_bytes=metrics.size if metrics else 0,
        metrics_time=metrics.time if metrics and metrics.size else None,
        node=values.get("node", ""),
        exit=_parse_exit(values.get("exit", "")),
        container=values.get("container", ""),
        foreign=values.get("foreign", ""),
        cut=values.get("cut", ""),
        heartbeat=heartbeat.time if (heartbeat := files.get((run_id, HEARTBEAT_FILE))) else None,
    )


def _removed(run_id: str, now: float, records: _Records) -> RunFacts:
    """Conclude about a run whose directory is gone and that has processes left."""
    values = {"attempt": "1", "holder": "none", "supervisor": "none", "leader": "none", "ahead": "0"}
    values["members"] = str(records.members[run_id])
    return replace(_facts(run_id, now, values, {}), is_removed=True)


def _parse_exit(text: str) -> Exit | None:
    """Parse the record; None if it is missing, or incomplete after a crash or on a full disk."""
    try:
        code, by, epoch = text.split(",")
        return Exit(int(code), by, epoch_of(epoch))
    except ValueError:
        return None


# ---- the state of a run ----------------------------------------------------------------------------------------------


def derive_state(facts: RunFacts) -> RunState:
    """Derive the state of a run from the facts of its host; nothing else decides it.

    A recorded exit counts even if nothing is left to confirm it. A host that only shares the folder with the one that
    has the run does not know its state. What ended without a record is lost, but only when no process of the run is
    alive.
    """
    if facts.exit is not None:
        return _state_after(facts.exit.code, facts.stop_asked)
    if facts.is_removed:
        return RunState.RUNNING
    if facts.stop_asked and facts.started is None:
        return RunState.STOPPED
    if facts.job is not None:
        return _state_of_job(facts, facts.job)
    if facts.is_elsewhere:
        return RunState.UNREACHABLE
    if facts.started is not None:
        return _state_while_started(facts, facts.started)
    if facts.holder is Life.LIVE:
        return RunState.QUEUED
    just_shipped = facts.holder is Life.NONE and facts.now - facts.created < START_GRACE_S
    return RunState.STARTING if just_shipped else RunState.LOST


def _state_of_job(facts: RunFacts, job: Job) -> RunState:
    if facts.started is None:
        return job.state_before_start(just_sent=facts.now - facts.created < START_GRACE_S)
    beats = [time for time in (facts.heartbeat, facts.started) if time is not None]
    lives = facts.is_alive or facts.now - max(beats) < _HEARTBEAT_GRACE_S
    over = job.state_without_record(lives=lives)
    return over or (RunState.RUNNING if facts.metrics_bytes else RunState.STARTING)


def recorded_end(record: str, *, stop_asked: bool) -> RunState | None:
    """Conclude the end of a run from the text of its exit record alone; None if that is no record."""
    end = _recorded(record)
    return _state_after(end.code, stop_asked) if end else None


def recorded_code(record: str) -> int | None:
    """Parse the shell's exit status in the text of an exit record; None if that is no record."""
    end = _recorded(record)
    return end.code if end else None


def _recorded(record: str) -> Exit | None:
    return _parse_exit(",".join(record.split()[:3]))


def _state_after(code: int, stop_asked: bool) -> RunState:
    if code == 0:
        return RunState.FINISHED
    return RunState.STOPPED if stop_asked else RunState.FAILED


def _state_while_started(facts: RunFacts, started: float) -> RunState:
    just_started = facts.supervisor is Life.NONE and facts.now - started < START_GRACE_S
    # A holder outlives the supervisor for the moment that it needs to record the end.
    if not facts.may_be_alive and not just_started and facts.holder is not Life.LIVE:
        if facts.ray is None or facts.ray.status == GONE:
            return RunState.LOST
        if facts.ray.code is not None:
            return _state_after(facts.ray.code, facts.stop_asked)
        if facts.ray.silent is not None:
            return RunState.UNREACHABLE
    does_run = facts.metrics_bytes or (facts.ray is not None and facts.ray.status == "RUNNING")
    return RunState.RUNNING if does_run else RunState.STARTING


def container_detail(facts: RunFacts) -> str:
    """Describe the container of a run that has not recorded an end; empty if there is nothing to note."""
    if facts.started is None:
        return ""
    if facts.container == "paused":
        return "its container is paused"
    if facts.container == _UNLISTED:
        return _IN_ANOTHER
    if facts.container == "unknown":
        return "docker does not say whether it still runs"
    if facts.may_be_alive:
        return ""
    return _ENDS.get(facts.container, "")


# ---- querying hosts --------------------------------------------------------------------------------------------------

Reports = QueryResult[dict[str, RunFacts]]
"""The facts by run id, one answer per root."""


def request_reports(refs: Iterable[RunRef], deadline_s: float = DEADLINE_S) -> Reports:
    """Query the facts of those runs that exist on their hosts, one answer per root."""

    refs = list(refs)

    def report(place: Place, root: str, ids: Sequence[str]) -> dict[str, RunFacts]:
        before = time.time()
        return read_report(
            place, root, run_part(transport_for(place), report_part(root, ids, refs), deadline_s), before
        )

    return query_places(refs, report, deadline_s)


def report_part(root: str, ids: Sequence[str], refs: Sequence[RunRef]) -> ScriptPart:
    """Return the query about the runs of these ids. `refs` name their containers: no other one is entered."""
    chosen = set(ids)
    containers = [f"{ref.run_id}={ref.container}" for ref in refs if ref.container and ref.run_id in chosen]
    # Beyond this, naming them costs more than a report on all.
    return supervisor.part("report", root, *(ids if len(ids) <= _MOST_IDS_A_CALL else []), "--", *containers)


def read_report(place: Place, root: str, completed: Completed, before: float) -> dict[str, RunFacts]:
    """Parse the answer to a `report_part` that was sent at `before`. Raises RlxError for what is no report."""
    after, text = time.time(), supervisor.answer(place, "report", completed)
    text += _of_plug_ins(place, root, text)
    with reading_answer(place.host, "rlx status"):
        found = parse_report(text)
    if place.is_local:
        return found
    return {run_id: replace(facts, clock=compare_clocks([facts.now], before, after)) for run_id, facts in found.items()}


def _of_plug_ins(place: Place, root: str, text: str) -> str:
    """Query schedulers of other distributions about the jobs that the report could not cover, one call each."""
    more = ""
    for kind, name, *jobs in (words for line in text.splitlines() if len(words := line.split()) > 1):
        if kind == "unknown" and name not in PACKAGES:
            ids = [job.partition("=")[0] for job in jobs]
            # A failure affects the runs of this scheduler only.
            with suppress(RlxError):
                more += supervisor.call(place, "facts", root, *ids, timeout_s=DEADLINE_S, scheduler=name)
    return more
