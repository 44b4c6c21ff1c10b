"""Read the facts of a run that is a job of Slurm, and conclude from them where the run has recorded no end itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlx.model import RunState
from rlx.runs.duration import moment

LIMIT_ID, PREEMPTED_ID, NODE_ID = "RLX590", "RLX591", "RLX592"
DEVICES_ID, CANCELLED_ID, CONTAINER_ID = "RLX593", "RLX594", "RLX589"
_COMMENT = "rlx:"
# How accounting names a job of which it only knows that it began.
_UNNAMED = "allocation"
_NODE = re.compile(r"-node[0-9]+$")
_NAMES = re.compile(r"([^,\[\]]+)(?:\[([^\]]*)\])?")
_SUBMIT_GRACE_S = 300.0
_NODE_FAIL = "NODE_FAIL"
_CANCELLED = "CANCELLED"
_WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_RUNS = frozenset(
    {"CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """`state` and `reason` are Slurm's words; an empty state: it knows no such job. `start` is in seconds since 1970.

    `silence` says why it is not known what became of it; empty if Slurm does. `is_back`: the nodes of a job that was
    given up for them are up again, and Slurm has ended what still ran there.
    """

    number: str
    state: str = ""
    reason: str = ""
    start: float | None = None
    nodes: str = ""
    silence: str = ""
    is_back: bool = False

    @property
    def waits(self) -> bool:
        return self.state in _WAITS

    @property
    def runs(self) -> bool:
        return self.state in _RUNS

    def state_before_start(self, *, just_sent: bool) -> RunState:
        """Conclude about a run whose script has not begun."""
        if self.waits:
            return RunState.QUEUED
        if self.runs or (just_sent and not self.state):
            return RunState.STARTING
        if self.silence:
            return RunState.UNREACHABLE
        return RunState.STOPPED if self.state == _CANCELLED else RunState.LOST

    def state_without_record(self, *, lives: bool) -> RunState | None:
        """Conclude about a run that began and has recorded no end; None: it runs.

        `lives`: its supervisor has written a moment ago, whatever Slurm says. Slurm gives up a node that does not
        answer, and what runs there runs on: that may not be called lost, because then it would be started a second
        time.
        """
        if self.runs or lives:
            return None
        if self.silence or (self.state == _NODE_FAIL and not self.is_back):
            return RunState.UNREACHABLE
        return RunState.STOPPED if self.state == _CANCELLED else RunState.LOST

    def detail(self, state: RunState, *, started: bool, stop_asked: bool) -> str:
        """Say what a person must know of the job of a run that has recorded no end; empty if the state says it all.

        `stop_asked`: by `rlx stop`, which may have been cut off before it had recorded an end.
        """
        known = f"Slurm job {self.number}"
        if self.silence:
            return self.silence
        if state is RunState.QUEUED:
            expected = f", expected start {moment(self.start)}" if self.start else ""
            return f"{known} waits: {self.reason or 'no reason given'}{expected}"
        if state in (RunState.STARTING, RunState.RUNNING, RunState.STALLED):
            return "" if self.runs or not self.state else f"{known} is {self.state} for Slurm, and the run still writes"
        if self.state == _NODE_FAIL and not self.is_back:
            return (
                f"{NODE_ID} Slurm gave up {self.nodes or 'the node'} of job {self.number}: what runs there may run on"
            )
        end = f"{known} was cancelled" if stop_asked and self.state == _CANCELLED else _detail_of_end(known, self)
        return end if started else f"never started: {end}"

    def cut_words(self, cut: str) -> str:
        """Say why Slurm ended the run, by what its supervisor noted then."""
        return _CUTS.get(cut, "")


@dataclass(frozen=True, slots=True)
class AccountingLine:
    """What Slurm says of one job: a line of squeue, or of sacct."""

    job: SlurmJob
    submitted: float | None
    comment: str


def parse_line(text: str, *, of_sacct: bool) -> AccountingLine:
    """Parse `number|state|reason|start|nodes|submitted|comment`; sacct ends it with the job's name.

    Of sacct, `CANCELLED by 0` is a state. Raises ValueError for anything else.
    """
    number, state, reason, start, nodes, submitted, comment = text.split("|", 6)
    words = state.split()
    job = SlurmJob(number, words[0] if words else "", reason, epoch(start), nodes)
    if of_sacct:
        comment = "" if comment == _UNNAMED else f"{_COMMENT}{comment}"
        job = _accounted(job)
    return AccountingLine(job, epoch(submitted), comment)


def _accounted(job: SlurmJob) -> SlurmJob:
    """Conclude from what accounting says of a job that the controller has forgotten.

    Accounting learns of an end later, and never of one that a controller lost. What it calls running may be over, and
    may run on.
    """
    if not (job.waits or job.runs):
        return job
    said = f"Slurm has forgotten job {job.number}, and its accounting calls it {job.state}: it knows no end of it"
    return SlurmJob(job.number, silence=said)


def epoch(text: str) -> float | None:
    """Return a time as Slurm's programs write it; None for `N/A`, and for the end of a job without a limit."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


