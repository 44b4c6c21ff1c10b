"""Talk to the ssh that holds a shared connection, by its socket: OpenSSH's PROTOCOL.mux, version 4.

A number has four bytes, the most significant first. A text is its length and its bytes, and so is a packet.
"""

from __future__ import annotations

import array
import os
import socket
import stat
import struct
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import RlxError
from rlx.hosts.pipes import read_piece

_VERSION = 4
_HELLO = 0x00000001
_NEW_SESSION = 0x10000002
_EXITED = 0x80000004
_OPENED = 0x80000006
_NUMBER = struct.Struct(">I")
_REQUEST_ID = 0
_NO_ESCAPES = 0xFFFFFFFF
_LONGEST = 256 * 1024
_MOST_NUMBERS = 3
_GREETING_S = 5.0


class Refused(Exception):
    """There is no session to be had by this socket. Nothing was sent to the host."""


@dataclass(frozen=True, slots=True)
class Packet:
    """What it is, and the numbers behind that as far as its kind has any."""

    kind: int
    numbers: tuple[int, ...]

    @property
    def greets(self) -> bool:
        """Tell whether it is the greeting of the version that is known here."""
        return self.kind == _HELLO and self.numbers[:1] == (_VERSION,)

    @property
    def opens(self) -> bool:
        return self.kind == _OPENED

    @property
    def exit_code(self) -> int | None:
        """The exit status of the login shell, if it tells one."""
        return self.numbers[1] if self.kind == _EXITED and len(self.numbers) > 1 else None


class MuxSocket:
    """A connection to that ssh, which has greeted.

    Raises Refused where there is none that is understood, TimeoutError where it hangs, RlxError for a socket that is
    somebody else's.
    """

    def __init__(self, path: str) -> None:
        _check_owner(Path(path))
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_GREETING_S)
        self._received = bytearray()
        try:
            self._greet(path)
        except BaseException:
            self.close()
            raise

    def _greet(self, path: str) -> None:
        """Hear who it is, before it is given anything."""
        try:
            self._socket.connect(path)
        except TimeoutError:
            raise
        except OSError:
            raise Refused from None
        greeting = self.receive(time.monotonic() + _GREETING_S)
        if greeting is None or not greeting.greets:
            raise Refused

    def ask_for_session(self, command: str, pipes: Sequence[int]) -> None:
        """Ask for one with these descriptors as stdin, stdout and stderr; no terminal, X, agent or variables of here.

        Raises Refused, or TimeoutError.
        """
        wants_nothing = _number(0) * 4
        session = _number(_NEW_SESSION, _REQUEST_ID) + _text("") + wants_nothing + _number(_NO_ESCAPES)
        try:
            self._socket.sendall(_packet(_number(_HELLO, _VERSION)) + _packet(session + _text("") + _text(command)))
            for pipe in pipes:
                self._socket.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pipe]))])
        except TimeoutError:
            raise
        except OSError:
            raise Refused from None

    def receive(self, until: float | None) -> Packet | None:
        """The next packet; None at the end, or for what is none. Raises TimeoutError, at once for one that is over."""
        try:
            while (packet := _taken(self._received)) is None:
                left_s = None if until is None else max(until - time.monotonic(), 0.0)
                data = read_piece(self._socket, left_s)
                if data is None:
                    raise TimeoutError
                if not data:
                    return None
                self._received += data
        except TimeoutError:
            raise
        except (OSError, ValueError):
            return None
        return packet

    def close(self) -> None:
        self._socket.close()


def is_answered(path: str) -> bool:
    """Tell whether there is a connection that can be spoken to by this socket. Raises TimeoutError where it hangs."""
    with suppress(Refused), closing(MuxSocket(path)):
        return True
    return False


def _check_owner(path: Path) -> None:
    """Whoever answers here is told commands, and what they read."""
    try:
        status = path.lstat()
    except OSError:
        raise Refused from None
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
        raise RlxError(f"{path}: not a socket of this user, and ssh shares a connection there", "remove it")


def _taken(received: bytearray) -> Packet | None:
    """Take the first packet of what was received; None if it is not all there. Raises ValueError for what is none."""
    if len(received) < _NUMBER.size:
        return None
    (length,) = _NUMBER.unpack_from(received)
    if not _NUMBER.size <= length <= _LONGEST:
        raise ValueError
    if len(received) < _NUMBER.size + length:
        return None
    body = bytes(received[_NUMBER.size : _NUMBER.size + length])
    del received[: _NUMBER.size + length]
    words = min(len(body) // _NUMBER.size, _MOST_NUMBERS)
    kind, *numbers = struct.unpack_from(f">{words}I", body)
    return Packet(kind, tuple(numbers))


def _number(*numbers: int) -> bytes:
    return b"".join(map(_NUMBER.pack, numbers))


def _text(text: str) -> bytes:
    return _packet(text.encode(errors="surrogateescape"))


def _packet(body: bytes) -> bytes:
    return _number(len(body)) + body
