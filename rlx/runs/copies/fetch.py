"""Brings one file of a run to this machine: whole, compressed where there is gzip, verified by the host's digest."""

from __future__ import annotations

import hashlib
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlx.errors import RlxError
from rlx.hosts import transport_for
from rlx.hosts.host_errors import ConnectionLost, Garbled, reading_answer
from rlx.model import Cmd
from rlx.runs.copies.pull_wire import SHA256
from rlx.runs.run import RunRef

_MOST_HEAD_BYTES = 100
_PIECE_BYTES = 1 << 20

# One line, `<gzip|plain> <sha256>`, and then the first $3 bytes of the file: it may grow. Nothing where it is not.
_SEND = (
    SHA256
    + r"""
run=$1
case $run in '~/'*) run=${HOME:?}${run#'~'} ;; esac
cd "$run" || exit
[ -f "$2" ] && [ -r "$2" ] || exit 0
how=plain
command -v gzip >/dev/null && how=gzip
echo "$how $(head -c "$3" "$2" | sha256 | cut -c 1-64)"
if [ "$how" = gzip ]; then head -c "$3" "$2" | gzip -1; else head -c "$3" "$2"; fi
"""
)


def fetch(ref: RunRef, path: str, size: int, target: Path) -> bool:
    """Copy the first `size` bytes of a file of the run directory to `target`; False if the user may not read it there.

    `target` is there whole or not at all. Raises HostError where the host breaks off, or what came is not what it has.
    """
    command = Cmd("sh", "-c", _SEND, "rlx-fetch", ref.remote_dir, path, str(size))
    with transport_for(ref.place).stream(command) as chunks:
        how, digest, data = _head(chunks, ref.host)
        if not how:
            return False
        with reading_answer(ref.host, path):
            pieces = _unpacked(data, size) if how == "gzip" else data
            _keep(ref, pieces, (size, digest), target)
    return True


def _head(chunks: Iterator[bytes], host: str) -> tuple[str, str, Iterator[bytes]]:
    """Split how the data comes, its digest, and the data; ("", "", …) where there is none."""
    begin = b""
    while b"\n" not in begin and len(begin) < _MOST_HEAD_BYTES:
        chunk = next(chunks, b"")
        if not chunk and not begin:
            return "", "", iter(())
        if not chunk:
            raise ConnectionLost(f"{host}: the connection broke while a file was copied", "try again")
        begin += chunk
    line, _, rest = begin.partition(b"\n")
    how, _, digest = line.decode(errors="replace").partition(" ")
    return how, digest, _chain(rest, chunks)


def _chain(first: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from chunks


def _unpacked(data: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Unpack never more than a piece at once, and not endlessly more than `size`, whatever comes."""
    unpacking, done = zlib.decompressobj(wbits=31), 0
    for chunk in data:
        while chunk and done <= size:
            try:
                piece = unpacking.decompress(chunk, _PIECE_BYTES)
            except zlib.error as problem:
                raise ValueError(str(problem)) from None
            done += len(piece)
            yield piece
            chunk = unpacking.unconsumed_tail


def _keep(ref: RunRef, pieces: Iterator[bytes], expected: tuple[int, str], target: Path) -> None:
    """Write what comes, and give it its name if it is what was expected: (bytes, sha256)."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", delete=False) as file:
            try:
                if _write(pieces, file) != expected:
                    raise Garbled(f"{ref.host}: what came of {target.name} is not what the host has", "try again")
                Path(file.name).replace(target)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as problem:
        raise RlxError(f"{target}: {problem.strerror}", "is the disk full? what the host has is still there") from None


def _write(pieces: Iterator[bytes], file: Any) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        file.write(piece)
        digest.update(piece)
        size += len(piece)
    file.flush()
    return size, digest.hexdigest()
