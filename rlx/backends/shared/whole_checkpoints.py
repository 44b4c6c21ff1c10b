"""Tell whole checkpoints from those that were cut off, by what trainers write and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from rlx.model.attempt_lineage import CheckpointFiles, SavedCheckpoint

LATEST = "latest_checkpointed_iteration.txt"
"""The file that verl, Megatron and the payload for TRL write after a checkpoint, with its step."""
# What ends an archive of torch.save: the record at the end of a zip, without a comment.
_END_OF_ZIP = "504b0506"


class ResumePart(Protocol):
    """`resume` of a back-end's folder."""

    MARKER: str
    """The file beside the checkpoints that names the last one; what a back-end goes on from by itself."""

    KEYS: Sequence[str]
    """Settings in which an attempt that goes on differs from the one before, and may."""

    def checkpoints(self, files: CheckpointFiles) -> list[SavedCheckpoint]:
        """All checkpoints that are there, by their steps, with what each lacks."""
        ...


def checkpoints_of(files: CheckpointFiles, form: str, parts: Sequence[str]) -> list[SavedCheckpoint]:
    """Return the checkpoints whose folders have this form, a pattern with the step as its group, by their steps.

    `parts`: what each must hold, as beginnings of paths in it.
    """
    folders = {path.partition("/")[0] for path in files.sizes if "/" in path}
    steps = {folder: int(found[1]) for folder in folders if (found := re.fullmatch(form, folder))}
    last = files.texts.get(LATEST, "")
    return [
        SavedCheckpoint(step, folder, next(_lacks(files, folder, step, parts, last), ""))
        for folder, step in sorted(steps.items(), key=lambda item: item[1])
    ]


def _lacks(files: CheckpointFiles, folder: str, step: int, parts: Sequence[str], last: str) -> Iterator[str]:
    own = {path.removeprefix(f"{folder}/"): size for path, size in files.sizes.items() if path.startswith(f"{folder}/")}
    for part in parts:
        if not any(path.startswith(part) for path in own):
            yield f"it has no {part.rstrip('/')}"
    if not last.isdecimal():
        yield f"{LATEST} does not say which is the last whole one"
    elif step > int(last):
        yield f"it was not written to its end: {LATEST} says {int(last)}"
    for path, size in own.items():
        if not size:
            yield f"{path} is empty"
        if not files.tails.get(f"{folder}/{path}", _END_OF_ZIP).startswith(_END_OF_ZIP):
            yield f"{path} is cut off"
