"""Hold what lies below the checkpoints of a run, and what of it a run can go on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files below a run's folder of checkpoints, by their paths in it.

    `sizes` in bytes; `tails`: the last 22 bytes of some in hexadecimal; `texts`: the words of small files beside the
    checkpoints.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    tails: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint: its `folder` and its step. `lacks`: why no run may go on from it; empty if it is whole."""

    step: int
    folder: str
    lacks: str = ""
