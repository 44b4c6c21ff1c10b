"""Follows and stops the Ray jobs that a run's script submitted, by their clusters' REST API. Standard library only.

    python -I -S ray_jobs.py follow RUN ATTEMPT [no-log]   until script and jobs have ended; their logs go to stdout
    python -I -S ray_jobs.py stop RUN ATTEMPT SECONDS      stops the jobs, waits so long, and prints a line for each
    python -I -S ray_jobs.py look RUN…                     prints how the jobs of each run are now; writes nothing

ATTEMPT is the newest one of RUN. Its file `ray_jobs.jsonl` holds what was submitted, a JSON object a line. Its file
state/ray_jobs holds what is known of that: `open -` or `over <exit code>` with the job that stands for all, and then a
line for each job, see `Job`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

SUBMITTED, LOG, STOP = "ray_jobs.jsonl", "log", "stop"
STATE, SCRIPT, RAY_TMP = "state/ray_jobs", "state/script", "state/ray_tmp"
UNSEEN, GONE = "UNSEEN", "GONE"
"""Submitted, and not known to its cluster yet; known to it once, and not any more. The other states are Ray's."""
ENDED = {"SUCCEEDED", "FAILED", "STOPPED", GONE}
POLL_S, ANSWER_S, SILENCE_S, STOP_AGAIN_S = 2.0, 10.0, 30.0, 10.0
SUBMIT_S = 4.0
"""How long after the end of the script a cluster may take to know a job."""
LOG_S = 20.0
"""How long after the end of a job the rest of its log is asked for."""
LOG_SHARE = 20
"""A log that cannot be read from its file comes whole: it is asked for that many times as rarely as it takes."""
KILLED = 137
CHUNK, WINDOW, TAIL = 1 << 20, 50, 1 << 16
PRINTED = re.compile(rb"Job submission server address: (\S+)|Job '([^'\s]+)' submitted successfully")
COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
"""What `ray job submit` prints, and how, even into a file."""
PROBLEMS = (OSError, HTTPException, ValueError, LookupError, TypeError)
"""What a dashboard that does not answer, or something else in its place, raises."""


@dataclass
class Job:
    """A line of the state: the first fields in this order, separated by blanks, `-` for nothing.

    `silent` is since when its dashboard has not answered. `own`: the run started its cluster; `here`: its driver was
    found on this machine. `printed`: its submitter prints its log. `outlived`: it ran when the script had ended. `read`
    counts the bytes of its log that are in the run's; `told`: all of them, and its end.
    """

    status: str
    code: str
    silent: str
    id: str
    address: str
    own: bool = False
    here: bool = False
    printed: bool = False
    outlived: bool = False
    told: bool = False
    read: int = 0
    reason: str = ""
    message: str = ""
    looks: int = 5
    stop_due: float = 0.0
    log_due: float = 0.0
    log_until: float = 0.0
    silence_told: bool = False

    @classmethod
    def of(cls, line: str) -> Job:
        words = ["" if word == "-" else word for word in line.split()]
        status, code, silent, name, address = words[:5]
        own, here, printed, outlived, told = (word == "1" for word in words[5:10])
        return cls(status, code, silent, name, address, own, here, printed, outlived, told, int(words[10]))

    def __str__(self) -> str:
        flags = (self.own, self.here, self.printed, self.outlived, self.told)
        words = [self.status, self.code, self.silent, self.id, self.address, *(str(int(flag)) for flag in flags)]
        return " ".join(word or "-" for word in [*words, str(self.read)])

    @property
    def is_open(self) -> bool:
        return self.status not in ENDED

    def end(self, status: str, code: int) -> None:
        self.status, self.code, self.silent = status, str(code), ""
        self.log_until = time.monotonic() + LOG_S


def main(task: str, *arguments: str) -> None:
    if task == "look":
        for run in map(Path, arguments):
            numbers = [int(entry.name) for entry in run.glob("attempts/*") if entry.name.isdigit()]
            Attempt(run, run / "attempts" / str(max(numbers, default=1))).look()
    elif task == "follow":
        Attempt(Path(arguments[0]), Path(arguments[1])).follow(to_log="no-log" not in arguments)
    else:
        Attempt(Path(arguments[0]), Path(arguments[1])).stop(float(arguments[2]))


