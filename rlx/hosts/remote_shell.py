"""Run commands over anything that starts a shell elsewhere: ssh, docker exec, or one in the other.

What starts there is always the same short text, which every login shell reads alike (bash, dash, zsh, fish, csh). It
says that it is there, and reads one line from its stdin, which holds everything else: no argument is quoted for an
unknown shell, none shows in the process table on the way, and no length limit but that of exec applies.

A random mark on stdout and stderr begins the command, and one on stderr ends it with the exit status. So noise of login
scripts, complaints of ssh, and a command's own exit 255 cannot be taken for each other.

This side keeps stdin open as long as it wants the command to live. A feeder over there passes on the command's own
input, then waits for the end of stdin and ends the command's process group: without a terminal nothing else would, and
a quiet `tail -F` would stay for ever.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rlx.hosts.connection import MOST_ANSWER_BYTES, AnswerTooLong, Connection, ConnectionFailure, Opening, Session
from rlx.hosts.host_errors import TimedOut, TooMuch, Unreachable, waited_out
from rlx.hosts.transport import Completed, shown
from rlx.model import Cmd

# What a login script left of something else is passed over.
READ_AND_RUN = (
    "sh -c 'echo rlx-ready; while IFS= read -r line; do case $line in"
    """ rlx-run:*) eval "$(printf %b "${line#rlx-run:}")"; exit; esac; done'"""
)

_RUN = b"rlx-run:"

# How the user's docker finds its daemon.
_DOCKER = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "XDG_RUNTIME_DIR")
# Where the cluster keeps its configuration, if not in /etc.
_SLURM = ("SLURM_CONF",)
KEPT_VARIABLES = ("HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TMPDIR", "TERM", *_DOCKER, *_SLURM)
_KEPT_LOCALE = ("LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_NUMERIC", "LC_TIME")
_CLEAN = "env -i " + " ".join(f'${{{name}+"{name}=${name}"}}' for name in (*KEPT_VARIABLES, *_KEPT_LOCALE))

# A shared connection that is found dead is replaced once.
_TRIES = 2

_BEGIN_S = 20.0
"""How long a stream may take to begin: to connect, and to get past the login scripts."""
_LOOK_S = 0.5

