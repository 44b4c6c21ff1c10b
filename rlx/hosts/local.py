"""Run commands on this machine as on a host."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO

from rlx.hosts.connection import AnswerTooLong, Opening
from rlx.hosts.process import exchange
from rlx.hosts.remote_shell import KEPT_VARIABLES, timed_out, too_much
from rlx.hosts.transport import Completed
from rlx.model import Cmd

_CHUNK_BYTES = 65536
_NOT_STARTED = 127


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Choose what a command may see of the caller's environment. A token of a shell must not end up in tmux."""
    kept = {name: value for name, value in environment.items() if name in KEPT_VARIABLES or name.startswith("LC_")}
    return kept if kept.get("HOME") else kept | _home_of_the_account()


def _home_of_the_account() -> dict[str, str]:
    """Return HOME of the account, because cron and some containers start programs without it."""
    try:
        return {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
    except KeyError:
        return {}


class LocalTransport:
    """A transport to this machine: commands are children of rlx in a session of their own, where Ctrl-C is rlx's."""

    def run(self, cmd: Cmd, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        with tempfile.TemporaryFile() as err:
            try:
                process = _start(cmd, subprocess.PIPE, err)
            except OSError as error:
                return Completed(_NOT_STARTED, b"", f"{cmd.argv()[0]}: {error.strerror}\n".encode())
            try:
                out = exchange(process, stdin, err, timeout_s, Opening(b""), end_input=True)
            except TimeoutError:
                raise timed_out("local", cmd, timeout_s) from None
            except AnswerTooLong:
                raise too_much("local", cmd) from None
            finally:
                _end(process)
            err.seek(0)
            # As a shell says it: 128 + n for a command that signal n killed.
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            return Completed(code, out, err.read())

    @contextmanager
    def stream(self, cmd: Cmd) -> Iterator[Iterator[bytes]]:
        try:
            process = _start(cmd, subprocess.DEVNULL, subprocess.DEVNULL)
        except OSError:
            yield iter(())
            return
        assert process.stdout is not None
        try:
            yield iter(lambda: os.read(process.stdout.fileno(), _CHUNK_BYTES), b"")  # type: ignore[union-attr]
        finally:
            _end(process)


def _start(cmd: Cmd, stdin: int, stderr: int | IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        cmd.argv(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=clean_environment(os.environ),
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command: all of it after a time-out or Ctrl-C, nothing after an ordinary end."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
