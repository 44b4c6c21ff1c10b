"""Exchange bytes with what runs behind two pipes, and a file that it complains into."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from contextlib import suppress
from typing import IO

from rlx.hosts.link import MOST_ANSWER_BYTES, AnswerTooLong
from rlx.hosts.opening import Opening

CHUNK_BYTES = 65536


def transfer(
    stdin: IO[bytes],
    stdout: IO[bytes],
    err: IO[bytes],
    data: bytes,
    until: float,
    opening: Opening,
    *,
    end_input: bool = False,
) -> bytearray:
    """All of `stdout`, after sending `data`. Raises TimeoutError, or AnswerTooLong."""
    out, rest, sending = bytearray(), memoryview(data), True
    os.set_blocking(stdin.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(stdout, selectors.EVENT_READ)
        ready.register(stdin, selectors.EVENT_WRITE)
        while stdout in ready.get_map():
            for key, _ in ready.select(_wait_s(until, out, err)):
                if key.fileobj is stdin:
                    rest = _sent(stdin, rest)
                elif chunk := os.read(key.fd, CHUNK_BYTES):
                    out += chunk
                    opening.take(chunk)
                else:
                    ready.unregister(stdout)
            if opening.asks_again():
                rest, sending = memoryview(bytes(rest) + data), True
                _watch(ready, stdin)
            if sending and not rest:
                sending = False
                ready.unregister(stdin)
                if end_input:
                    stdin.close()
    return out


def await_end(process: subprocess.Popen[bytes], until: float, out: bytearray, err: IO[bytes]) -> bytes:
    """Wait for the end of what was read to its end, since that may go on to complain; returns `out`.

    Raises TimeoutError, or AnswerTooLong.
    """
    while process.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_wait_s(until, out, err))
    _check_size(out, err)
    return bytes(out)


def send_all(stdin: IO[bytes], data: bytes) -> None:
    """Send it, whether or not anybody reads it."""
    with suppress(BrokenPipeError):
        stdin.write(data)
        stdin.flush()


def read_piece(pipe: IO[bytes], timeout_s: float | None) -> bytes | None:
    """Read what is there next; nothing at the end, None if nothing came in time."""
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        if not ready.select(timeout_s):
            return None
    return os.read(pipe.fileno(), CHUNK_BYTES)


def close_pipe(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(BrokenPipeError):
            pipe.close()


def _watch(ready: selectors.BaseSelector, pipe: IO[bytes]) -> None:
    if pipe not in ready.get_map():
        ready.register(pipe, selectors.EVENT_WRITE)


def _wait_s(until: float, out: bytearray, err: IO[bytes]) -> float:
    """Choose a short wait: nobody tells that the file of complaints grows. Raises TimeoutError or AnswerTooLong."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    _check_size(out, err)
    return min(left, 1.0)


def _check_size(out: bytearray, err: IO[bytes]) -> None:
    if max(len(out), os.fstat(err.fileno()).st_size) > MOST_ANSWER_BYTES:
        raise AnswerTooLong


def _sent(stdin: IO[bytes], rest: memoryview) -> memoryview:
    """Write as much as the pipe takes, since each call costs milliseconds while another thread imports.

    Returns what remains; nothing where nobody reads any more.
    """
    try:
        return rest[os.write(stdin.fileno(), rest) :]
    except BrokenPipeError:
        return rest[:0]
