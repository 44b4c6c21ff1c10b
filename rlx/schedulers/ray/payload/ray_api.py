"""Talk to the dashboard of a Ray cluster by HTTP, for supervise.sh. It travels inside that, and needs no package."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

SECONDS = float(os.environ.get("RAY_API_S") or 10)
ALL_SECONDS = int(3 * SECONDS)
MOST_BYTES = 50_000_000
MOST_ASKED_ONE_BY_ONE = 20
MOST_WORDS = 300
TAKEN_S = 600
POLL_S = 1
GOES_ON = ("PENDING", "RUNNING")
NOT_FOUND, REFUSED = 404, (401, 403)
FAILED = 75
NO_DASHBOARD = "what answers there is no dashboard of Ray"
# It must reach the cluster itself, whatever this host sends its downloads through.
OPENER = build_opener(ProxyHandler({}))


class Problem(Exception):
    """Say why Ray does not do what it is asked; `code` is that of HTTP, 0 where nothing was answered."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.text, self.code = text, code


def token() -> str:
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    own = os.environ.get("RAY_AUTH_TOKEN") or (file.read_text(encoding="utf-8") if file.is_file() else "")
    return own.strip()


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> Any:
    head = {"Content-Type": "application/json"}
    if token():
        head["Authorization"] = f"Bearer {token()}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with OPENER.open(Request(address + path, data, head), timeout=SECONDS) as answer:
            return json.loads(answer.read(MOST_BYTES))
    except HTTPError as error:
        if error.code in REFUSED:
            fix = "put that of the cluster into ~/.ray/auth_token of this host (mode 600)"
            raise Problem(f"it asks for a token: {fix}", error.code) from None
        said = error.read(MOST_BYTES).decode(errors="replace").strip(" .\n").splitlines()
        raise Problem(said[-1][:MOST_WORDS] if said else str(error), error.code) from None
    except ValueError:
        raise Problem(NO_DASHBOARD) from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise Problem(getattr(reason, "strerror", None) or str(reason) or type(error).__name__) from None


def job_of(address: str, job: str, run: str) -> dict[str, Any] | None:
    """Return what the cluster knows of the job of this run; None for none, or for another's of that name."""
    try:
        found: dict[str, Any] = ask(address, f"/api/jobs/{quote(job, safe='')}")
    except Problem as problem:
        if problem.code == NOT_FOUND:
            return None
        raise
    return found if is_of(found, run) else None


def is_of(found: dict[str, Any], run: str) -> bool:
    named: str = (found.get("metadata") or {}).get("rlx_run") or ""
    return bool(named) and Path(named).resolve() == Path(run).resolve()


def usage(address: str) -> dict[str, Any]:
    """Return, by resource, how much is used and how much there is; empty until the cluster knows itself."""
    found = ask(address, "/api/cluster_status").get("data", {}).get("clusterStatus") or {}
    return (found.get("loadMetricsReport") or {}).get("usage") or {}


def nodes(address: str) -> list[dict[str, Any]]:
    found = ask(address, "/api/v0/nodes?detail=1").get("data", {}).get("result", {}).get("result", [])
    return [node for node in found if node["state"] == "ALIVE"]


# ---- submit


def submit(address: str, job: str, run: str, kind: str, wanted: str, *lines: str) -> None:
    request = dict(line.split("=", 1) for line in lines)
    check(address)
    metadata = {"rlx_run": run, "rlx_id": Path(run).name, "rlx_user": pwd.getpwuid(os.getuid()).pw_name}
    words = ["sh", f"{run}/supervise.sh", "job", run, kind, wanted]
    body: dict[str, Any] = {"submission_id": job, "metadata": metadata}
    body["entrypoint"] = f"RLX_RAY_JOB_NAME={shlex.quote(job)} exec {' '.join(map(shlex.quote, words))}"
    metadata.update({f"rlx_{key}": request[key] for key in ("reserves", "awaits") if key in request})
    if "reserves" in request:
        resource, _, count = request["reserves"].partition(" ")
        gpus = {"entrypoint_num_gpus": int(count)}
        body.update(gpus if resource == "GPU" else {"entrypoint_resources": {resource: int(count)}})
    try:
        ask(address, "/api/jobs/", body)
    except Problem as problem:
        # It may have it nevertheless: from this call, or from one that was cut off.
        if job_of(address, job, run) is None:
            taken = "already exists" in problem.text
            raise Problem(f"it has another job {job}" if taken else problem.text) from None
    print(job)


