"""What follows from Slurm's words, where the run itself has recorded no end."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import LOCAL, RunState
from rlx.runs import RunRef
from rlx.runs.queries import QueryResult
from rlx.runs.status.conclusion import observe
from rlx.runs.status.host_report import derive_state, parse_report
from tests.runs.toys import Index, home

ID = "toy-main-s1-20261124-170230-9f51"
NOW = 2000
STARTED = f"file {ID}/attempts/1/state/started 0 1000\n"
BEATS = f"file {ID}/attempts/1/state/heartbeat 20 {NOW - 5}\n"
SILENT = "slurm silent slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
ASKED = f"file {ID}/stop 0 1000\n"
NO_DATABASE = "slurm silent sacct: error: Problem talking to the database: Connection refused\n"
FAILED_NODE = "NODE_FAIL|NodeDown|990|n2"
FAILED_NODES = "NODE_FAIL|NodeDown|990|n[09-11],m"
UP = "slurm node n09 idle\nslurm node n10 allocated\nslurm node m idle\n"


def report(said: str, files: str = "", more: str = "") -> str:
    run = f"run {ID} attempt=1 holder=none supervisor=unknown leader=unknown ahead=0 job=slurm,12 {more}\n"
    return f"{said}marked \n{run}file /proc/self/ 0 {NOW}\nfile {ID}/manifest.json 900 980\n{files}"


def squeue(words: str, comment: str = f"rlx:{ID}", number: int = 12) -> str:
    """As squeue of 22.05 answers: state, reason, start and nodes are `words`."""
    return f"slurm squeue {number}|{words}|981|{comment}\n"


def sacct(words: str, name: str = ID, submitted: int = 981) -> str:
    """As sacct of 22.05 answers."""
    return f"slurm sacct 12|{words}|{submitted}|{name}\n"


SECOND = "attempt=2"
DONE = squeue("COMPLETED|None|990|n1")


def seen(text: str) -> tuple[RunState, str]:
    facts = parse_report(text)
    ref = RunRef(ID, "launch", "toy", "main", 1, LOCAL, "/root", 980.0)
    found = observe(Index(home()), [ref], QueryResult((facts,), {}))[ID]
    assert found.state is derive_state(facts[ID])
    return found.state, found.detail


STATES = [
    (report(squeue("PENDING|Priority|N/A|")), RunState.QUEUED, "Priority"),
    (report(squeue("PENDING|ReqNodeNotAvail, May be reserved|1795539723|")), RunState.QUEUED, "ReqNodeNotAvail"),
    (report(squeue("CONFIGURING|None|990|n1")), RunState.STARTING, ""),
    (report(SILENT), RunState.UNREACHABLE, "slurm_load_jobs error"),
    (report(squeue("CANCELLED|None|N/A|")), RunState.STOPPED, "RLX594"),
    (report(squeue("FAILED|NonZeroExitCode|990|n1")), RunState.LOST, "FAILED"),
    (report(""), RunState.LOST, "job 12"),
    # Its number is another run's now: the controller had forgotten it.
    (report(squeue("RUNNING|None|990|n1", "rlx:another")), RunState.LOST, "job 12"),
    (report(squeue("RUNNING|None|990|n1"), STARTED), RunState.STARTING, ""),
    (report(squeue("TIMEOUT|TimeLimit|990|n1"), STARTED), RunState.LOST, "RLX590"),
    (report(squeue("PREEMPTED|None|990|n1"), STARTED), RunState.LOST, "RLX591"),
    (report(squeue("CANCELLED|None|990|n1"), STARTED), RunState.STOPPED, "RLX594"),
    # Put back into the queue by somebody: it will not start a second time.
    (report(squeue("PENDING|BeginTime|N/A|"), STARTED), RunState.LOST, "PENDING"),
    # What a node does that Slurm has given up nobody knows, until it is back.
    (report(squeue(FAILED_NODE), STARTED), RunState.UNREACHABLE, "RLX592"),
    (report(squeue(FAILED_NODE) + "slurm node n2 down*\n", STARTED), RunState.UNREACHABLE, "RLX592"),
    (report(squeue(FAILED_NODE) + "slurm node n2 idle\n", STARTED), RunState.LOST, "NODE_FAIL (NodeDown)"),
    (report(squeue(FAILED_NODES) + UP + "slurm node n11 down*\n", STARTED), RunState.UNREACHABLE, " n[09-11],m"),
    (report(squeue(FAILED_NODES) + UP, STARTED), RunState.UNREACHABLE, "RLX592"),
    (report(squeue(FAILED_NODES) + UP + "slurm node n11 mixed\n", STARTED), RunState.LOST, "NODE_FAIL"),
    (report(squeue(FAILED_NODE), STARTED + BEATS), RunState.STARTING, "NODE_FAIL"),
    (report(SILENT, STARTED), RunState.UNREACHABLE, "slurm_load_jobs error"),
    (report(SILENT, STARTED + BEATS), RunState.STARTING, "slurm_load_jobs error"),
    # Accounting outlives squeue's memory. It knows several jobs of one number, each by its name.
    (report(sacct("TIMEOUT|None|990|n1"), STARTED), RunState.LOST, "RLX590"),
    (report(sacct("CANCELLED by 0|None|990|n1"), STARTED), RunState.STOPPED, "RLX594"),
    (report(sacct("CANCELLED by 0|JobHeldUser|990|None assigned")), RunState.STOPPED, "RLX594"),
    (report(sacct("COMPLETED|None|990|n1", "another")), RunState.LOST, "job 12"),
    (report(sacct("NODE_FAIL|None|990|n1") + sacct("FAILED|None|995|n1"), STARTED), RunState.LOST, "FAILED"),
    (report(sacct(FAILED_NODE) + "slurm node n2 down*\n", STARTED), RunState.UNREACHABLE, "RLX592"),
    # It is told of an end later, and then a node that was given up may run on. It may not even know the name yet.
    (report(sacct("RUNNING|None|990|n1"), STARTED), RunState.UNREACHABLE, "RUNNING"),
    (report(sacct("PENDING|None|990|n1", "allocation")), RunState.UNREACHABLE, "PENDING"),
    (report(sacct("PENDING|None|9|n1", "allocation", 5)), RunState.LOST, "job 12"),
    (report(sacct("TIMEOUT|None|990|n1") + NO_DATABASE, STARTED), RunState.LOST, "RLX590"),
    (report(NO_DATABASE, STARTED), RunState.UNREACHABLE, "sacct: error: Problem"),
    (report(squeue("FAILED|None|990|n1") + NO_DATABASE, STARTED), RunState.LOST, "FAILED"),
    # The job of a further attempt has a name of its own, and that of the attempt before says nothing of it.
    (report(squeue("RUNNING|None|990|n1", f"rlx:{ID}@2") + DONE, STARTED, SECOND), RunState.STARTING, ""),
    (report(DONE + sacct("TIMEOUT|None|990|n1", f"{ID}@2"), STARTED, SECOND), RunState.LOST, "RLX590"),
    (report(squeue("PENDING|Resources|N/A|", f"rlx:{ID}@2")), RunState.LOST, "job 12"),
    # The run's own record goes before whatever Slurm says.
    (
        report(squeue("COMPLETED|None|990|n1"), STARTED, "exit=143,leader,1999 cut=cancelled"),
        RunState.FAILED,
        "RLX594",
    ),
    (report("", STARTED, "exit=0,leader,1999 cut=limit"), RunState.FINISHED, ""),
    (report("", STARTED, "exit=143,leader,1999 cut=limit"), RunState.FAILED, "RLX590"),
]


@pytest.mark.parametrize(("text", "state", "words"), STATES)
def test_a_state_follows_from_record_heartbeat_and_slurm(text: str, state: RunState, words: str) -> None:
    found, detail = seen(text)
    assert (found, words in detail) == (state, True), detail
    assert words or not detail


def test_what_is_said_of_the_states(wording: SnapshotAssertion) -> None:
    said = [f"{state}: {detail}" for state, detail in (seen(text) for text, _, _ in STATES) if detail]
    assert [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "<time>", line) for line in said] == wording


def test_who_was_stopped_by_rlx_was_cancelled_by_nobody_else(wording: SnapshotAssertion) -> None:
    """As after an `rlx stop` that was cut off before it had recorded that."""
    asked = report(squeue("CANCELLED|None|990|n1"), STARTED + ASKED)
    assert seen(asked) == (RunState.STOPPED, wording)
