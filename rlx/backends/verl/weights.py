"""Promise what verl records of its weights, and what travels with it for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlx.backends.shared.payload_files import is_recorded, modules, program, weight_files
from rlx.backends.verl.keys import release
from rlx.backends.verl.noise import HOOKABLE, rollout_processes, setting_is
from rlx.backends.verl.overrides import Rendering
from rlx.backends.verl.overrides.weights import HOOK
from rlx.backends.verl.trainers import is_own_program
from rlx.model import PlannedFile, WeightPromise
from rlx.resources import payload_folder

_SHOWN = ((0, 8), (0, 10))
"""The versions, up to but without the last, whose trainer and engine the hooks were written for."""
_WARM_UP = "trainer.critic_warmup"
_COMMON = ("rlx_aqn_hook.py", "rlx_aqn_settings.py")


def weight_promise(rendering: Rendering, settings: Mapping[str, object]) -> WeightPromise | None:
    """Promise the records of the trainer's workers and of the processes that generate; None where there are none."""
    if not records_weights(rendering):
        return None
    if not all(setting_is(rendering, settings, key, value) for key, value in HOOKABLE.items()):
        return None
    layout = rendering.recipe.layout
    engines = rollout_processes(rendering, settings)
    return WeightPromise(
        trainers=layout.nodes * layout.devices_per_node,
        engines=len(engines),
        syncs_each_step=setting_is(rendering, settings, _WARM_UP, 0),
    )


def records_weights(rendering: Rendering) -> bool:
    """Tell whether the hooks go into this run: verl's own program with FSDP, and an engine that they know."""
    recipe = rendering.recipe
    first, last = _SHOWN
    return (
        is_recorded(recipe.env)
        and is_own_program(recipe.backend, rendering.version)
        and recipe.backend.engine in ("fsdp", "fsdp2")
        and recipe.rollout.engine in ("cpu", "vllm")
        and recipe.layout.pools is None
        and first <= release(rendering.version) < last
    )


def files(others: frozenset[str]) -> Iterator[PlannedFile]:
    """Yield what travels with the run, but for the files of these paths, which travel already."""
    wanted = (*weight_files(), *modules(HOOK, payload_folder("verl")), *(program(name) for name in _COMMON))
    yield from (file for file in wanted if file.path not in others)