@dataclass(slots=True)
class Answers:
    """All that one report has of Slurm: lines of jobs, the states of nodes by name, and why it did not answer."""

    lines: list[AccountingLine] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    silence: str = ""


def read_answers(lines: Sequence[str]) -> Answers:
    """Read what a report says of Slurm: `squeue …`, `sacct …`, `node NAME STATE`, `silent WHY`."""
    answers = Answers()
    for line in lines:
        kind, _, text = line.partition(" ")
        if kind in ("squeue", "sacct"):
            answers.lines.append(parse_line(text, of_sacct=kind == "sacct"))
        elif kind == "node":
            name, state = text.split()[:2]
            answers.nodes[name] = state
        elif kind == "silent":
            answers.silence = text or "no reason given"
    return answers


def find_job(run_id: str, attempt: int, number: str, created: float, answers: Answers) -> SlurmJob:
    """Find the job of an attempt of a run among these: by its comment, since Slurm may give a number again.

    Accounting may not know its name yet: then it is the job of that number that was submitted when the attempt was
    `created`, in seconds since 1970. All nodes of a run are of one job, which names the head.
    """
    comment = _COMMENT + _NODE.sub("", run_id) + (f"@{attempt}" if attempt > 1 else "")
    named = [line for line in answers.lines if line.comment == comment]
    numbered = [line for line in answers.lines if not line.comment and _is_of(line, number, created)]
    if not (found := [*numbered, *named]):
        return SlurmJob(number, silence=answers.silence and f"Slurm does not answer: {answers.silence}")
    job = found[-1].job
    return replace(job, is_back=all(_is_up(answers.nodes.get(name, "")) for name in _names(job.nodes)))


def _names(nodes: str) -> Iterator[str]:
    """Spell out `n[2-3,07],login`. What is written otherwise becomes names that no node has."""
    for prefix, numbers in _NAMES.findall(nodes) or [("", "")]:
        for item in numbers.split(","):
            yield from _numbered(prefix, item)


def _numbered(prefix: str, item: str) -> Iterator[str]:
    """With all numbers of `2-3`, as wide as they are written."""
    first, _, last = item.partition("-")
    last = last or first
    if not (first.isdecimal() and last.isdecimal()):
        yield prefix + item
        return
    for number in range(int(first), int(last) + 1):
        yield f"{prefix}{number:0{len(first)}d}"


def _is_up(state: str) -> bool:
    """Return whether a node answers."""
    return bool(state) and not state.endswith("*") and not state.startswith(("down", "unk", "power", "boot", "fail"))


def _is_of(line: AccountingLine, number: str, created: float) -> bool:
    return line.job.number == number and line.submitted is not None and abs(line.submitted - created) < _SUBMIT_GRACE_S


def _detail_of_end(known: str, job: SlurmJob) -> str:
    if job.state == _CANCELLED:
        return f"{CANCELLED_ID} {known} was cancelled, not by rlx stop"
    if not job.state:
        return f"Slurm does not know job {job.number} any more, and no end was recorded"
    finding = _ENDS.get(job.state, "")
    why = f" ({job.reason})" if job.reason not in ("", "None") else ""
    return f"{finding}{known} ended as {job.state}{why}, and the run recorded nothing"


_ENDS: Mapping[str, str] = {"TIMEOUT": f"{LIMIT_ID} ", "DEADLINE": f"{LIMIT_ID} ", "PREEMPTED": f"{PREEMPTED_ID} "}

_CUTS: Mapping[str, str] = {
    "limit": f"{LIMIT_ID} ended at the time limit of its Slurm job",
    "preempted": f"{PREEMPTED_ID} preempted by Slurm",
    "cancelled": f"{CANCELLED_ID} its Slurm job was cancelled, not by rlx stop",
    "devices": f"{DEVICES_ID} its Slurm job has not the devices that it needs; its log says more",
    "container": f"{CONTAINER_ID} its Slurm job could make no container; its log says more",
    "signal": "its Slurm job got SIGTERM",
    "down": f"{NODE_ID} Slurm gave up a node of its job",
    "node": "another node of its Slurm job ended; its log says which, and how",
    "head": "the head of the run had ended",
}
"""By what the supervisor noted when Slurm asked the run to end."""
