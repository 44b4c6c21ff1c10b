"""The state of a run, derived from what its host can see. Never stored, and never concluded from a missing answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rlx.plan import RunState

START_GRACE_S = 20.0
"""A holder or supervisor that has not reported yet counts as starting for this long."""


class Life(StrEnum):
    """A process that a file of the run directory names; `none` if there is no such file."""

    NONE = "none"
    LIVE = "live"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Exit:
    """How the run ended: a shell's exit status (128 + signal), who recorded it, and when by the host's clock."""

    code: int
    by: str
    epoch: float


@dataclass(frozen=True, slots=True)
class Facts:
    """One line of `supervise.sh report`. Times are seconds since 1970 by the host's clock, `now` among them.

    `members` counts the processes that carry the run's mark, the leader included. `ahead` counts the runs that wait
    before this one or hold devices of its kind.
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

    @property
    def is_alive(self) -> bool:
        return Life.LIVE in (self.supervisor, self.leader) or self.members > 0


def parse_report(text: str) -> dict[str, Facts]:
    """The runs of a report by id. Runs that the host does not have are left out."""
    now = 0.0
    facts = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "now":
            now = float(rest)
        elif kind == "run":
            run = _parse_run(rest, now)
            facts[run.run_id] = run
    return facts


def _parse_run(line: str, now: float) -> Facts:
    run_id, *words = line.split()
    values = dict(word.split("=", 1) for word in words)
    log_bytes, log_time = _size_and_time(values, "log")
    metrics_bytes, _ = _size_and_time(values, "metrics.jsonl")
    return Facts(
        run_id=run_id,
        now=now,
        attempt=int(values["attempt"]),
        holder=Life(values["holder"]),
        supervisor=Life(values["supervisor"]),
        leader=Life(values["leader"]),
        members=int(values["members"]),
        ahead=int(values["ahead"]),
        created=float(values["../../manifest.json"].split(",")[1]),
        stop_asked="../../stop" in values,
        started=_size_and_time(values, "state/started")[1],
        log_bytes=log_bytes,
        log_time=log_time,
        metrics_bytes=metrics_bytes,
        exit=_parse_exit(values.get("exit", "")),
    )


def _size_and_time(values: Mapping[str, str], name: str) -> tuple[int, float | None]:
    if name not in values:
        return 0, None
    size, time = values[name].split(",")
    return int(size), float(time)


def _parse_exit(text: str) -> Exit | None:
    """None for a record that is missing, or that a full disk or a crash left torn."""
    try:
        code, by, epoch = text.split(",")
        return Exit(int(code), by, float(epoch))
    except ValueError:
        return None


def derive_state(facts: Facts) -> RunState:
    """The one place that decides what has become of a run.

    A recorded exit is the truth even if nothing is left to confirm it. What ended without a record is lost, but only
    when no process of the run is alive any more.
    """
    if facts.exit is not None:
        return _state_after(facts.exit, facts.stop_asked)
    if facts.started is not None:
        return _state_while_started(facts, facts.started)
    if facts.stop_asked:
        return RunState.STOPPED
    if facts.holder is Life.LIVE:
        return RunState.QUEUED
    just_shipped = facts.holder is Life.NONE and facts.now - facts.created < START_GRACE_S
    return RunState.STARTING if just_shipped else RunState.LOST


def _state_after(end: Exit, stop_asked: bool) -> RunState:
    if end.code == 0:
        return RunState.FINISHED
    return RunState.STOPPED if stop_asked else RunState.FAILED


def _state_while_started(facts: Facts, started: float) -> RunState:
    just_started = facts.supervisor is Life.NONE and facts.now - started < START_GRACE_S
    if not facts.is_alive and not just_started:
        return RunState.LOST
    return RunState.RUNNING if facts.metrics_bytes else RunState.STARTING
