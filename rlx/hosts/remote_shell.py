"""A Transport over anything that starts a shell elsewhere: ssh, docker exec, or one in the other.

What starts there is always the same short text, which every login shell reads alike (bash, dash, zsh, fish, csh). It
reads one line from its stdin, and that line holds everything else: no argument is quoted for an unknown shell, none
shows in the process table on the way, and no length limit but that of exec applies.

A random mark on stdout and stderr begins the command, and one on stderr ends it with the exit status. So noise of login
scripts, complaints of ssh, and a command's own exit 255 cannot be taken for each other.

This side keeps stdin open as long as it wants the command to live. A feeder over there passes on the command's own
input, then waits for the end of stdin and ends the command's process group: without a terminal nobody else would, and
a quiet `tail -F` would stay for ever.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from rlx.errors import RlxError
from rlx.hosts.errors import TimedOut
from rlx.hosts.transport import Completed, shown
from rlx.plan import Cmd

READ_AND_RUN = """sh -c 'IFS= read -r line; eval "$(printf %b "$line")"'"""

# How the user's docker finds its daemon is kept too.
_KEPT_DOCKER = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR")
KEPT_VARIABLES = ("HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TMPDIR", "TERM", *_KEPT_DOCKER)
_KEPT_LOCALE = ("LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_COLLATE", "LC_NUMERIC", "LC_TIME")
_CLEAN = "env -i " + " ".join(f'${{{name}+"{name}=${name}"}}' for name in (*KEPT_VARIABLES, *_KEPT_LOCALE))

_FEEDER = """
echo $$
head -c "$1"
exec >/dev/null
while read -r _; do :; done
trap "" TERM
kill -s TERM -- "-$2"
sleep 1
kill -s KILL -- "-$2"
"""

# The feeder is in the background of its side of the pipe: the shell then waits for the command only. It is told to go
# after an ordinary end, for what a command deliberately leaves behind is to stay.
_SCRIPT = """
mark={mark}
echo $mark
echo $mark >&2
{{ sh -c {feeder} feeder {size} $$ <&3 3<&- 2>/dev/null & }} 3<&0 | {{
    IFS= read -r feeder
    {environment} {command}
    code=$?
    kill "$feeder" 2>/dev/null
    echo "$mark $code" >&2
}}
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A shell that ended before its command did. `began`: the command had begun."""

    cmd: Cmd
    code: int
    said: str
    began: bool


class Session(Protocol):
    """A started shell: its pipes."""

    def exchange(self, data: bytes, timeout_s: float) -> bytes:
        """All of stdout, after sending `data`; stdin stays open till then. Raises TimeoutError."""
        ...

    def chunks(self, data: bytes) -> Iterator[bytes]:
        """Stdout as it comes, after sending `data`; stdin stays open till the session is closed."""
        ...

    def end(self) -> tuple[int, bytes]:
        """The exit status of the connection and all of stderr, once stdout is at its end."""
        ...


class Link(Protocol):
    """A way to start a shell: its errors are its own."""

    host: str

    def open(self, line: str, *, streaming: bool) -> AbstractContextManager[Session]:
        """Start `line` in the login shell there. Leaving the block ends the session, and with it the command."""
        ...

    def explain(self, failure: Failure) -> RlxError | None:
        """The error that a failure means; None for a failure that is worth a second try and did not arrive."""
        ...


class RemoteTransport:
    """Runs commands through a link, each in a shell of its own. `entry` starts that shell; `environment` precedes
    the command."""

    def __init__(self, link: Link, entry: str = f"exec {READ_AND_RUN}", environment: str = _CLEAN) -> None:
        self._link = link
        self._entry = entry
        self._environment = environment

    def run(self, cmd: Cmd, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        return self._run_once(cmd, stdin, timeout_s) or self._again(cmd, stdin, timeout_s)

    def _again(self, cmd: Cmd, stdin: bytes, timeout_s: float) -> Completed:
        completed = self._run_once(cmd, stdin, timeout_s)
        if completed is None:
            raise lost_before_it_began(self._link.host, cmd)
        return completed

    def _run_once(self, cmd: Cmd, stdin: bytes, timeout_s: float) -> Completed | None:
        mark = secrets.token_hex(16)
        head = _first_line(mark, cmd, len(stdin), self._environment)
        try:
            with self._link.open(self._entry, streaming=False) as session:
                out = session.exchange(head + stdin, timeout_s)
                code, err = session.end()
        except TimeoutError:
            raise timed_out(self._link.host, cmd, timeout_s) from None
        reply = _Reply(mark.encode(), err)
        if reply.code is not None:
            return Completed(reply.code, _after(out, mark.encode() + b"\n"), reply.err)
        return self._fail(cmd, code, reply)

    def _fail(self, cmd: Cmd, code: int, reply: _Reply) -> None:
        """Raises the error of a command that did not end, or returns for another try."""
        error = self._link.explain(Failure(cmd, code, reply.said, reply.began))
        if error is not None:
            raise error

    @contextmanager
    def stream(self, cmd: Cmd) -> Iterator[Iterator[bytes]]:
        mark = secrets.token_hex(16)
        with self._link.open(self._entry, streaming=True) as session:
            yield self._chunks(session, mark.encode(), cmd)

    def _chunks(self, session: Session, mark: bytes, cmd: Cmd) -> Iterator[bytes]:
        chunks = session.chunks(_first_line(mark.decode(), cmd, 0, self._environment))
        yield from _behind(mark + b"\n", chunks)
        code, err = session.end()
        reply = _Reply(mark, err)
        if reply.code is None:
            self._fail(cmd, code, reply)
            raise lost_before_it_began(self._link.host, cmd)


class _Reply:
    """What stderr says: noise, mark, the command's complaints, mark and exit status."""

    def __init__(self, mark: bytes, err: bytes) -> None:
        before, *parts = err.split(mark)
        self.began = bool(parts)
        self.err = parts[0].removeprefix(b"\n") if parts else b""
        self.code = int(parts[1].split()[0]) if len(parts) > 1 else None
        self.said = (self.err if self.began else before).decode(errors="replace").strip()


def _first_line(mark: str, cmd: Cmd, size: int, environment: str) -> bytes:
    script = _SCRIPT.format(
        mark=mark, feeder=shlex.quote(_FEEDER), size=size, environment=environment, command=cmd.raw()
    )
    plain = (chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\0{byte:03o}" for byte in _encoded(script))
    return "".join(plain).encode() + b"\n"


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _after(data: bytes, mark: bytes) -> bytes:
    return data.partition(mark)[2]


def _behind(mark: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What follows the mark."""
    before = b""
    for chunk in chunks:
        before = before[-len(mark) :] + chunk
        if mark in before:
            if rest := _after(before, mark):
                yield rest
            break
    yield from chunks


def timed_out(host: str, cmd: Cmd, timeout_s: float) -> TimedOut:
    return TimedOut(f"{host}: no answer after {timeout_s:g} s from: {shown(cmd)}", "is the machine overloaded?")


def lost_before_it_began(host: str, cmd: Cmd) -> RlxError:
    from rlx.hosts.errors import Unreachable

    return Unreachable(f"{host}: the connection broke before the command began: {shown(cmd)}", "try again")
