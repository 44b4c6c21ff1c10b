"""Fetch the files of runs from their hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.selection import Runs
    from rlx.runs.copies.pull import Pulled

WAIVERS_NAME = "waivers.json"
Progress = Callable[[int, int], None]
"""Takes the bytes that have come, and of how many."""


def _unwatched(done: int, total: int) -> None:
    pass


def pull(
    runs: Runs, to: str | Path = ".", *, checkpoints: bool = False, progress: Progress = _unwatched
) -> dict[str, list[Pulled]]:
    """Fetch log, metrics, noise events and validation outputs of runs into `to`/RUN_ID, with `checkpoints` those, too.

    Returns the files of each run by its id, with path, outcome and bytes; each was verified by its SHA-256 on the
    host. What is here is kept: the same call goes on where it was cut off. Raises NoSuchRun, HostError where the
    connection breaks, RlxError where nothing can be written here.
    """
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.runs.copies.pull import pull as pull_run
    from rlx.runs.index.kept_waivers import waivers_file

    index = open_index()
    refs = runs_or_latest(index, runs)
    found = {
        ref.run_id: pull_run(ref, Path(to) / ref.run_id, checkpoints=checkpoints, narrate=progress) for ref in refs
    }
    for ref in refs:
        _take_waivers(waivers_file(index.home, ref.run_id), Path(to) / ref.run_id / WAIVERS_NAME)
    return found


def _take_waivers(source: Path, target: Path) -> None:
    """Put what was accepted of a run on this machine beside what its host has of it."""
    if source.is_file():
        try:
            target.write_bytes(source.read_bytes())
        except OSError as error:
            raise RlxError(
                f"{target}: {error.strerror}", "make room there, or choose another folder with --to"
            ) from None
