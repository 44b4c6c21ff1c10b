"""What a recipe asks of the machine that is to run it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.recipe import RecipeFile


@dataclass(frozen=True, slots=True)
class DataFile:
    """`role` is model, train or val; `rows` is what the recipe says, None where it says nothing."""

    role: str
    path: str
    rows: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Without a recipe nothing is wanted: the facts are shown, and few of them can be wrong."""

    backend: str | None = None
    version: str | None = None
    python: str = "python3"
    workdir: str | None = None
    device: str | None = None
    devices: int = 0
    files: tuple[DataFile, ...] = ()


def wanted_by(recipe: RecipeFile) -> Wanted:
    """Of all arms: they run on the same machine, and differ in their files at most."""
    resolved = [recipe.resolve(arm).recipe for arm in recipe.arms]
    first = resolved[0]
    return Wanted(
        backend=first.backend.kind,
        version=first.backend.version,
        python=first.backend.python,
        workdir=first.backend.workdir,
        device=first.layout.device,
        devices=max(one.layout.devices_per_node for one in resolved),
        files=_distinct(
            file
            for one in resolved
            for file in (
                DataFile("model", one.model.path),
                DataFile("train", one.data.train, one.data.train_rows, one.data.prompt_key),
                DataFile("val", one.data.val, one.data.val_rows, one.data.prompt_key),
            )
        ),
    )


def _distinct(files: Iterable[DataFile]) -> tuple[DataFile, ...]:
    return tuple(dict.fromkeys(files))
