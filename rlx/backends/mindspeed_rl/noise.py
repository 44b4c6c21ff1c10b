"""rlx's own noise on a run of MindSpeed-RL: sigma by iteration, and what travels with the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.length import epoch_iterations
from rlx.backends.shared.noise import NOISE, payload_schedule, payload_settings
from rlx.backends.shared.payload_files import modules
from rlx.plan import NoiseSchedule, PlannedFile
from rlx.plan.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

HOOK = "rlx_mindspeed_rl_hook"  # the payload's modules begin with it


def schedule(recipe: Recipe, iterations: int) -> NoiseSchedule | None:
    """Schedule the noise; None for an arm without. Raises UsageError where an epoch's rows are needed and not known."""
    return payload_schedule(recipe, iterations, epoch_iterations(recipe))


def noise_files(recipe: Recipe, noise: NoiseSchedule | None) -> Iterator[PlannedFile]:
    """mindspeed_rl_env.py finds them and gives them to the workers; a control has none."""
    if noise is None:
        return
    yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", payload_settings(recipe, len(noise.sigmas), epoch_iterations(recipe)))
    yield from modules(NOISE)
    yield from modules(HOOK, payload_folder("mindspeed_rl"))
