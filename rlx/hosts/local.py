"""This machine as a host."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from rlx.errors import RlxError
from rlx.hosts.transport import Completed
from rlx.plan import Cmd

_KEPT_VARIABLES = ("HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TMPDIR", "TERM")
# How the user's docker finds its daemon.
_KEPT_PREFIXES = ("LC_", "DOCKER_", "XDG_RUNTIME_DIR")
_CHUNK_BYTES = 65536


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a command may see of the caller's environment. A token exported in a shell must not end up in tmux."""
    kept = {
        name: value for name, value in environment.items() if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }
    return kept if kept.get("HOME") else kept | _home_of_the_account()


def _home_of_the_account() -> dict[str, str]:
    """cron and some containers start programs without HOME; `~/rlx` is to mean the same there as everywhere."""
    try:
        return {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
    except KeyError:
        return {}


class LocalTransport:
    """Runs commands as children of rlx, in a session of their own: Ctrl-C at the terminal is rlx's to handle."""

    def run(self, cmd: Cmd, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        process = _start(cmd, subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise RlxError(
                f"local: no answer after {timeout_s:g} s from: {_short(cmd)}", "is the machine overloaded?"
            ) from None
        finally:
            _end(process)
        return Completed(process.returncode, out, err)

    @contextmanager
    def stream(self, cmd: Cmd) -> Iterator[Iterator[bytes]]:
        process = _start(cmd, subprocess.DEVNULL)
        assert process.stdout is not None
        try:
            yield iter(lambda: os.read(process.stdout.fileno(), _CHUNK_BYTES), b"")  # type: ignore[union-attr]
        finally:
            _end(process)


def _start(cmd: Cmd, stdin: int) -> subprocess.Popen[bytes]:
    argv = cmd.argv()
    try:
        return subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stdin == subprocess.PIPE else subprocess.DEVNULL,
            env=clean_environment(os.environ),
            start_new_session=True,
        )
    except OSError as error:
        raise RlxError(f"local: cannot run {argv[0]}: {error.strerror}", "is it installed and on PATH?") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the command: all of it after a time-out or Ctrl-C, nothing after an ordinary end."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _short(cmd: Cmd) -> str:
    text = " ".join(str(cmd).split())
    return text if len(text) <= 80 else text[:77] + "..."