def check(address: str) -> None:
    """Refuse what is no Ray, and a cluster of another user of this machine, whose processes could read no run."""
    try:
        version = ask(address, "/api/version")
    except Problem as problem:
        raise Problem(NO_DASHBOARD if problem.code == NOT_FOUND else problem.text) from None
    if not (isinstance(version, dict) and version.get("ray_version")):
        raise Problem(NO_DASHBOARD)
    url = urlsplit(address)
    tables = [Path(name) for name in ("/proc/net/tcp", "/proc/net/tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text("ascii").splitlines()]
    listens = f":{url.port or 80:04X}"
    owners = {int(row[7]) for row in rows if row[1].endswith(listens) and row[3] == "0A"}
    is_here = url.hostname in ("127.0.0.1", "localhost", "::1", socket.gethostname())
    if is_here and owners and os.getuid() not in owners:
        raise Problem(f"RLX583 it runs as user {min(owners)} of this machine, whose processes cannot read your runs")


# ---- the job


def is_free(address: str, resource: str, count: str) -> bool:
    used, total = usage(address).get(resource) or (0, 0)
    return total - used >= int(count)


def await_turn(address: str, run: str, job_pid: str, lock: str, resource: str, count: str) -> int:
    """Wait until so much is free; 1 if the run is stopped, or its job ends, before.

    A process in the background keeps the lock until the run has taken it, so that the next one does not count on it.
    """
    has_lock = False
    try:
        file = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        # The folder is everybody's. Without the lock, two runs may count on the same devices.
        print(f"rlx: {lock} cannot be locked: {error.strerror}", flush=True)
        file, has_lock = -1, True
    while lives(job_pid) and not Path(run, "stop").exists():
        try:
            if not has_lock:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                has_lock = True
            if is_free(address, resource, count):
                if os.fork() == 0:
                    await_taken(address, job_pid, resource, count)
                return 0
        except (OSError, Problem):
            pass
        time.sleep(POLL_S)
    return 1


def await_taken(address: str, job_pid: str, resource: str, count: str) -> None:
    begun, most = time.monotonic(), 0.0
    while lives(job_pid) and time.monotonic() - begun < TAKEN_S:
        try:
            used, total = usage(address).get(resource) or (0, 0)
            most = max(most, total - used)
            if most - (total - used) >= int(count):
                return
        except Problem:
            pass
        time.sleep(POLL_S)


def lives(pid: str) -> bool:
    return Path("/proc", pid).exists()


# ---- facts


def facts(found: dict[str, Any]) -> dict[str, Any]:
    metadata = found.get("metadata") or {}
    return {
        "state": found.get("status"),
        "message": re.sub(r"\s+", " ", found.get("message") or "").strip()[:MOST_WORDS],
        "error": found.get("error_type"),
        "reserves": metadata.get("rlx_reserves", ""),
        "awaits": metadata.get("rlx_awaits", ""),
    }


def report(lines: Iterable[str]) -> None:
    """Print a line for each address. `lines`: address, job, run, and where its Ray was when it began."""
    asked: dict[str, list[list[str]]] = {}
    for line in lines:
        address, *words = line.rstrip("\n").split("\t")
        asked.setdefault(address, []).append(words)
    for address, own in asked.items():
        told: dict[str, Any] = {"address": address, "asked": [job for job, _, _ in own]}
        try:
            told["jobs"] = look(address, own)
            told["usage"] = usage(address)
        except Problem as problem:
            gone = {ray for ray in {ray for _, _, ray in own} if ray and is_gone(ray)}
            told.update(silent=problem.text, gone=[job for job, _, ray in own if ray in gone])
        print(f"ray {json.dumps(told)}", flush=True)


def look(address: str, own: Sequence[Sequence[str]]) -> dict[str, Any]:
    if len(own) <= MOST_ASKED_ONE_BY_ONE:
        each = ((job, job_of(address, job, run)) for job, run, _ in own)
    else:
        known = {found.get("submission_id"): found for found in ask(address, "/api/jobs/")}
        each = ((job, known[job] if job in known and is_of(known[job], run) else None) for job, run, _ in own)
    return {job: facts(found) for job, found in each if found}


def is_gone(ray: str) -> bool:
    """Tell whether that Ray has ended: its machine answers, and nothing listens there any more."""
    host, _, port = ray.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 2).close()
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):
        pass
    return False


def jobs(address: str) -> None:
    """Print what is used, and a line for each job, and each program outside of jobs, that has not ended."""
    names = {node["node_id"]: node["node_ip"] for node in nodes(address)}
    print(json.dumps({"usage": usage(address)}))
    for found in ask(address, "/api/jobs/"):
        if found.get("status") in GOES_ON:
            line = {key: found.get(key) for key in ("submission_id", "job_id", "status", "metadata", "start_time")}
            line.update(entrypoint=(found.get("entrypoint") or "")[:MOST_WORDS])
            print(json.dumps({**line, "node": names.get(found.get("driver_node_id"), "")}))


def cluster(address: str) -> None:
    """Print, as one object, what a launch must know of the cluster."""
    check(address)
    known = ask(address, "/api/v0/cluster_metadata").get("data", {})
    line = {"ray": known.get("rayVersion"), "python": known.get("pythonVersion"), "usage": usage(address)}
    print(json.dumps({**line, "nodes": [node["node_ip"] for node in nodes(address)]}))


def find(address: str, job: str, run: str) -> None:
    print(job if job_of(address, job, run) else "")


def state(address: str, job: str, run: str) -> None:
    print((job_of(address, job, run) or {}).get("status", ""))


def stop(address: str, job: str, run: str) -> None:
    if job_of(address, job, run):
        ask(address, f"/api/jobs/{quote(job, safe='')}/stop", {})


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    if verb == "await":
        sys.exit(await_turn(*arguments))
    # An answer may come in drops.
    signal.alarm(ALL_SECONDS)
    verbs: dict[str, Callable[..., None]] = {
        "submit": submit,
        "find": find,
        "state": state,
        "stop": stop,
        "jobs": jobs,
        "look": cluster,
    }
    try:
        if verb == "report":
            report(sys.stdin)
        else:
            verbs[verb](*arguments)
    except Problem as refusal:
        is_named = refusal.text.startswith("RLX")
        print(refusal.text if is_named else f"Ray at {arguments[0]}: {refusal.text}", file=sys.stderr)
        sys.exit(FAILED)
