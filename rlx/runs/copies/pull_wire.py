"""Ask a host for a pull: which files there are, and their bytes, each file followed by its digest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from rlx.errors import RlxError
from rlx.hosts import transport_for
from rlx.hosts.host_errors import ConnectionLost
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

# What cannot be read is named; the state files say nothing outside of the run directory. Not every stat knows -c.
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

# $from $to $path for each file. A file that became shorter is filled up with zeros, so that what follows stays in its
# place; the digest tells.
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
class Wanted:
    """The bytes of a file from `start` to `bytes`."""

    path: str
    bytes: int
    start: int


def list_files(ref: RunRef, checkpoints: bool) -> list[Listed]:
    """The files that a pull brings. Raises RlxError if the run directory is gone."""
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
            raise RlxError(f"{ref.host}: the run has a file {path!r}, which lies outside of it")
        if kind == "denied" or path not in denied:
            yield Listed(path, int(size), kind == "denied")


def batches(files: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    """Put as many files together as fit into one command: each command costs a round trip."""
    batch: list[Wanted] = []
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
                    "what has come is kept; the same command again goes on from there",
                )
            piece, self._rest = chunk[:size], chunk[size:]
            size -= len(piece)
            yield piece

    def digest(self) -> str:
        """The SHA-256 of the file whose data came before."""
        return b"".join(self.data(_DIGEST_BYTES)).decode(errors="replace").strip()


@contextmanager
def deliver(ref: RunRef, files: Sequence[Wanted]) -> Iterator[Delivery]:
    """Ask for the bytes of these files in one call."""
    arguments = [text for file in files for text in (str(file.start), str(file.bytes), file.path)]
    with transport_for(ref.place).stream(_shell(_DELIVER, ref, arguments)) as chunks:
        yield Delivery(chunks, ref.host)
