"""The command line as a process, as a person or a script starts it."""

from __future__ import annotations

import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

_REPOSITORY = Path(__file__).parent.parent
_NSENTER = {"mnt": "--mount", "net": "--net", "uts": "--uts"}


def _for_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Pick what only a Python that starts reads, or the loader of programs before it."""
    named = {"PYTHONPATH": str(_REPOSITORY), **environment}
    return {name: value for name, value in named.items() if name.startswith(("PYTHON", "LC_", "LANG", "LD_"))}


_AT_START = _for_the_start(os.environ)


def run_rlx(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    namespaces: Sequence[Path] = (),
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[bytes]:
    """Run `python -m rlx` to its end and return what it printed, as `subprocess.run` does.

    It is forked by a server that has imported rlx (`tests.command_server`), unless `environment` holds something that
    only a Python that starts would read. `namespaces`: files of /proc, which it enters to begin at their root.

    Raises subprocess.TimeoutExpired after killing the command.
    """
    environment = dict(os.environ if environment is None else environment)
    if _for_the_start(environment) != _AT_START:
        enter = ["nsenter", *(f"{_NSENTER[file.name]}={file}" for file in namespaces)] if namespaces else []
        command = [*enter, sys.executable, "-m", "rlx", *arguments]
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, timeout=timeout_s, check=False
        )
    folder = "/" if namespaces else str(Path.cwd())
    with ExitStack() as files:
        given = files.enter_context(TemporaryFile())
        given.write(stdin)
        given.seek(0)
        order = json.dumps({"arguments": list(arguments), "environment": environment, "folder": folder})
        answer, *output = _ask(
            order, given.fileno(), [files.enter_context(file.open(encoding="utf-8")) for file in namespaces]
        )
        said, out, err = _read_to_the_end([answer.detach(), *output], arguments, timeout_s)
    return subprocess.CompletedProcess(arguments, int(said.split()[1]), out, err)


def _ask(order: str, stdin: int, namespaces: Sequence[IO[str]]) -> tuple[socket.socket, int, int]:
    """Have a process forked. Returns where its pid and its exit code will be told, its stdout and its stderr."""
    ours, theirs = socket.socketpair()
    (out, stdout), (err, stderr) = os.pipe(), os.pipe()
    files = [theirs.fileno(), stdin, stdout, stderr, *(file.fileno() for file in namespaces)]
    socket.send_fds(_server()[0], [b"."], files)
    theirs.close()
    os.close(stdout)
    os.close(stderr)
    ours.sendall(order.encode())
    ours.shutdown(socket.SHUT_WR)
    return ours, out, err


def _read_to_the_end(files: Sequence[int], arguments: Sequence[str], timeout_s: float) -> list[bytes]:
    """Read until nobody writes any more. The first file tells the pid of whom to kill when that takes too long."""
    deadline = time.monotonic() + timeout_s
    read = dict.fromkeys(files, b"")
    with ExitStack() as closing, selectors.DefaultSelector() as ready:
        for file in files:
            closing.callback(os.close, file)
            ready.register(file, selectors.EVENT_READ)
        while ready.get_map():
            readable = ready.select(max(0, deadline - time.monotonic()))
            if not readable:
                _kill(int((read[files[0]] or os.read(files[0], 65536)).split()[0]))
                raise subprocess.TimeoutExpired(list(arguments), timeout_s, *list(read.values())[1:])
            for key, _ in readable:
                part = os.read(key.fd, 65536)
                read[key.fd] += part
                if not part:
                    ready.unregister(key.fd)
    return list(read.values())


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@functools.cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start the one of this process, which ends when nobody can ask it any more."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "tests.command_server", str(theirs.fileno())]
    with theirs:
        server = subprocess.Popen(command, cwd=_REPOSITORY, pass_fds=[theirs.fileno()], env={**os.environ, **_AT_START})
    return ours, server