# Each byte as `printf %b` reads it.
_PLAIN = [chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\0{byte:03o}" for byte in range(256)]

# The feeder, left of the pipe, is ended after an ordinary end, because what a command deliberately leaves behind is to
# stay. This shell waits for it: the first process of many a container never does, and would keep a zombie of each. Only
# /proc says the pid of a part of a pipe. What the shell says of its death comes after the mark.
_SCRIPT = """
mark={mark}
echo $mark
echo $mark >&2
{{
    read -r feeder _ </proc/self/stat
    echo "$feeder"
    {feed}
    exec >/dev/null
    while read -r _; do :; done
    trap "" TERM
    kill -s TERM -- "-$$"
    sleep 1
    kill -s KILL -- "-$$"
}} 2>/dev/null | {{
    read -r feeder
    {environment} {command}
    echo "$mark $?" >&2
    kill "$feeder" 2>/dev/null || :
}}
"""


class RemoteTransport:
    """Runs commands through a connection, each in a shell of its own. `entry` starts that shell; `environment` precedes
    the command."""

    def __init__(self, connection: Connection, entry: str = f"exec {READ_AND_RUN}", environment: str = _CLEAN) -> None:
        self.connection = connection
        self._entry = entry
        self._environment = environment

    def run(self, cmd: Cmd, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        for tries_left in reversed(range(_TRIES)):
            completed = self._try_to_run(cmd, stdin, timeout_s, tries_left)
            if completed is not None:
                return completed
        raise self._never_began(cmd)

    def open_ahead(self) -> None:
        """Start a shell for the next command: then that costs one round trip, no three. Unused, it ends with rlx."""
        self.connection.open_ahead(self._entry)

    def _try_to_run(self, cmd: Cmd, stdin: bytes, timeout_s: float, tries_left: int) -> Completed | None:
        mark = secrets.token_hex(16)
        head = _first_line(mark, cmd, len(stdin), self._environment)
        try:
            with self.connection.open(self._entry, streaming=False) as session:
                out = session.exchange(head + stdin, timeout_s, Opening(mark.encode()))
                code, err = session.end()
        except TimeoutError:
            raise timed_out(self.connection.host, cmd, timeout_s) from None
        except AnswerTooLong:
            raise too_much(self.connection.host, cmd) from None
        reply = _Reply(mark.encode(), err)
        if code == 0 and reply.code is not None:
            return Completed(reply.code, _after(out, mark.encode() + b"\n"), reply.err)
        self._raise_unless_harmless(cmd, code, reply, tries_left)
        return None

    @contextmanager
    def stream(self, cmd: Cmd) -> Iterator[Iterator[bytes]]:
        with ExitStack() as sessions:
            first = sessions.enter_context(self.connection.open(self._entry, streaming=True))
            yield self._chunks(cmd, first, sessions)

    def _chunks(self, cmd: Cmd, session: Session, sessions: ExitStack) -> Iterator[bytes]:
        for tries_left in reversed(range(_TRIES)):
            mark = secrets.token_hex(16)
            try:
                yield from _behind(mark.encode() + b"\n", session, _first_line(mark, cmd, 0, self._environment))
            except TimeoutError:
                raise timed_out(self.connection.host, cmd, _BEGIN_S) from None
            code, err = session.end()
            reply = _Reply(mark.encode(), err)
            if code == 0 and reply.code is not None:
                return
            self._raise_unless_harmless(cmd, code, reply, tries_left)
            session = sessions.enter_context(self.connection.open(self._entry, streaming=True))
        raise self._never_began(cmd)

    def _raise_unless_harmless(self, cmd: Cmd, code: int, reply: _Reply, tries_left: int) -> None:
        error = self.connection.explain(ConnectionFailure(cmd, code, reply.said, reply.began))
        if error is not None and not (tries_left and waited_out(error)):
            raise error

    def _never_began(self, cmd: Cmd) -> Unreachable:
        return Unreachable(
            f"{self.connection.host}: the connection broke before the command began: {shown(cmd)}", "try again"
        )


class _Reply:
    """The parts of stderr: noise, mark, the command's complaints, mark and exit status.

    The end mark may overtake the last of stdout, so all is there only if the connection ended well too.
    """

    def __init__(self, mark: bytes, err: bytes) -> None:
        before, *parts = err.split(mark)
        self.began = bool(parts)
        self.err = parts[0].removeprefix(b"\n") if parts else b""
        ended = re.match(rb" (\d{1,3})\n", parts[1]) if len(parts) > 1 else None
        self.code = int(ended.group(1)) if ended else None
        self.said = (self.err if self.began else before).decode(errors="replace").strip()


def _first_line(mark: str, cmd: Cmd, size: int, environment: str) -> bytes:
    script = _SCRIPT.format(
        mark=mark, feed=f"head -c {size}" if size else "", environment=environment, command=cmd.raw()
    )
    return _RUN + "".join([_PLAIN[byte] for byte in script.encode(errors="surrogateescape")]).encode() + b"\n"


def _after(data: bytes, mark: bytes) -> bytes:
    return data.partition(mark)[2]


def _behind(mark: bytes, session: Session, line: bytes) -> Iterator[bytes]:
    """Return what follows the mark. Raises TimeoutError where that does not come."""
    opening, before, until = Opening(mark), b"", time.monotonic() + _BEGIN_S
    chunks = session.chunks(line, lambda: None if opening.has_begun else _LOOK_S)
    for chunk in chunks:
        opening.take(chunk)
        if opening.asks_again():
            session.send(line)
        if not opening.has_begun and time.monotonic() > until:
            raise TimeoutError
        before = before[-len(mark) :] + chunk
        if mark in before:
            if rest := _after(before, mark):
                yield rest
            break
    yield from chunks


def timed_out(host: str, cmd: Cmd, timeout_s: float) -> TimedOut:
    return TimedOut(f"{host}: no answer after {timeout_s:g} s from: {shown(cmd)}", "is the machine overloaded?")


def too_much(host: str, cmd: Cmd) -> TooMuch:
    return TooMuch(
        f"{host}: over {MOST_ANSWER_BYTES >> 20} MiB came back, without an end, from: {shown(cmd)}",
        "check whether a login script on the host prints without end: ssh HOST true | wc -c",
    )
