"""Copy files of a run to this machine: resumable, and verified by the digest of the host.

A file is `NAME.part` until its digest is right. An existing file is never overwritten: one that is the beginning of the
run's, as an earlier pull of a growing log left it, is completed, and any other one is left alone.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from rlx.errors import RlxError
from rlx.hosts import transport_for
from rlx.hosts.host_errors import ConnectionLost, Garbled, reading_answer
from rlx.model import Cmd
from rlx.model.run_dir import ATTEMPTS_DIR, CHECKPOINTS_DIR, MANIFEST_FILE, STATE_DIR
from rlx.runs.run import RunRef

_LIST_TIMEOUT_S = 120.0
_MOST_FILES_A_CALL = 200
_MOST_NAME_BYTES_A_CALL = 30_000
"""A command travels as one argument of the host's shell, which has to be shorter than 128 kB."""
_DIGEST_BYTES = 65
# A file of 18 digits would hold an exabyte.
_LISTED = re.compile(r"^(file|denied) ([0-9]{1,18}) ([^\0\n]+)$", re.MULTILINE)
_MOST_HEAD_BYTES = 100
_PIECE_BYTES = 1 << 20


class PullOutcome(StrEnum):
    """What became of a file: copied now, present before as the host has it, or denied to the user on the host.

    foreign: another file has its name here. differs: it arrived twice with another digest than the host's.
    """

    COPIED = "copied"
    PRESENT = "present"
    DENIED = "denied"
    FOREIGN = "foreign"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Pulled:
    """One pulled file, its path as in the run directory. `sha256` is empty if nothing was verified."""

    path: str
    outcome: PullOutcome
    bytes: int = 0
    sha256: str = ""

    @property
    def is_good(self) -> bool:
        return self.outcome in (PullOutcome.COPIED, PullOutcome.PRESENT)


def pull(
    ref: RunRef, folder: Path, *, checkpoints: bool = False, narrate: Callable[[int, int], None] = lambda done, of: None
) -> list[Pulled]:
    """Copy manifest, logs, metrics, events and validation outputs into `folder`, and on request checkpoints.

    Each file is as long as it was when the pull began. `narrate` gets how many bytes have arrived, of how many. Raises
    HostError if the connection breaks: the same call continues from there.
    """
    try:
        results = _pull_once(ref, folder, _list_files(ref, checkpoints), narrate)
        wrong = {result.path for result in results if result.outcome is PullOutcome.DIFFERS}
        if wrong:
            again = [file for file in _list_files(ref, checkpoints) if file.path in wrong]
            results = [result for result in results if result.path not in wrong]
            results += _pull_once(ref, folder, again, narrate)
    except OSError as error:
        raise RlxError(
            f"{error.filename or folder}: {error.strerror}", "make room there, or choose another folder with --to"
        ) from None
    return sorted(results, key=lambda result: result.path)


def _pull_once(
    ref: RunRef, folder: Path, listed: Collection[Listed], narrate: Callable[[int, int], None]
) -> list[Pulled]:
    refused = {file.path: reason for file in listed if (reason := _obstacle(folder, file)) is not None}
    requests = [
        RequestedFile(file.path, file.bytes, _start(folder / file.path, file.bytes))
        for file in listed
        if file.path not in refused
    ]
    refuse_without_room(folder, sum(file.bytes - file.start for file in requests))
    count = _counter(sum(file.bytes - file.start for file in requests), narrate)
    results = [Pulled(path, outcome) for path, outcome in refused.items()]
    for batch in batches(requests):
        with deliver(ref, batch) as delivery:
            results += [_receive(folder / file.path, file, delivery, count) for file in batch]
    return results


def refuse_without_room(folder: Path, size: int) -> None:
    """Raise RlxError if so many bytes do not fit."""
    parent_folder = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(parent_folder).free
    if size > free:
        raise RlxError(
            f"{folder}: there is room for {free >> 10:,} KiB, and the host offers {size >> 10:,} KiB",
            "make room there, or choose another folder with --to",
        )


def _obstacle(folder: Path, file: Listed) -> PullOutcome | None:
    if file.denied:
        return PullOutcome.DENIED
    target = folder / file.path
    return PullOutcome.FOREIGN if target.exists() and not _may_be_beginning(target, file.bytes) else None


