"""Fetch the files of runs from their hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.selection import Runs
    from rlx.runs.copies.pull import Pulled

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

    refs = runs_or_latest(open_index(), runs)
    return {ref.run_id: pull_run(ref, Path(to) / ref.run_id, checkpoints=checkpoints, narrate=progress) for ref in refs}
