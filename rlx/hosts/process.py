"""Use a child process as the local end of a remote shell: exchange bytes with it by its pipes.

Its stderr is a file that it complains into.
"""

from __future__ import annotations

import atexit
import os
import selectors
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from rlx.hosts.connection import MOST_ANSWER_BYTES, AnswerTooLong, LeftSeconds, Opening
from rlx.hosts.host_errors import ToolMissing

_CHUNK_BYTES = 65536


class ProcessSession:
    """The pipes of an `ssh` or `docker` process. Stderr is a file: an ssh master inherits it and holds a pipe open."""

    def __init__(self, process: subprocess.Popen[bytes], err: IO[bytes]) -> None:
        self._process = process
        self._err = err

    def exchange(self, data: bytes, timeout_s: float, opening: Opening) -> bytes:
        # stdin stays open when all is sent: closed, it would over there mean to end the command.
        return exchange(self._process, data, self._err, timeout_s, opening)

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        _send_all(self._process.stdin, data)

    def chunks(self, data: bytes, left_s: LeftSeconds) -> Iterator[bytes]:
        assert self._process.stdout is not None
        self.send(data)
        while (chunk := _read_piece(self._process.stdout, left_s())) != b"":
            yield chunk or b""

    def end(self, timeout_s: float | None = None) -> tuple[int, bytes]:
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        self._err.seek(0)
        return code, self._err.read()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        _end(self._process)
        self._err.close()
        _open.discard(self)


def exchange(
    process: subprocess.Popen[bytes],
    data: bytes,
    err: IO[bytes],
    timeout_s: float,
    opening: Opening,
    *,
    end_input: bool = False,
) -> bytes:
    """Return all of stdout, after sending `data`, once the process has ended; its stderr goes to the file `err`.

    Raises TimeoutError, or AnswerTooLong if either grows beyond MOST_ANSWER_BYTES.
    """
    assert process.stdin is not None and process.stdout is not None
    until = time.monotonic() + timeout_s
    out = _transfer(process.stdin, process.stdout, err, data, until, opening, end_input=end_input)
    return _await_end(process, until, out, err)


_open: set[ProcessSession] = set()
_ahead: defaultdict[tuple[str, ...], list[ProcessSession]] = defaultdict(list)
"""Started and not used yet, by their command."""


@atexit.register
def _close_all() -> None:
    """Close sessions that were not used, and those whose threads are not waited for."""
    for session in tuple(_open):
        session.close()


@contextmanager
def process_session(argv: Sequence[str], environment: Mapping[str, str]) -> Iterator[ProcessSession]:
    """Yield the session that waits for this command, or a new one. Raises ToolMissing if the program is not there."""
    session = _taken(tuple(argv)) or _start(argv, environment)
    try:
        yield session
    finally:
        session.close()


def start_ahead(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start a program for the `process_session` that will ask for it. Raises ToolMissing."""
    _ahead[tuple(argv)].append(_start(argv, environment))


def _taken(argv: tuple[str, ...]) -> ProcessSession | None:
    # `pop` is one operation: two threads do not get the same.
    with suppress(IndexError):
        while session := _ahead[argv].pop():
            if session.is_running:
                return session
            session.close()
    return None


def _start(argv: Sequence[str], environment: Mapping[str, str]) -> ProcessSession:
    err = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the session
    try:
        # A session of its own: Ctrl-C at the terminal is rlx's to handle.
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        err.close()
        raise ToolMissing(
            f"local: cannot run {argv[0]}: {error.strerror}", f"install {argv[0]}; it must be on PATH"
        ) from None
    session = ProcessSession(process, err)
    _open.add(session)
    return session


def _end(process: subprocess.Popen[bytes]) -> None:
    """End this process only. Its group may hold the ProxyCommand of the shared connection that it once opened."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _transfer(
    stdin: IO[bytes],
    stdout: IO[bytes],
    err: IO[bytes],
    data: bytes,
    until: float,
    opening: Opening,
    *,
    end_input: bool = False,
) -> bytearray:
    """Return all of `stdout`, after sending `data`. Raises TimeoutError, or AnswerTooLong."""
    out, rest, sending = bytearray(), memoryview(data), True
    os.set_blocking(stdin.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(stdout, selectors.EVENT_READ)
        ready.register(stdin, selectors.EVENT_WRITE)
        while stdout in ready.get_map():
            for key, _ in ready.select(_wait_s(until, out, err)):
                if key.fileobj is stdin:
                    rest = _sent(stdin, rest)
                elif chunk := os.read(key.fd, _CHUNK_BYTES):
                    out += chunk
                    opening.take(chunk)
                else:
                    ready.unregister(stdout)
            if opening.asks_again():
                rest, sending = memoryview(bytes(rest) + data), True
                if stdin not in ready.get_map():
                    ready.register(stdin, selectors.EVENT_WRITE)
            if sending and not rest:
                sending = False
                ready.unregister(stdin)
                if end_input:
                    stdin.close()
    return out


def _await_end(process: subprocess.Popen[bytes], until: float, out: bytearray, err: IO[bytes]) -> bytes:
    """Wait for the end of what was read to its end, since that may go on to complain; returns `out`.

    Raises TimeoutError, or AnswerTooLong.
    """
    while process.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_wait_s(until, out, err))
    _check_size(out, err)
    return bytes(out)


def _send_all(stdin: IO[bytes], data: bytes) -> None:
    """Send it, whether or not it is read."""
    with suppress(BrokenPipeError):
        stdin.write(data)
        stdin.flush()


def _read_piece(pipe: IO[bytes], timeout_s: float | None) -> bytes | None:
    """Read what is there next; nothing at the end, None if nothing came in time."""
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        if not ready.select(timeout_s):
            return None
    return os.read(pipe.fileno(), _CHUNK_BYTES)


def _wait_s(until: float, out: bytearray, err: IO[bytes]) -> float:
    """Choose a short wait: no event says that the file of complaints grows. Raises TimeoutError or AnswerTooLong."""
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

    Returns what remains; nothing where it is no longer read.
    """
    try:
        return rest[os.write(stdin.fileno(), rest) :]
    except BrokenPipeError:
        return rest[:0]