def _may_be_beginning(target: Path, size: int) -> bool:
    return target.is_file() and target.stat().st_size <= size


def _start(target: Path, size: int) -> int:
    """Return the offset from which a file is requested: what is here of it need not be sent again."""
    begun = target if target.exists() else _part(target)
    return begun.stat().st_size if begun.exists() and _may_be_beginning(begun, size) else 0


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def _counter(total: int, narrate: Callable[[int, int], None]) -> Callable[[int], None]:
    done = 0

    def count(number: int) -> None:
        nonlocal done
        done += number
        narrate(done, total)

    count(0)
    return count


def _receive(target: Path, file: RequestedFile, delivery: Delivery, count: Callable[[int], None]) -> Pulled:
    if target.exists() and file.start == file.bytes:
        expected = delivery.digest()
        if _sha256(target) != expected:
            return Pulled(file.path, PullOutcome.FOREIGN)
        return Pulled(file.path, PullOutcome.PRESENT, file.bytes, expected)
    part, was_here = _part(target), target.exists()
    target.parent.mkdir(parents=True, exist_ok=True)
    if was_here:
        shutil.copyfile(target, part)
    _append(part, file.start, delivery.data(file.bytes - file.start), count)
    expected = delivery.digest()
    if _sha256(part) != expected:
        part.unlink()
        return Pulled(file.path, PullOutcome.FOREIGN if was_here else PullOutcome.DIFFERS)
    part.replace(target)
    return Pulled(file.path, PullOutcome.COPIED, file.bytes, expected)


def _append(part: Path, start: int, pieces: Iterator[bytes], count: Callable[[int], None]) -> None:
    with part.open("ab") as file:
        file.truncate(start)
        for piece in pieces:
            file.write(piece)
            count(len(piece))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- the files of a run on its host ----------------------------------------------------------------------------------

SHA256 = """
sha256() {
    if sha256sum </dev/null >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi
}
"""

_ENTER = r"""
run=$1
shift
case $run in '~/'*) run=${HOME:?}${run#'~'} ;; esac
cd "$run" || exit
"""

# Files that cannot be read are listed; state files matter only in the run directory. Not every stat knows -c.
_LIST = f"""{_ENTER}
for each; do [ -e "$each" ] && set -- "$@" "$each"; shift; done
[ $# -gt 0 ] || exit 0
if stat -c %s . >/dev/null 2>&1; then
    find "$@" -path '*/{STATE_DIR}/*' -prune -o -type f -exec stat -c 'file %s %n' {{}} + 2>/dev/null
else
    find "$@" -path '*/{STATE_DIR}/*' -prune -o -type f -exec sh -c '
        for each; do [ ! -r "$each" ] || printf "file %d %s\\n" "$(wc -c <"$each")" "$each"; done' sh {{}} + 2>/dev/null
fi
find "$@" -path '*/{STATE_DIR}/*' -prune -o -exec sh -c '
    for each; do [ -r "$each" ] || printf "denied 0 %s\\n" "$each"; done' sh {{}} + 2>/dev/null
exit 0
"""