class Attempt:
    """The jobs of one attempt of a run."""

    def __init__(self, run: Path, attempt: Path) -> None:
        self.run, self.attempt = run, attempt
        self.jobs: list[Job] = []
        self.script: int | None = None
        self.script_end = 0.0
        self.to_log = False
        self.listed = False
        self.kept = ""

    @property
    def open_jobs(self) -> list[Job]:
        return [job for job in self.jobs if job.is_open]

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def follow(self, *, to_log: bool) -> None:
        self.to_log = to_log
        with self.lock() as lock:
            # One process follows; others wait for its end, and go on from there.
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.load()
            while not self.go_on():
                time.sleep(POLL_S)

    def go_on(self) -> bool:
        """Look at each job once. Return whether all is over; `rlx stop` may have said so meanwhile."""
        if read_text(self.attempt / STATE).startswith("over"):
            return True
        ran = self.script is None
        self.find_submitted()
        # `rlx stop` asks first, and says what came of it; this goes on where it could not.
        asked = age_of(self.run / STOP)
        stopping = asked > STOP_AGAIN_S
        for job in self.open_jobs:
            if stopping and time.monotonic() >= job.stop_due:
                self.ask_to_stop(job)
            self.ask(job)
            job.outlived = job.outlived or (ran and self.script is not None and job.is_open)
            self.tell_silence(job)
        self.drop_never_submitted()
        for job in self.jobs:
            if not job.told and job.status not in {UNSEEN, "PENDING"}:
                self.bring_log(job, is_last=asked > 0)
        over = self.script is not None and all(job.told for job in self.jobs)
        self.save(over=over)
        return over

    def stop(self, seconds: float) -> None:
        self.load()
        self.find_submitted()
        jobs, deadline = self.open_jobs, time.monotonic() + seconds
        while True:
            for job in [job for job in jobs if job.is_open]:
                if time.monotonic() >= job.stop_due:
                    self.ask_to_stop(job)
                self.ask(job)
            left = [job for job in jobs if job.is_open and (job.status != UNSEEN or self.was_accepted(job))]
            if not left or time.monotonic() >= deadline:
                break
            time.sleep(0.2)
        self.note_ends({job.id: job for job in jobs if not job.is_open})
        for job in jobs:
            if job in left:
                print("submitted left", job.id, job.address, job.reason or "it has not ended yet")
            elif not job.is_open:
                print("submitted ended", job.id, job.address)

    def note_ends(self, ended: dict[str, Job]) -> None:
        """Write these ends unless who follows the jobs does: a cluster may be gone when it is asked again."""
        deadline = time.monotonic() + 3 * POLL_S
        with self.lock() as lock:
            while not locked(lock):
                self.load()
                if time.monotonic() >= deadline or all(job.id not in ended for job in self.open_jobs):
                    return
                time.sleep(0.1)
            self.load()
            self.find_submitted()
            for job in [job for job in self.open_jobs if job.id in ended]:
                job.end(ended[job.id].status, int(ended[job.id].code))
            self.save(over=False)

    def look(self) -> None:
        self.load()
        self.find_submitted()
        # No process follows them, so the script has ended; its exit code is not known.
        self.script = KILLED if self.script is None else self.script
        for job in self.open_jobs:
            self.ask(job)
        self.drop_never_submitted()
        print("submitted", self.run.name, self.summary(over=not self.open_jobs))

    def summary(self, *, over: bool) -> str:
        words = ["over", str(self.end_code())] if over else ["open", "-"]
        if self.jobs:
            job = next(iter(self.open_jobs), self.jobs[-1])
            words += [job.status, job.silent or "-", job.id, job.address]
        return " ".join(words)

    # ---- files of the attempt ----------------------------------------------------------------------------------------

    def lock(self) -> BinaryIO:
        return (self.attempt / f"{STATE}.lock").open("ab")

    def load(self) -> None:
        self.jobs = [Job.of(line) for line in read_text(self.attempt / STATE).splitlines()[1:]]

    def save(self, *, over: bool) -> None:
        text = "\n".join([self.summary(over=over), *map(str, self.jobs), ""])
        if text != self.kept:
            # On a full disk, what is not kept is asked again.
            with suppress(OSError):
                new = self.attempt / f"{STATE}.tmp"
                new.write_text(text, encoding="utf-8")
                new.replace(self.attempt / STATE)
                self.kept = text

    def find_submitted(self) -> None:
        """Find how the script ended, and what it has submitted: by the wrapper's record, and by what Ray printed."""
        words = read_text(self.attempt / SCRIPT).split()
        if self.script is None and len(words) > 1:
            self.script, self.script_end = int(words[0]), float(words[1])
        rows = list(self.recorded())
        if self.script is not None:
            rows += [*self.printed(), *self.in_own_clusters()]
        known = {job.id for job in self.jobs}
        for name, address, own, printed in rows:
            if name not in known and re.fullmatch(r"[^\s-]\S*", name) and re.fullmatch(r"https?://\S+", address):
                known.add(name)
                self.jobs.append(Job(UNSEEN, "", "", name, address, own=own, printed=printed))

    def recorded(self) -> Iterator[tuple[str, str, bool, bool]]:
        for line in read_text(self.attempt / SUBMITTED).splitlines():
            with suppress(ValueError, LookupError, TypeError, AttributeError):
                row = json.loads(line)
                waits = bool(row.get("wait", True))
                yield str(row["submission_id"]), str(row["address"]).rstrip("/"), row.get("own") is True, waits

    def printed(self) -> Iterator[tuple[str, str, bool, bool]]:
        address = ""
        with suppress(OSError), open_file(self.attempt / LOG) as log:
            for line in log:
                found = PRINTED.search(COLOURS.sub(b"", line))
                if found and found[1]:
                    address = found[1].decode(errors="replace").rstrip("/")
                elif found:
                    yield found[2].decode(errors="replace"), address, False, True

    def in_own_clusters(self) -> Iterator[tuple[str, str, bool, bool]]:
        """Yield the jobs of the clusters that the script started, once: a program may have submitted them."""
        if self.listed:
            return
        self.listed = True
        started = Path(read_text(self.attempt / RAY_TMP).strip() or "/nonexistent", "contained.json")
        with suppress(*PROBLEMS, Unknown):
            for cluster in json.loads(read_text(started)):
                address = f"http://{cluster['host']}:{cluster['ports']['--dashboard-port']}"
                for row in json.loads(self.request(Job(UNSEEN, "", "", "", address, own=True), "")):
                    yield str(row["submission_id"] or ""), address, True, True

    def drop_never_submitted(self) -> None:
        """Forget what no cluster has got: the record is written first, and then the submission may fail."""
        if self.script is not None and time.time() > self.script_end + SUBMIT_S:
            self.jobs = [job for job in self.jobs if job.status != UNSEEN or self.was_accepted(job)]

    def was_accepted(self, job: Job) -> bool:
        return bool(job.silent) and job.id in {name for name, *_ in self.printed()}

    def end_code(self) -> int:
        """Return the exit code of the run: that of the last job, and of any that outlived the script.

        The script went on after the others, and its own code says what it made of them.
        """
        decisive = [job for job in self.jobs if job.outlived or job is self.jobs[-1]]
        failed = [int(job.code or 1) for job in decisive if job.code != "0"]
        if failed:
            return failed[0]
        return 0 if decisive and decisive[-1].outlived else self.script or 0

    # ---- clusters ----------------------------------------------------------------------------------------------------

    def ask(self, job: Job) -> None:
        """Find the state of a job. Where its cluster does not answer, processes of this machine may tell its end."""
        try:
            facts = json.loads(self.request(job, ""))
            status = str(facts["status"])
        except Unknown:
            job.silent = job.reason = ""
            if job.status != UNSEEN:
                job.end(GONE, 1)
        except PROBLEMS as problem:
            job.reason = reason_of(problem)
            job.silent = job.silent or str(int(time.time()))
            if job.status != UNSEEN and self.is_gone(job):
                job.end(GONE, 1)
        else:
            job.silent = job.reason = ""
            job.message = str(facts.get("message") or "")
            if status in ENDED:
                job.end(status, code_of(status, facts.get("driver_exit_code")))
            else:
                job.status = status
                self.look_here(job)

    def ask_to_stop(self, job: Job) -> None:
        job.stop_due = time.monotonic() + STOP_AGAIN_S
        # It may have ended, or not answer: `ask` finds that.
        with suppress(*PROBLEMS, Unknown):
            self.request(job, "/stop", method="POST")

    def request(self, job: Job, what: str, method: str = "GET") -> bytes:
        """Return the answer about a job. Raises Unknown if the cluster has none, one of PROBLEMS without an answer."""
        for headers in ({}, *({"Authorization": f"Bearer {token}"} for token in self.tokens(job))):
            try:
                return self.open(job, what, method, headers)
            except HTTPError as problem:
                refusal = problem
                if problem.code not in {401, 403}:
                    break
        if refusal.code == 404 and b"does not exist" in refusal.read(CHUNK):
            raise Unknown
        raise refusal

    def open(self, job: Job, what: str, method: str, headers: dict[str, str]) -> bytes:
        url = f"{job.address}/api/jobs/{quote(job.id, safe='')}{what}"
        # Never through a proxy of the environment: it would not know the addresses of this machine.
        with build_opener(ProxyHandler({})).open(
            Request(url, None, headers, method=method), timeout=ANSWER_S
        ) as answer:
            return bytes(answer.read())

    def tokens(self, job: Job) -> Iterator[str]:
        """Yield the tokens that a cluster may want: the run's only for the cluster that the run started."""
        own = Path(read_text(self.attempt / RAY_TMP).strip() or "/nonexistent", "token")
        users = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray/auth_token")
        yield from filter(None, (read_text(path).strip() for path in ((own, users) if job.own else (users,))))

    def look_here(self, job: Job) -> None:
        if not job.here and job.looks and job.status == "RUNNING":
            job.looks -= 1
            job.here = any(f'"{job.id}"'.encode() in value for value in variables(b"RAY_JOB_CONFIG_JSON_ENV_VAR="))

    def is_gone(self, job: Job) -> bool:
        """Tell whether a job that ran on this machine has ended with its cluster."""
        if job.own:
            mark = f"RLX_RUN={self.run.name}".encode()
            return mark not in variables(b"RLX_RUN=", of="gcs_server")
        if not job.here:
            return False
        return not any(f'"{job.id}"'.encode() in value for value in variables(b"RAY_JOB_CONFIG_JSON_ENV_VAR="))

    # ---- the log -----------------------------------------------------------------------------------------------------

    def bring_log(self, job: Job, *, is_last: bool) -> None:
        """Append what is new in the log of a job. Of one whose submitter prints it, only what that left out."""
        if job.printed and self.script is None:
            return
        came = not self.to_log or self.append_log(job)
        if not job.is_open and (came or is_last or time.monotonic() >= job.log_until):
            job.told = True
            line = job.message.partition("\n")[0].partition(", last available logs")[0][:200]
            why = f": {line}" if line and job.status == "FAILED" else ""
            self.say(f"Ray job {job.id} at {job.address} has ended: {job.status}{why}")

    def append_log(self, job: Job) -> bool:
        """Append; return whether this was all that there is."""
        file = next(self.log_files(job), None)
        if file is None:
            return self.append_sent(job)
        with file:
            if job.printed:
                job.read, job.printed = self.bytes_printed(file.read()), False
            file.seek(job.read)
            while chunk := whole_lines(file.read(CHUNK), is_end=not job.is_open):
                job.read += self.write(chunk)
                file.seek(job.read)
        return True

    def append_sent(self, job: Job) -> bool:
        began = time.monotonic()
        if began < job.log_due and job.is_open:
            return False
        try:
            text = str(json.loads(self.request(job, "/logs"))["logs"]).encode(errors="replace")
        except (*PROBLEMS, Unknown):
            return False
        finally:
            job.log_due = time.monotonic() + LOG_SHARE * (time.monotonic() - began)
        if job.printed:
            job.read, job.printed = self.bytes_printed(text), False
        job.read += self.write(whole_lines(text[job.read :], is_end=not job.is_open))
        return True

    def log_files(self, job: Job) -> Iterator[BinaryIO]:
        """Yield the log where the cluster keeps it, if that is on this machine and of this user."""
        own = read_text(self.attempt / RAY_TMP).strip()
        for folder in [*([own, f"{own}/*"] if own else []), "/tmp/ray"]:
            for path in Path("/").glob(f"{folder.lstrip('/')}/session_*/logs/job-driver-{job.id}.log"):
                with suppress(OSError):
                    yield open_file(path, is_own=True)

    def bytes_printed(self, text: bytes) -> int:
        """Count the bytes of the beginning of a job's log that the run's log has.

        Other lines may stand between them, and some of them may have been masked.
        """
        with open_file(self.attempt / LOG) as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL))
            last = next((line for line in reversed(text.splitlines()) if line.strip()), b"")
            if not last or last in log.read().splitlines():
                return len(text)
            log.seek(0)
            lines, done = text.splitlines(keepends=True), 0
            for line in log:
                ahead = [each.rstrip(b"\r\n") for each in lines[done : done + WINDOW]] if line.strip() else []
                if (line := line.rstrip(b"\r\n")) in ahead:
                    done += ahead.index(line) + 1
        return sum(map(len, lines[:done]))

    def tell_silence(self, job: Job) -> None:
        silent = bool(job.silent) and time.time() - int(job.silent) >= SILENCE_S
        if silent and not job.silence_told:
            self.say(
                f"the dashboard of Ray at {job.address} does not answer ({job.reason}); "
                f"its job {job.id} counts as running"
            )
            job.silence_told = True
        elif job.silence_told and not job.silent:
            self.say(f"the dashboard of Ray at {job.address} answers again: job {job.id} is {job.status}")
            job.silence_told = False

    def say(self, text: str) -> None:
        if self.to_log:
            self.write(f"rlx: {text}\n".encode())

    def write(self, text: bytes) -> int:
        # A full disk, or a log whose reader has ended, loses lines, and not the run.
        with suppress(OSError):
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        return len(text)


