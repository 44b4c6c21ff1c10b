"""The links of the chain of evidence that a plan promises for its noise, and what each is held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Link(StrEnum):
    """A link of the chain from "noise was announced" to "the actor was trained on it", in its order.

    asked: the settings in force are the plan's. reached: every process spoke, on the layers of the architecture. drawn:
    the noise differs by step and replica, and is as large as asked. felt: the engine that serves scores other than on
    clean weights. lifted: each validation saw clean weights, or noisy ones where that is declared. trained on: the
    actor learned from the samples that the noise produced.
    """

    ASKED = "asked"
    REACHED = "reached"
    DRAWN = "drawn"
    FELT = "felt"
    LIFTED = "lifted"
    TRAINED_ON = "trained on"


@dataclass(frozen=True, slots=True, order=True)
class NoiseProcess:
    """A process that holds weights which generate: its replica, its data-parallel shard there, its tensor rank there.

    All count from 0. `node` is where it is expected to run, from 0; Ray may deal nodes out in another order.
    """

    replica: int = 0
    shard: int = 0
    rank: int = 0
    node: int = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """Replica, shard and rank: which part of the rollout it is, wherever it runs."""
        return self.replica, self.shard, self.rank

    def __str__(self) -> str:
        parts = [f"replica {self.replica}"]
        parts += [f"shard {self.shard}"] if self.shard else []
        return ", ".join([*parts, *([f"rank {self.rank}"] if self.rank else [])])


@dataclass(frozen=True, slots=True)
class NoisePromise:
    """What a plan promises of its noise beyond sigma by step, or of the absence of any in an arm that is watched.

    An arm that is watched has the settings of another arm's noise, with sigma 0 throughout: the same processes look at
    the same weights at the same moments, and must see nothing.

    `links`: those that this back-end and version can show; empty for a plan of rlx 0.1 or 0.2, which promised none.
    `settings` is what aqn.json holds, `digest` the first 16 hexadecimal digits of the SHA-256 of that file.
    `processes`: all that must speak. `layers`: the modules that take noise, by their names in the model; empty where
    the architecture is not known. `elements`: how many weights those have together. `factor`: root mean square of the
    factors on sigma over these weights; None where it hangs on an unknown architecture. `confirmed`: the architecture
    is that of a config.json, or of a source that the table names, not from memory. `probed`: at each sync the engine
    that serves is asked for scores on clean and on noisy weights.
    """

    links: tuple[Link, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    processes: tuple[NoiseProcess, ...] = ()
    layers: tuple[str, ...] = ()
    elements: int | None = None
    factor: float | None = None
    confirmed: bool = True
    probed: bool = False

    def promises(self, link: Link) -> bool:
        return link in self.links
