"""What follows from the words of a Ray cluster about a job, where the run itself has recorded no end."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import LOCAL, RunState
from rlx.runs import RunRef
from rlx.runs.queries import QueryResult
from rlx.runs.status.conclusion import observe
from rlx.runs.status.host_report import derive_state, parse_report
from tests.runs.toys import Index, home

ID = "toy-main-s1-20261129-103512-3da0"
URL = "http://127.0.0.1:8265"
NOW = 2000
STARTED = f"file {ID}/attempts/1/state/started 0 1000\n"
BEATS = f"file {ID}/attempts/1/state/heartbeat 20 {NOW - 5}\n"
ASKED = f"file {ID}/stop 0 1000\n"
REFUSED = {"silent": "Connection refused", "gone": []}
TOO_LONG = {"error": "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "message": "Job supervisor actor failed to start"}
UNREADABLE = {
    "error": "JOB_ENTRYPOINT_COMMAND_ERROR",
    "message": "Job entrypoint command failed with exit code 2, last",
}


def report(line: str, files: str = "", more: str = "", created: int = 980, marked: str = "") -> str:
    run = f"run {ID} attempt=1 holder=none supervisor=none leader=none ahead=0 job=ray,{ID} {more}\n"
    return f"{line}marked {marked}\n{run}file /proc/self/ 0 {NOW}\nfile {ID}/manifest.json 900 {created}\n{files}"


def said(**answer: Any) -> str:
    return f"ray {json.dumps({'address': URL, 'asked': [ID], **answer})}\n"


def job(state: str, used: float = 2, total: float = 4, **facts: Any) -> str:
    """As ray_api.py reports it."""
    one = {"state": state, "message": "", "error": None, "reserves": "GPU 3", "awaits": "", **facts}
    return said(jobs={ID: one}, usage={"GPU": [used, total], "CPU": [0, 8]})


JOINS = {"reserves": "", "awaits": "GPU 3"}
NOTHING = {"reserves": "", "awaits": ""}
STATES = [
    (report(job("PENDING")), RunState.QUEUED, "3 GPU: 2 of 4"),
    (report(job("PENDING", total=2)), RunState.QUEUED, "the cluster has 2"),
    (report(job("PENDING", **NOTHING)), RunState.QUEUED, ID),
    (report(job("RUNNING")), RunState.STARTING, ""),
    # Its trainer will ask for the devices, so that its job runs while they are not free.
    (report(job("RUNNING", **JOINS)), RunState.QUEUED, "3 GPU: 2 of 4"),
    (report(job("RUNNING", **JOINS), STARTED), RunState.STARTING, ""),
    (report(said(**REFUSED)), RunState.UNREACHABLE, "Connection refused"),
    (report(said(**REFUSED), created=NOW - 2), RunState.STARTING, "Connection refused"),
    (report(said(jobs={}, usage={})), RunState.LOST, "does not know"),
    (report(job("STOPPED")), RunState.STOPPED, "RLX585"),
    (report(job("FAILED", **TOO_LONG)), RunState.LOST, "RLX588"),
    (report(job("FAILED", **UNREADABLE)), RunState.LOST, "ended with 2"),
    (report(job("RUNNING"), STARTED), RunState.STARTING, ""),
    (report(job("STOPPED"), STARTED), RunState.STOPPED, "RLX585"),
    (report(job("FAILED"), STARTED), RunState.LOST, "FAILED"),
    (report(job("FAILED"), STARTED + BEATS), RunState.STARTING, "still writes"),
    (report(said(jobs={}, usage={}), STARTED), RunState.LOST, "started anew"),
    # A dashboard that is down says nothing of the run. That the Ray itself is gone, its port says.
    (report(said(**REFUSED), STARTED), RunState.UNREACHABLE, "Connection refused"),
    (report(said(**REFUSED), STARTED + BEATS), RunState.STARTING, ""),
    (report(said(**REFUSED), STARTED, marked=f"RLX_RUN={ID}\0"), RunState.STARTING, ""),
    (report(said(silent="timed out", gone=[ID]), STARTED), RunState.LOST, "RLX586"),
    (report(said(silent="timed out", gone=[ID]), STARTED + BEATS), RunState.STARTING, ""),
    # No Python there, or no time for this cluster.
    (report('ray {"silent": "no Python"}\n', STARTED), RunState.UNREACHABLE, "no Python"),
    (report("", STARTED), RunState.UNREACHABLE, "not asked"),
    # The run's own record goes before whatever Ray says.
    (report(job("STOPPED"), STARTED, "exit=143,leader,1999 cut=cancelled"), RunState.FAILED, "RLX585"),
    (report(said(**REFUSED), STARTED, "exit=143,leader,1999 cut=gone"), RunState.FAILED, "RLX586"),
    (report("", STARTED, "exit=78,supervisor,1999 cut=devices"), RunState.FAILED, "RLX584"),
    (report("", STARTED, "exit=0,leader,1999 cut=gone"), RunState.FINISHED, ""),
]


def seen(text: str) -> tuple[RunState, str]:
    facts = parse_report(text)
    ref = RunRef(ID, "launch", "toy", "main", 1, LOCAL, "/root", 980.0)
    found = observe(Index(home()), [ref], QueryResult((facts,), {}))[ID]
    assert found.state is derive_state(facts[ID])
    return found.state, found.detail


@pytest.mark.parametrize(("text", "state", "words"), STATES)
def test_a_state_follows_from_record_heartbeat_and_ray(text: str, state: RunState, words: str) -> None:
    found, detail = seen(text)
    assert (found, words in detail) == (state, True), detail
    assert words or not detail


def test_what_is_said_of_the_states(wording: SnapshotAssertion) -> None:
    assert [f"{state}: {detail}" for state, detail in (seen(text) for text, _, _ in STATES) if detail] == wording


def test_who_was_stopped_by_rlx_was_stopped_by_nobody_else() -> None:
    assert seen(report(job("STOPPED"), STARTED + ASKED))[0] is RunState.STOPPED
    assert not re.search("RLX585", seen(report(job("STOPPED"), STARTED + ASKED))[1])


@pytest.mark.parametrize("line", ["ray nonsense\n", 'ray {"address": "x"}\n', 'ray {"address": "x", "asked": 3}\n'])
def test_what_is_no_answer_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"Ray|JSON|Expecting"):
        parse_report(report(line))
