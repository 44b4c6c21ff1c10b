"""Read the facts of a run that is a job of a Ray cluster, and conclude from them where the run has recorded no end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlx.model import RunState

DEVICES_ID, STOPPED_ID, ENDED_ID, GAVE_UP_ID = "RLX584", "RLX585", "RLX586", "RLX588"
_TIMED_OUT = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
_WANTED = re.compile(r"([A-Za-z]\w*) (\d{1,6})")
_CODE = re.compile(r"failed with exit code (\d+)")


@dataclass(frozen=True, slots=True)
class RayJob:
    """`state`, `message` and `error` are Ray's words; an empty state: it knows no such job.

    `wants` is what it asks for, by Ray's name of it; `usage` how much of each is used, and how much there is. `joins`:
    its job runs while it still waits for that. `silence` says why Ray cannot be asked. `is_gone`: the Ray in which the
    run began has ended.
    """

    number: str
    state: str = ""
    message: str = ""
    error: str = ""
    wants: tuple[str, int] | None = None
    usage: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    joins: bool = False
    silence: str = ""
    is_gone: bool = False

    @property
    def waits(self) -> bool:
        return self.state == "PENDING" or (self.state == "RUNNING" and self.joins)

    def state_before_start(self, *, just_sent: bool) -> RunState:
        """Conclude about a run whose script has not begun."""
        if self.waits:
            return RunState.QUEUED
        if self.state == "RUNNING" or (just_sent and not self.state):
            return RunState.STARTING
        if self.silence:
            return RunState.UNREACHABLE
        return RunState.STOPPED if self.state == "STOPPED" else RunState.LOST

    def state_without_record(self, *, lives: bool) -> RunState | None:
        """Conclude about a run that began and has recorded no end; None: it runs. `lives`: whatever Ray says."""
        if lives or self.state in ("PENDING", "RUNNING"):
            return None
        if self.silence and not self.is_gone:
            return RunState.UNREACHABLE
        return RunState.STOPPED if self.state == "STOPPED" else RunState.LOST

    def detail(self, state: RunState, *, started: bool, stop_asked: bool) -> str:
        """Say what a person must know of the job of a run that has recorded no end; empty if the state says it all."""
        known = f"Ray job {self.number}"
        if self.is_gone and state is RunState.LOST:
            return f"{ENDED_ID} the Ray of job {self.number} has ended"
        if self.silence:
            return "" if state in (RunState.STARTING, RunState.RUNNING) and started else self.silence
        if state is RunState.QUEUED:
            return f"{known} waits{self._wish()}"
        if state in (RunState.STARTING, RunState.RUNNING, RunState.STALLED):
            still = self.state not in ("", "PENDING", "RUNNING") and started
            return f"{known} is {self.state} for Ray, and the run still writes" if still else ""
        end = f"{known} was stopped" if stop_asked and self.state == "STOPPED" else self._end(known)
        return end if started else f"never started: {end}"

    def _wish(self) -> str:
        if self.wants is None:
            return " for Ray to start it"
        name, count = self.wants
        used, total = self.usage.get(name, (0.0, 0.0))
        if count > total:
            return f" for {count} {name}, and the cluster has {total:g}"
        return f" for {count} {name}: {total - used:g} of {total:g} are free"

    def _end(self, known: str) -> str:
        if not self.state:
            return f"Ray does not know job {self.number}, and no end was recorded: it may have been started anew"
        if self.state == "STOPPED":
            return f"{STOPPED_ID} {known} was stopped, not by rlx stop"
        if self.error == _TIMED_OUT:
            return f"{GAVE_UP_ID} Ray gave up {self.number[:100]}, which waited too long{self._wish()}"
        code = _CODE.search(self.message)
        why = f"its process ended with {code[1]}" if code else self.message or "no reason given"
        return f"{known} ended as {self.state} ({why}), and the run recorded nothing"

    def cut_words(self, cut: str) -> str:
        """Say why the run was told to end, by what its supervisor noted then."""
        return _CUTS.get(cut, "")


_CUTS: Mapping[str, str] = {
    "cancelled": f"{STOPPED_ID} its Ray job was stopped, not by rlx stop",
    "devices": f"{DEVICES_ID} its Ray job has not the devices that it needs; its log says more",
    "gone": f"{ENDED_ID} the Ray of its job ended",
}


@dataclass(slots=True)
class Answers:
    """All that one report has of Ray: what each cluster says of its jobs by their names, or why it says nothing."""

    jobs: dict[str, RayJob] = field(default_factory=dict)
    silence: str = ""


def read_answers(lines: Sequence[str]) -> Answers:
    """Read what a report says of Ray, an object a cluster. Raises ValueError for what is none."""
    answers = Answers()
    for line in lines:
        try:
            _read_cluster(json.loads(line), answers)
        except (AttributeError, KeyError, TypeError) as problem:
            raise ValueError(f"no answer of Ray: {line[:200]}") from problem
    return answers


def _read_cluster(found: Mapping[str, Any], answers: Answers) -> None:
    silence, gone = found.get("silent", ""), found.get("gone", ())
    if "address" not in found:
        answers.silence = f"Ray cannot be asked: {silence}"
        return
    usage = {name: (float(used), float(total)) for name, (used, total) in found.get("usage", {}).items()}
    for number in found["asked"]:
        if silence:
            why = f"Ray at {found['address']} does not answer: {silence}"
            answers.jobs[number] = RayJob(number, silence=why, is_gone=number in gone)
        elif (said := found["jobs"].get(number)) is not None:
            answers.jobs[number] = _job(number, said, usage)
        else:
            answers.jobs[number] = RayJob(number)


def _job(number: str, said: Mapping[str, Any], usage: Mapping[str, tuple[float, float]]) -> RayJob:
    awaits = said["awaits"]
    match = _WANTED.fullmatch(said["reserves"] or awaits)
    wants = (match[1], int(match[2])) if match else None
    texts = (said["state"] or "", said["message"] or "", said["error"] or "")
    return RayJob(number, *texts, wants=wants, usage=usage, joins=bool(awaits))


def find_job(run_id: str, attempt: int, number: str, created: float, answers: Answers) -> RayJob:
    """Find the job of an attempt by the name that was noted; one that no line names was not asked about in time."""
    silence = answers.silence or "Ray was not asked in time"
    return answers.jobs.get(number) or RayJob(number, silence=silence)
