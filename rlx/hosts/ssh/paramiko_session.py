"""A paramiko channel as the local end of a remote shell."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from rlx.hosts.link import MOST_ANSWER_BYTES, AnswerTooLong, LeftSeconds
from rlx.hosts.opening import Opening

if TYPE_CHECKING:
    import paramiko

_CHUNK_BYTES = 65536
_LOST = 255
_NAP_S = 0.01


# With the connection gone, paramiko says either.
_GONE = (OSError, EOFError)


class ChannelSession:
    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._err = bytearray()
        self._err_reader = self._start(self._read_err)

    def exchange(self, data: bytes, timeout_s: float, opening: Opening) -> bytes:
        expired = threading.Event()
        timer = threading.Timer(timeout_s, self._expire, (expired,))
        timer.start()
        try:
            out = self._all(data, opening)
            self._err_reader.join()
            self._channel.status_event.wait()
        finally:
            timer.cancel()
        if expired.is_set():
            raise TimeoutError
        if max(len(out), len(self._err)) > MOST_ANSWER_BYTES:
            raise AnswerTooLong
        return bytes(out)

    def _all(self, data: bytes, opening: Opening) -> bytearray:
        out = bytearray()
        for chunk in self.chunks(data, lambda: None if opening.has_begun else 1.0):
            out += chunk
            opening.take(chunk)
            if opening.asks_again():
                self.send(data)
            if len(out) > MOST_ANSWER_BYTES:
                close(self._channel)
        return out

    def _expire(self, expired: threading.Event) -> None:
        expired.set()
        close(self._channel)

    def chunks(self, data: bytes, left_s: LeftSeconds) -> Iterator[bytes]:
        self.send(data)
        while (chunk := self._read(left_s())) != b"":
            yield chunk or b""

    def send(self, data: bytes) -> None:
        self._start(self._send, data)

    def _read(self, timeout_s: float | None) -> bytes | None:
        """Read what is there next; nothing at the end, None if nothing came in time."""
        # A time-out of the channel would hold for the threads beside this one, too.
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while until is not None and not self._channel.recv_ready() and not self._channel.eof_received:
            if self._channel.closed or time.monotonic() > until:
                return b"" if self._channel.closed else None
            time.sleep(_NAP_S)
        return self._channel.recv(_CHUNK_BYTES)

    def end(self) -> tuple[int, bytes]:
        self._err_reader.join()
        code = self._channel.recv_exit_status()
        return (_LOST if code == -1 else code), bytes(self._err)

    def _start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        return thread

    def _send(self, data: bytes) -> None:
        """Send in pieces, because paramiko copies what is left of one after every packet."""
        with suppress(*_GONE):
            for begin in range(0, len(data), _CHUNK_BYTES):
                self._channel.sendall(data[begin : begin + _CHUNK_BYTES])

    def _read_err(self) -> None:
        """Read it beside stdout, since both share the channel's window."""
        with suppress(*_GONE):
            while chunk := self._channel.recv_stderr(_CHUNK_BYTES):
                self._err += chunk
                if len(self._err) > MOST_ANSWER_BYTES:
                    close(self._channel)


def close(channel: paramiko.Channel) -> None:
    """Let whoever waits for the channel go on. None is left to close where the connection is gone."""
    with suppress(*_GONE):
        channel.close()