# $from $to $path for each file. A file that became shorter is filled up with zeros, so that what follows keeps its
# place; the digest shows it.
_DELIVER = f"""{_ENTER}{SHA256}
while [ $# -gt 0 ]; do
    [ "$1" -eq "$2" ] || {{ tail -c "+$(($1 + 1))" "$3"; cat /dev/zero; }} 2>/dev/null | head -c "$(($2 - $1))"
    head -c "$2" "$3" 2>/dev/null | sha256 | cut -c 1-64
    shift 3
done
"""


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of the run directory; `denied` may also be a folder."""

    path: str
    bytes: int
    denied: bool


@dataclass(frozen=True, slots=True)
class RequestedFile:
    """A request for the bytes of a file from `start` to `bytes`."""

    path: str
    bytes: int
    start: int


def _list_files(ref: RunRef, checkpoints: bool) -> list[Listed]:
    """List the files that a pull copies. Raises RlxError if the run directory is gone."""
    parts = [MANIFEST_FILE, ATTEMPTS_DIR, *([CHECKPOINTS_DIR] if checkpoints else [])]
    done = transport_for(ref.place).run(_shell(_LIST, ref, parts), timeout_s=_LIST_TIMEOUT_S)
    if done.code != 0:
        complaint = done.err.decode(errors="replace").strip() or f"exit {done.code}"
        raise RlxError(f"{ref.host}: {ref.remote_dir} cannot be read: {complaint}", "rlx status shows the run")
    listed = list(_parse_list(ref, done.out.decode(errors="surrogateescape"), parts))
    if not listed:
        raise RlxError(f"{ref.host}: nothing was found in {ref.remote_dir}", "does `find . -type f` there list files?")
    return listed


def _shell(script: str, ref: RunRef, arguments: Iterable[str]) -> Cmd:
    return Cmd("sh", "-c", script, "rlx-pull", ref.remote_dir, *arguments)


def _parse_list(ref: RunRef, text: str, parts: Sequence[str]) -> Iterator[Listed]:
    lines = _LISTED.findall(text)
    denied = {path for kind, _, path in lines if kind == "denied"}
    for kind, size, path in lines:
        # These names become paths on this machine.
        if path.split("/")[0] not in parts or ".." in PurePosixPath(path).parts:
            raise RlxError(f"{ref.host}: the run has a file {path!r}, which is outside of it")
        if kind == "denied" or path not in denied:
            yield Listed(path, int(size), kind == "denied")


def batches(files: Sequence[RequestedFile]) -> Iterator[list[RequestedFile]]:
    """Group as many files as fit into one command, because each command costs a round trip."""
    batch: list[RequestedFile] = []
    for file in files:
        names = sum(len(each.path.encode(errors="surrogateescape")) + 40 for each in (*batch, file))
        if batch and (len(batch) == _MOST_FILES_A_CALL or names > _MOST_NAME_BYTES_A_CALL):
            yield batch
            batch = []
        batch.append(file)
    if batch:
        yield batch


class Delivery:
    """The files of one call, in order: the data of each, then its digest."""

    def __init__(self, chunks: Iterator[bytes], host: str) -> None:
        self._chunks, self._host, self._rest = chunks, host, b""

    def data(self, size: int) -> Iterator[bytes]:
        """Read exactly `size` bytes in pieces. Raises ConnectionLost if they do not all come."""
        while size:
            chunk = self._rest or next(self._chunks, b"")
            if not chunk:
                raise ConnectionLost(
                    f"{self._host}: the connection broke while files were copied",
                    "the copied part is kept; the same command again continues from there",
                )
            piece, self._rest = chunk[:size], chunk[size:]
            size -= len(piece)
            yield piece

    def digest(self) -> str:
        """Read the SHA-256 of the file whose data was read before."""
        return b"".join(self.data(_DIGEST_BYTES)).decode(errors="replace").strip()


@contextmanager
def deliver(ref: RunRef, files: Sequence[RequestedFile]) -> Iterator[Delivery]:
    """Request the bytes of these files in one call."""
    arguments = [text for file in files for text in (str(file.start), str(file.bytes), file.path)]
    with transport_for(ref.place).stream(_shell(_DELIVER, ref, arguments)) as chunks:
        yield Delivery(chunks, ref.host)


# ---- one file --------------------------------------------------------------------------------------------------------

# One line, `<gzip|plain> <sha256>`, then the first $3 bytes of the file, which may grow. Nothing if it does not exist.
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

    `target` is written completely or not at all. Raises HostError if the host breaks off, or the data has another
    digest.
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
    """Read the encoding of the data, its digest, and the data; ("", "", …) if there is none."""
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
    return how, digest, chain([rest], chunks)


def _unpacked(data: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Unpack one piece at a time, and little more than `size` in all, whatever is sent."""
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
    """Write the data, and give it its name if it is what was expected: (bytes, sha256)."""
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
        raise RlxError(
            f"{target}: {problem.strerror}", "check whether the disk is full; nothing was deleted on the host"
        ) from None


def _write(pieces: Iterator[bytes], file: Any) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        file.write(piece)
        digest.update(piece)
        size += len(piece)
    file.flush()
    return size, digest.hexdigest()
