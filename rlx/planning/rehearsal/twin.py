"""The values of a rehearsal: the derived recipe, what was changed, and what it cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.planning.rehearsal.rows import Rows
from rlx.planning.rehearsal.tiny_shapes import TinyModel

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe


@dataclass(frozen=True, slots=True)
class Change:
    """A dotted key of the recipe with its value, the value of the rehearsal, and the reason."""

    key: str
    recipe: object
    rehearsed: object
    why: str


@dataclass(frozen=True, slots=True)
class Untold:
    """A part of the recipe that the rehearsal says nothing about."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Places:
    """Folders on this machine: of the tiny model, and of the data files."""

    model: str
    data: str

    @property
    def train(self) -> str:
        return f"{self.data}/train.parquet"

    @property
    def val(self) -> str:
        return f"{self.data}/val.parquet"


@dataclass(frozen=True, slots=True)
class Engine:
    """What generates: `name` as in `rollout.engine`, and the interpreter that has it.

    `head_dim`: the least width of a head for which it has a kernel.
    """

    name: str = "cpu"
    python: str = "python3"
    head_dim: int = 8
    shown: str = "rlx's own rollout on torch"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """`resolved` is a recipe for stock verl on this CPU. `factor`: what all batch sizes in prompts were divided by.

    `files`: content of further files of the run, by their path in the run directory. `rows`: "train" and "val".
    """

    resolved: ResolvedRecipe
    factor: int
    model: TinyModel
    changes: tuple[Change, ...]
    untold: tuple[Untold, ...]
    files: Mapping[str, str]
    rows: Mapping[str, Rows]
    engine: Engine
