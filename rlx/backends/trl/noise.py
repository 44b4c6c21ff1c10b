"""rlx's own noise on a run of TRL: sigma by step, what is shown of it, and what travels with the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.shared.noise import (
    NOISE,
    payload_schedule,
    payload_settings,
    processes_of,
    watch_promise,
    watch_settings,
)
from rlx.backends.shared.payload_files import modules
from rlx.backends.trl.arguments import Rendering
from rlx.backends.trl.length import epoch_steps
from rlx.model import Link, NoisePromise, NoiseSchedule, PlannedFile
from rlx.model.run_dir import PAYLOAD_DIR

if TYPE_CHECKING:
    from rlx.model import NoiseProcess

_LINKS = (Link.ASKED, Link.REACHED, Link.DRAWN, Link.FELT, Link.LIFTED, Link.TRAINED_ON)
_WATCH_LINKS = (Link.ASKED, Link.REACHED, Link.FELT, Link.LIFTED)


def schedule(rendering: Rendering, total: int) -> NoiseSchedule | None:
    """Schedule the noise; None for an arm without. Raises UsageError where an epoch's rows are needed and not known."""
    recipe = rendering.recipe
    return payload_schedule(recipe, total, epoch_steps(recipe), _LINKS, _processes(), probed=True)


def watch(rendering: Rendering, total: int) -> NoisePromise | None:
    """Promise what an arm without noise shows of that; None where no arm of the recipe has any."""
    recipe, watched = rendering.recipe, rendering.resolved.watched
    if watched is None or recipe.aqn is not None:
        return None
    return watch_promise(recipe, watched, total, _WATCH_LINKS, _processes(), probed=True)


def _processes() -> tuple[NoiseProcess, ...]:
    """One process trains and generates: more were not run."""
    return processes_of(1, 1, 1)


def noise_files(rendering: Rendering, total: int) -> Iterator[PlannedFile]:
    """Nothing where no arm of the recipe has noise."""
    recipe, watched = rendering.recipe, rendering.resolved.watched
    if recipe.aqn is not None and recipe.aqn.provider == "payload":
        settings = payload_settings(recipe, recipe.aqn, total, epoch_steps(recipe))
    elif recipe.aqn is None and watched is not None:
        settings = watch_settings(recipe, watched, total)
    else:
        return
    yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", settings)
    yield from modules(NOISE)
