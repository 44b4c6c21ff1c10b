"""Collect what a recipe asks of the machine that is to run it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class DataFile:
    """`role` is model, train or val, and for MindSpeed-RL mcore or packed.

    `rows` is what the recipe says, None where it says nothing.
    """

    role: str
    path: str
    rows: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Without a recipe nothing is wanted: the facts are shown, and few of them can be wrong.

    `cpus`: with fewer of them the run would wait for ever.
    """

    backend: str | None = None
    version: str | None = None
    python: str = "python3"
    workdir: str | None = None
    device: str | None = None
    devices: int = 0
    files: tuple[DataFile, ...] = ()
    cpus: int = 0


def wanted_by(arms: Sequence[ResolvedRecipe]) -> Wanted:
    """Of all arms: they run on the same machine, and differ in their files at most. Of none, nothing."""
    if not arms:
        return Wanted()
    resolved = [arm.recipe for arm in arms]
    first = resolved[0]
    return Wanted(
        backend=first.backend.kind,
        version=first.backend.version,
        python=first.backend.python,
        workdir=first.backend.workdir,
        device=first.layout.device,
        devices=max(one.layout.devices_per_node for one in resolved),
        files=_distinct(file for one in resolved for file in _files(one)),
        cpus=max(map(_cpus, arms)),
    )


def _files(recipe: Recipe) -> Iterator[DataFile]:
    yield DataFile("model", recipe.model.path)
    if recipe.backend.kind == "mindspeed-rl":
        from rlx.backends.mindspeed_rl.data import packed_files

        weights = recipe.overrides.get("actor_config.load")
        if isinstance(weights, str):
            yield DataFile("mcore", weights)
        yield from (DataFile("packed", path) for path in packed_files(recipe.data.train))
        return
    yield DataFile("train", recipe.data.train, recipe.data.train_rows, recipe.data.prompt_key)
    yield DataFile("val", recipe.data.val, recipe.data.val_rows, recipe.data.prompt_key)


def _cpus(resolved: ResolvedRecipe) -> int:
    recipe = resolved.recipe
    if recipe.backend.kind != "mindspeed-rl":
        return 0
    from rlx.backends.mindspeed_rl.backend import settings
    from rlx.backends.mindspeed_rl.script import needed_cpus

    try:
        return needed_cpus(settings(resolved), recipe.layout.devices_per_node, recipe.algorithm.kind)
    except UsageError:
        return 0  # rlx validate says what is wrong with it


def _distinct(files: Iterable[DataFile]) -> tuple[DataFile, ...]:
    return tuple(dict.fromkeys(files))
