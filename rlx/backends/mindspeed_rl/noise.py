"""rlx's own noise on a run of MindSpeed-RL: sigma by iteration, and what travels with the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.length import epoch_iterations
from rlx.backends.shared.noise import NOISE, payload_schedule, payload_settings, processes_of
from rlx.backends.shared.payload_files import modules
from rlx.model import Link, NoiseProcess, NoiseSchedule, PlannedFile
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.backends.shared.effective import EffectiveSettings
    from rlx.recipe.schema import Recipe

HOOK = "rlx_mindspeed_rl_hook"  # the payload's modules begin with it


_TP = "generate_config.infer_tensor_parallel_size"
# It logs no distance between rollout and actor, and does not validate in training: no noise is felt, none lifted.
_LINKS = (Link.ASKED, Link.REACHED, Link.DRAWN, Link.TRAINED_ON)


def schedule(recipe: Recipe, settings: EffectiveSettings, iterations: int) -> NoiseSchedule | None:
    """Schedule the noise; None for an arm without. Raises UsageError where an epoch's rows are needed and not known."""
    return payload_schedule(recipe, iterations, epoch_iterations(recipe), _LINKS, _processes(recipe, settings))


def _processes(recipe: Recipe, settings: EffectiveSettings) -> tuple[NoiseProcess, ...]:
    """Every NPU has a worker that trains and generates; neighbours hold one model of the engine."""
    tp, per_node = settings.get(_TP), recipe.layout.devices_per_node
    if type(tp) is not int or tp < 1:
        return ()
    return processes_of(recipe.layout.nodes * per_node, per_node, tp)


def noise_files(recipe: Recipe, noise: NoiseSchedule | None) -> Iterator[PlannedFile]:
    """mindspeed_rl_env.py finds them and gives them to the workers; a control has none."""
    if noise is None or recipe.aqn is None:
        return
    settings = payload_settings(recipe, recipe.aqn, len(noise.sigmas), epoch_iterations(recipe))
    yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", settings)
    yield from modules(NOISE)
    yield from modules(HOOK, payload_folder("mindspeed_rl"))
