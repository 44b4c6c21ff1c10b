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

    All count from 0. `node`: of the run, from 0.
    """

    replica: int = 0
    shard: int = 0
    rank: int = 0
    node: int = 0


@dataclass(frozen=True, slots=True)
class NoisePromise:
    """What a plan promises of its noise beyond sigma by step.

    `links`: those that this back-end and version can show. `settings` is what aqn.json holds, `digest` the first 16
    hexadecimal digits of the SHA-256 of that file. `processes`: all that must speak. `layers`: the modules that take
    noise, by their names in the model; empty where the architecture is not known. `elements`: how many weights those
    have together.
    """

    links: tuple[Link, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    processes: tuple[NoiseProcess, ...] = ()
    layers: tuple[str, ...] = ()
    elements: int | None = None
