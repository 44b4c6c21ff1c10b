"""Copies the files of a run into a folder of this machine: resumable, and verified by the digest of the host.

A file is `NAME.part` until its digest is right. What lies there already is never overwritten: a file that is the
beginning of the run's, as an earlier pull of a growing log left it, is completed, and any other one is left alone.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rlx.errors import RlxError
from rlx.runs.copies.pull_wire import Delivery, Listed, Wanted, batches, deliver, list_files
from rlx.runs.run import RunRef


class Outcome(StrEnum):
    """copied: it came now. present: it was here already, as the host has it. denied: the user may not read it there.

    foreign: another file of that name lies here. differs: what came was twice not what the host has.
    """

    COPIED = "copied"
    PRESENT = "present"
    DENIED = "denied"
    FOREIGN = "foreign"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Pulled:
    """One file, its path as in the run directory. `sha256` is empty where nothing was verified."""

    path: str
    outcome: Outcome
    bytes: int = 0
    sha256: str = ""

    @property
    def is_good(self) -> bool:
        return self.outcome in (Outcome.COPIED, Outcome.PRESENT)


def pull(
    ref: RunRef, folder: Path, *, checkpoints: bool = False, narrate: Callable[[int, int], None] = lambda done, of: None
) -> list[Pulled]:
    """Bring manifest, logs, metrics, events and validation outputs into `folder`, and checkpoints if they are wanted.

    Each file as long as it was when the pull began. `narrate` is told how many bytes have come, of how many. Raises
    HostError where the connection breaks: the same call goes on from there.
    """
    try:
        results = _pull_once(ref, folder, list_files(ref, checkpoints), narrate)
        wrong = {result.path for result in results if result.outcome is Outcome.DIFFERS}
        if wrong:
            again = [file for file in list_files(ref, checkpoints) if file.path in wrong]
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
    wanted = [
        Wanted(file.path, file.bytes, _start(folder / file.path, file.bytes))
        for file in listed
        if file.path not in refused
    ]
    refuse_without_room(folder, sum(file.bytes - file.start for file in wanted))
    count = _counter(sum(file.bytes - file.start for file in wanted), narrate)
    results = [Pulled(path, outcome) for path, outcome in refused.items()]
    for batch in batches(wanted):
        with deliver(ref, batch) as delivery:
            results += [_receive(folder / file.path, file, delivery, count) for file in batch]
    return results


def refuse_without_room(folder: Path, size: int) -> None:
    """Raise RlxError where so many bytes do not fit, because the host says how many there are."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if size > free:
        raise RlxError(
            f"{folder}: there is room for {free >> 10:,} KiB, and the host offers {size >> 10:,} KiB",
            "make room there, or choose another folder with --to",
        )


def _obstacle(folder: Path, file: Listed) -> Outcome | None:
    if file.denied:
        return Outcome.DENIED
    target = folder / file.path
    return Outcome.FOREIGN if target.exists() and not _may_be_beginning(target, file.bytes) else None


def _may_be_beginning(target: Path, size: int) -> bool:
    return target.is_file() and target.stat().st_size <= size


def _start(target: Path, size: int) -> int:
    """Choose from where on a file is asked for: what is here of it need not come again."""
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


def _receive(target: Path, file: Wanted, delivery: Delivery, count: Callable[[int], None]) -> Pulled:
    if target.exists() and file.start == file.bytes:
        return _compare(target, file, delivery.digest())
    part, was_here = _part(target), target.exists()
    target.parent.mkdir(parents=True, exist_ok=True)
    if was_here:
        shutil.copyfile(target, part)
    _append(part, file.start, delivery.data(file.bytes - file.start), count)
    expected = delivery.digest()
    if _sha256(part) != expected:
        part.unlink()
        return Pulled(file.path, Outcome.FOREIGN if was_here else Outcome.DIFFERS)
    part.replace(target)
    return Pulled(file.path, Outcome.COPIED, file.bytes, expected)


def _compare(target: Path, file: Wanted, expected: str) -> Pulled:
    if _sha256(target) != expected:
        return Pulled(file.path, Outcome.FOREIGN)
    return Pulled(file.path, Outcome.PRESENT, file.bytes, expected)


def _append(part: Path, start: int, pieces: Iterator[bytes], count: Callable[[int], None]) -> None:
    with part.open("ab") as file:
        file.truncate(start)
        for piece in pieces:
            file.write(piece)
            count(len(piece))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