class Unknown(Exception):
    """The cluster knows no such job."""


def code_of(status: str, driver: object) -> int:
    """Return a shell's exit code for the end of a job."""
    if status == "SUCCEEDED":
        return 0
    if status == "STOPPED":
        return 143
    code = driver if isinstance(driver, int) else 1
    return 128 - code if code < 0 else min(code, 255) or 1


def reason_of(problem: Exception) -> str:
    if isinstance(problem, HTTPError):
        return f"it answered {problem.code} {problem.reason}"
    if isinstance(problem, (ValueError, LookupError, TypeError)):
        return "its answer is not that of a dashboard"
    cause = getattr(problem, "reason", problem)
    if isinstance(cause, socket.timeout):
        return f"no answer in {ANSWER_S:g} s"
    return (getattr(cause, "strerror", None) or str(cause)).splitlines()[0].lower()


def locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def whole_lines(text: bytes, *, is_end: bool) -> bytes:
    return text if is_end or len(text) == CHUNK else text[: text.rfind(b"\n") + 1]


def variables(prefix: bytes, of: str = "") -> set[bytes]:
    """Return the variables that begin so, of all processes of this user here, or of those with that name."""
    found: set[bytes] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if not of or (process / "comm").read_text().strip() == of:
                found.update(
                    each for each in (process / "environ").read_bytes().split(b"\0") if each.startswith(prefix)
                )
    return found


def open_file(path: Path, *, is_own: bool = False) -> BinaryIO:
    """Open a regular file, of this user if it must be so: a link or a pipe may be another's."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or (is_own and status.st_uid != os.getuid()):
        file.close()
        raise PermissionError(f"{path} is not a file of this user")
    return file


def age_of(path: Path) -> float:
    """Return for how many seconds there has been such a file; 0 without one."""
    try:
        return max(0.001, time.time() - path.stat().st_mtime)
    except OSError:
        return 0.0


def read_text(path: Path) -> str:
    """Return what a small file says; empty if there is none."""
    try:
        with open_file(path) as file:
            return file.read(CHUNK).decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
