"""Sessions by the socket of a shared connection: a packet each, where an ssh program each costs 5 ms of CPU.

Until the ssh that holds the connection says that the host has opened the session, nothing is sent there. So whoever is
refused may try another way, and no command runs twice.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

from rlx.hosts.link import LeftSeconds, Session
from rlx.hosts.opening import Opening
from rlx.hosts.pipes import await_end, close_pipe, read_piece, send_all, transfer
from rlx.hosts.ssh.mux_socket import MuxSocket, Refused

_BROKE_OFF = 255, b"\nthe shared connection broke off\n"


class SharedSession:
    """A session that was asked for by the socket at `path`; `line` is what the login shell there runs.

    Raises as MuxSocket does.
    """

    def __init__(self, path: str, line: str) -> None:
        self._code: int | None = None
        self._is_open = False
        with ExitStack() as opened:
            self._socket = MuxSocket(path)
            opened.callback(self._socket.close)
            self._err = opened.enter_context(tempfile.TemporaryFile())
            its_stdin, stdin = os.pipe()
            stdout, its_stdout = os.pipe()
            self._stdin, self._stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb", 0)
            for pipe in (self._stdin, self._stdout):
                opened.callback(close_pipe, pipe)
            try:
                self._socket.ask_for_session(line, (its_stdin, its_stdout, self._err.fileno()))
            finally:
                os.close(its_stdin)
                os.close(its_stdout)
            self._opened = opened.pop_all()

    def exchange(self, data: bytes, timeout_s: float, opening: Opening) -> bytes:
        """As every session does. Raises Refused, too, as long as nothing was sent."""
        until = time.monotonic() + timeout_s
        if not self._await_opening(until):
            raise TimeoutError
        out = transfer(self._stdin, self._stdout, self._err, data, until, opening)
        return await_end(self._has_ended, until, out, self._err)

    def send(self, data: bytes) -> None:
        send_all(self._stdin, data)

    def chunks(self, data: bytes, left_s: LeftSeconds) -> Iterator[bytes]:
        """As every session does. Raises Refused, too, as long as nothing was sent."""
        while not self._await_opening(_after(left_s())):
            yield b""
        self.send(data)
        while (chunk := read_piece(self._stdout, left_s())) != b"":
            yield chunk or b""

    def end(self) -> tuple[int, bytes]:
        while not self._has_ended(None):
            pass
        self._err.seek(0)
        code, last_words = (self._code, b"") if self._code is not None else _BROKE_OFF
        return code, self._err.read() + last_words

    def close(self) -> None:
        """End the session, and with it the command, whose stdin ends."""
        self._opened.close()

    def _await_opening(self, until: float | None) -> bool:
        """Tell whether the host has opened the session by then. Raises Refused if it will not."""
        try:
            while not self._is_open:
                packet = self._socket.receive(until)
                if packet is None or not packet.opens:
                    raise Refused
                self._is_open = True
        except TimeoutError:
            return False
        # It may have waited for its command for long.
        if self._has_ended(0.0):
            raise Refused
        return True

    def _has_ended(self, seconds: float | None) -> bool:
        """Wait for the end of the session: then all that it said has been written."""
        try:
            while packet := self._socket.receive(_after(seconds)):
                self._code = packet.exit_code if packet.exit_code is not None else self._code
        except TimeoutError:
            return False
        return True


class SessionOrProgram:
    """A session by the socket, and where that is refused before anything was sent, one of the ssh program."""

    def __init__(self, session: Session, program: Callable[[], Session]) -> None:
        self._session = session
        self._program = program

    def exchange(self, data: bytes, timeout_s: float, opening: Opening) -> bytes:
        until = time.monotonic() + timeout_s
        try:
            return self._session.exchange(data, timeout_s, opening)
        except Refused:
            self._session = self._program()
            return self._session.exchange(data, until - time.monotonic(), opening)

    def send(self, data: bytes) -> None:
        self._session.send(data)

    def chunks(self, data: bytes, left_s: LeftSeconds) -> Iterator[bytes]:
        try:
            yield from self._session.chunks(data, left_s)
        except Refused:
            self._session = self._program()
            yield from self._session.chunks(data, left_s)

    def end(self) -> tuple[int, bytes]:
        return self._session.end()


_ahead: defaultdict[tuple[str, str], list[SharedSession]] = defaultdict(list)
"""Asked for and not used yet, by socket and command. They end with rlx."""


def ask_ahead(path: str, line: str) -> SharedSession:
    """Ask for a session for the `session_by` to come. Raises as MuxSocket does."""
    session = SharedSession(path, line)
    _ahead[path, line].append(session)
    return session


def session_by(path: str, line: str) -> SharedSession:
    """The session that waits for this command, or a new one. Raises as MuxSocket does."""
    # `pop` is one operation: two threads do not get the same.
    with suppress(IndexError):
        return _ahead[path, line].pop()
    return SharedSession(path, line)


def _after(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds
