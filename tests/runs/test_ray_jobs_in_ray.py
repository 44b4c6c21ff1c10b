"""The same with a real Ray of one node, whose dashboard and `ray job submit` are Ray's own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from rlx.model import RunState
from rlx.runs import RunRef, stop
from tests.conftest import REPOSITORY
from tests.runs.ray_dashboard import job_plan
from tests.runs.toys import ended, holder_pid, log_of, pid_in, see, start, state_file, until

RAY = REPOSITORY / ".venv-engines/bin/ray"
pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.skipif(not RAY.exists(), reason="needs an environment with ray[default]: make engines"),
]
PORTS = (
    "port",
    "dashboard-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",
    "node-manager-port",
    "object-manager-port",
)
PATIENCE_S = 600
RECORD = '{{"submission_id": "{name}", "address": "{address}", "at": 1, "ray": "{ray}", "own": false, "wait": {waits}}}'


@dataclass
class Head:
    address: str
    process: subprocess.Popen[bytes]

    def submit(self, name: str, command: str, *, waits: bool) -> str:
        """Return the lines of a script that submits the command, with the record that the wrapper `ray` writes."""
        record = RECORD.format(name=name, address=self.address, ray=RAY, waits=str(waits).lower())
        words = f"{RAY} job submit --address {self.address} --submission-id {name} {'' if waits else '--no-wait'}"
        return f"echo '{record}' >>$RLX_ATTEMPT_DIR/ray_jobs.jsonl\n{words} -- bash -c '{command}'\n"


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    # Short, because Ray puts sockets into it.
    folder = tempfile.mkdtemp(prefix="rlx-ray-", dir="/tmp")
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in PORTS]
    ports = {name: each.getsockname()[1] for name, each in zip(PORTS, sockets, strict=True)}
    for each in sockets:
        each.close()
    words = [f"--{name}={port}" for name, port in ports.items()]
    words += ["--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1", f"--temp-dir={folder}", "--num-cpus=2"]
    words += ["--object-store-memory=80000000", "--ray-client-server-port=0"]
    waits = {"RAY_DASHBOARD_STARTUP_TIMEOUT_S": "500", "RAY_raylet_start_wait_time_s": "300"}
    process = subprocess.Popen(
        [str(RAY), "start", "--head", "--block", *words],
        env={**os.environ, **waits, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled"},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{ports['dashboard-port']}"
    try:
        until(lambda: process.poll() is not None or answers(address), "its dashboard answers", PATIENCE_S)
        yield Head(address, process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def answers(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/api/version", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


def launched(script: str) -> RunRef:
    (ref,) = start(job_plan(script))
    return ref


def patiently(ref: RunRef, text: str) -> None:
    until(lambda: text in log_of(ref), f"{ref.run_id} prints {text}", PATIENCE_S)


def test_jobs_that_wait_or_not_and_fail_or_not(head: Head) -> None:
    script = head.submit("first", "echo one; exit 3", waits=True) + head.submit("second", "echo two", waits=True)
    script += head.submit("third", "echo three; sleep 5; echo four; exit 5", waits=False)
    ref = launched(script)
    until(lambda: see(ref).state.is_terminal, "it ends", PATIENCE_S)
    seen = see(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 5)
    lines = log_of(ref).splitlines()
    # Of a job that failed, Ray repeats the last lines itself.
    assert [lines.count(word) for word in ("one", "two", "three", "four")] == [2, 1, 1, 1]
    for name, end in (("first", "FAILED"), ("second", "SUCCEEDED"), ("third", "FAILED")):
        assert any(f"Ray job {name} at {head.address} has ended: {end}" in line for line in lines)


@pytest.mark.parametrize("waits", [True, False])
def test_stop_ends_the_job_in_ray(head: Head, waits: bool) -> None:
    name = f"stopped-{waits}"
    ref = launched(head.submit(name, "echo began; while :; do sleep 1; done", waits=waits))
    patiently(ref, "began")
    result = stop(ref, grace_s=10)
    assert (result.ray_jobs, result.ray_left, result.left) == ((f"{name} at {head.address}",), (), ())
    assert see(ref).state is RunState.STOPPED
    assert '"status": "STOPPED"' in asked(head, name)


def test_a_killed_run_finds_its_job_again(head: Head) -> None:
    ref = launched(head.submit("killed", "echo began; while :; do sleep 1; done", waits=False))
    patiently(ref, "began")
    until(lambda: state_file(ref, "script").exists(), "its script has ended", PATIENCE_S)
    for pid in (pid_in(ref, "supervisor"), pid_in(ref, "leader")):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not see(ref).supervisor_live and see(ref).state is RunState.RUNNING, "the holder follows it")
    os.kill(holder_pid(ref), signal.SIGKILL)
    until(lambda: not see(ref).holder_live, "the holder is gone")
    assert see(ref).state is RunState.RUNNING
    assert stop(ref, grace_s=1).ray_jobs == (f"killed at {head.address}",)
    assert ended(ref).state is RunState.STOPPED
    assert '"status": "STOPPED"' in asked(head, "killed")


def asked(head: Head, name: str) -> str:
    with urllib.request.urlopen(f"{head.address}/api/jobs/{name}", timeout=60) as answer:
        return str(answer.read().decode())
