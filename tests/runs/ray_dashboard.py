"""A stand-in for the dashboard of a Ray cluster: the part of its REST API that is about jobs, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from rlx.model import LaunchPlan, PlannedFile
from rlx.resources import payload_folder
from tests.runs.toys import toy_plan

SUBMIT = """
import json, os, sys, time, urllib.request
address, name, waits, own, command = sys.argv[1], sys.argv[2], sys.argv[3] == "wait", sys.argv[4] == "own", sys.argv[5]
record = {"submission_id": name, "address": address, "at": int(time.time()), "ray": "/nowhere/ray", "own": own}
if "unrecorded" not in sys.argv:
    with open(os.environ["RLX_ATTEMPT_DIR"] + "/ray_jobs.jsonl", "a") as file:
        file.write(json.dumps({**record, "wait": waits}) + "\\n")
body = json.dumps({"entrypoint": command, "submission_id": name}).encode()
print("\\x1b[37mJob submission server address\\x1b[39m: \\x1b[1m" + address + "\\x1b[22m", flush=True)
urllib.request.urlopen(urllib.request.Request(address + "/api/jobs/", body, {"X-Test": "1"})).read()
print(f"\\x1b[32mJob '{name}' submitted successfully\\x1b[39m", flush=True)
shown = 0
while waits:
    facts = json.load(urllib.request.urlopen(f"{address}/api/jobs/{name}"))
    log = json.load(urllib.request.urlopen(f"{address}/api/jobs/{name}/logs"))["logs"]
    print(log[shown:], end="", flush=True)
    shown = len(log)
    if facts["status"] in ("SUCCEEDED", "FAILED", "STOPPED"):
        sys.exit(facts["status"] != "SUCCEEDED")
    time.sleep(0.1)
"""


class Dashboard:
    """The server, and what was submitted to it. `serve` and `silence` make it answer and not, at the same port."""

    def __init__(self, folder: Path, token: str = "") -> None:
        self.folder, self.token = folder, token
        self.jobs: dict[str, Job] = {}
        self.pending: set[str] = set()
        self.asked: list[str] = []
        self.port = 0
        self.serve()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        handler = type("Handler", (_Handler,), {"dashboard": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def silence(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def restart(self) -> None:
        """As a cluster that was started again: it knows nothing of before."""
        self.end_all()
        self.jobs.clear()

    def end_all(self) -> None:
        for job in self.jobs.values():
            job.stop()

    def submit(self, name: str, command: str) -> None:
        log = self.folder / f"job-driver-{name}.log"
        config = json.dumps({"metadata": {"job_submission_id": name}})
        # A cluster was there before the run, and its processes have no mark of it.
        environment = {**os.environ, "RAY_JOB_CONFIG_JSON_ENV_VAR": config}
        self.jobs[name] = Job(command, log, environment, is_pending=name in self.pending)


class Job:
    """A job, whose entrypoint is a process of its own group."""

    def __init__(self, command: str, log: Path, environment: Mapping[str, str], *, is_pending: bool) -> None:
        self.log, self.is_stopped, self.process = log, False, None
        log.touch()
        if not is_pending:
            with log.open("wb") as out:
                self.process = subprocess.Popen(
                    ["bash", "-c", command], stdout=out, stderr=out, env=environment, start_new_session=True
                )

    def finish(self) -> None:
        """End by a signal that is not from Ray."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        self.is_stopped = self.status in {"RUNNING", "PENDING"}
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def status(self) -> str:
        if self.is_stopped:
            return "STOPPED"
        if self.process is None:
            return "PENDING"
        code = self.process.poll()
        return "RUNNING" if code is None else "FAILED" if code else "SUCCEEDED"

    def facts(self) -> dict[str, object]:
        code = self.process.poll() if self.process else None
        message = (
            f"Job entrypoint command failed with exit code {code}, last available logs (truncated)" if code else ""
        )
        return {"status": self.status, "driver_exit_code": code, "message": message}


class _Handler(BaseHTTPRequestHandler):
    dashboard: Dashboard

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._about_job()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/jobs/" and self._is_allowed():
            asked = cast("dict[str, str]", json.loads(body))
            self.dashboard.submit(asked["submission_id"], asked["entrypoint"])
            self._answer(200, {"submission_id": asked["submission_id"]})
        else:
            self._about_job()

    def _about_job(self) -> None:
        if not self._is_allowed():
            return
        _, _, _, name, *what = self.path.split("/")
        self.dashboard.asked.append(f"{self.command} {self.path}")
        job = self.dashboard.jobs.get(name)
        if not name:
            rows = [{"type": "SUBMISSION", "submission_id": each} for each in self.dashboard.jobs]
            self._answer(200, [*rows, {"type": "DRIVER", "submission_id": None}])
        elif job is None:
            self._send(404, f"Job {name} does not exist".encode())
        elif what == ["stop"]:
            job.stop()
            self._answer(200, {"stopped": True})
        elif what == ["logs"]:
            self._answer(200, {"logs": job.log.read_text(encoding="utf-8")})
        else:
            self._answer(200, job.facts())

    def _is_allowed(self) -> bool:
        wanted = self.dashboard.token
        if wanted and self.headers.get("X-Test") is None and self.headers.get("Authorization") != f"Bearer {wanted}":
            self._send(401, b"Unauthorized: Missing authentication token")
            return False
        return True

    def _answer(self, code: int, value: object) -> None:
        self._send(code, json.dumps(value).encode())

    def _send(self, code: int, text: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def dashboard(folder: Path, token: str = "") -> Iterator[Dashboard]:
    """Serve until the end of the test; no job outlives it."""
    server = Dashboard(folder, token)
    try:
        yield server
    finally:
        server.end_all()
        with suppress(OSError):
            server.silence()


def job_plan(script: str, *, secrets: tuple[str, ...] = ()) -> LaunchPlan:
    """A run of these lines, with `submit ADDRESS ID wait|no-wait own|other COMMAND` in place of `ray job submit`."""
    head = '[ "${1-}" != printed ] || exit 0\nsubmit() { python3 "$RLX_RUN_DIR/submit.py" "$@"; }\n'
    program = (payload_folder() / "ray_jobs.py").read_text(encoding="utf-8")
    plan = toy_plan(head + script, secrets=secrets)
    others = (PlannedFile("submit.py", SUBMIT), PlannedFile("payload/ray_jobs.py", program))
    return replace(plan, files=(*plan.files, *others))
