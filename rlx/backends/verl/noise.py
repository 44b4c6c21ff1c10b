"""Noise as verl gets it: what rlx brings, or what a fork schedules by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rlx.backends.shared.noise import payload_schedule, processes_of, scheduled, watch_promise
from rlx.backends.verl.keys import release
from rlx.backends.verl.overrides import Rendering
from rlx.backends.verl.overrides.rollout import LOG_PROBS_KEY
from rlx.backends.verl.trainers import is_own_program
from rlx.model import Link, NoiseProcess, NoisePromise, NoiseSchedule, stage_sigmas

if TYPE_CHECKING:
    from rlx.recipe.schema import Aqn

_ROLLOUT = "actor_rollout_ref.rollout"
_SLEEPS = f"{_ROLLOUT}.free_cache_engine"
# What the hooks need beside that, where this verl has the key.
HOOKABLE = {f"{_ROLLOUT}.checkpoint_engine.backend": "naive", "trainer.v1.trainer_mode": "sync"}
_SIZES = (
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
    f"{_ROLLOUT}.tensor_model_parallel_size",
    f"{_ROLLOUT}.data_parallel_size",
    f"{_ROLLOUT}.pipeline_model_parallel_size",
)


def noise_schedule(
    rendering: Rendering,
    settings: Mapping[str, object],
    total_steps: int | None,
    by_data: int | None,
    epoch_steps: int | None = None,
) -> NoiseSchedule | None:
    """Sigma of each of `total_steps` steps; None for an arm without noise, or of unknown length.

    `settings`: key → value as verl gets it. `by_data` is the number of steps until the epochs end: the fork's own
    noise takes that for the length of the run. `epoch_steps` are the steps of one epoch. Raises UsageError where the
    noise needs them and nobody knows.
    """
    recipe = rendering.recipe
    aqn = recipe.aqn
    if aqn is None or total_steps is None:
        return None
    links = tuple(_links(rendering, aqn))
    if aqn.provider == "payload":
        processes, probed = rollout_processes(rendering, settings), _is_probed(rendering)
        return payload_schedule(recipe, total_steps, epoch_steps, links, processes, probed=probed)
    if not by_data:
        return None
    sigmas = tuple(fork_sigma(aqn, step, by_data) for step in range(1, total_steps + 1))
    return scheduled(recipe, aqn, sigmas, NoisePromise(links))


def watch(rendering: Rendering, settings: Mapping[str, object], total_steps: int | None) -> NoisePromise | None:
    """What an arm without noise shows of that; None where rlx brings none to any arm, or could bring none here.

    Nobody is kept from training by this: where the hooks would refuse a noisy arm, this one goes unwatched.
    """
    recipe, watched = rendering.recipe, rendering.resolved.watched
    if watched is None or recipe.aqn is not None or total_steps is None:
        return None
    if not is_own_program(recipe.backend, rendering.version):
        return None
    if recipe.rollout.engine != "cpu" and not _is_hookable(rendering, settings, watched):
        return None
    probed = _is_probed(rendering)
    links = (Link.ASKED, Link.REACHED, *([Link.FELT] if probed else []), Link.LIFTED)
    return watch_promise(recipe, watched, total_steps, links, rollout_processes(rendering, settings), probed=probed)


def _is_hookable(rendering: Rendering, settings: Mapping[str, object], watched: Aqn) -> bool:
    """Tell whether verl's own rollout would take this noise, as far as that is known before the start."""
    recipe = rendering.recipe
    if recipe.rollout.engine != "vllm":
        return False
    if recipe.rollout.tp > 1 and "linear" in watched.layer_types:
        return False

    if release(rendering.version) < (0, 7):
        return recipe.layout.nodes == 1 and setting_is(rendering, settings, _SLEEPS, True)
    return all(setting_is(rendering, settings, key, value) for key, value in HOOKABLE.items())


def setting_is(rendering: Rendering, settings: Mapping[str, object], key: str, value: object) -> bool:
    """Tell whether a key has this value, by what is set or else by default; so it has where this verl lacks it."""
    return settings.get(key, rendering.table.defaults.get(key, value)) == value


def _is_probed(rendering: Rendering) -> bool:
    """Tell whether a request can ask for the score of a prompt: verl 0.7.1 hands on none of vLLM's."""
    engine = rendering.recipe.rollout.engine
    return engine == "cpu" or (engine == "vllm" and release(rendering.version) >= (0, 8))


def _links(rendering: Rendering, aqn: Aqn) -> Iterator[Link]:
    """Tell what can be shown: a fork prints that it drew, rlx's hook records, rlx's own rollout is probed as well.

    The gap between rollout and actor shows what was felt where this verl can log it at all: a recipe that switches it
    off lets the promise stand.
    """
    if aqn.provider == "payload":
        yield from (Link.ASKED, Link.REACHED)
    yield Link.DRAWN
    if rendering.recipe.rollout.engine == "cpu" or LOG_PROBS_KEY in rendering.table:
        yield Link.FELT
    if aqn.provider == "payload":
        yield Link.LIFTED
    yield Link.TRAINED_ON


def rollout_processes(rendering: Rendering, settings: Mapping[str, object]) -> tuple[NoiseProcess, ...]:
    """Count them as verl does: neighbours among the workers are one replica, its shards one after another.

    Source: `ServerAdapter.__init__` of verl 0.7.1 to 0.9.1, `vLLMAsyncRollout` of 0.6.1. Empty for a rollout in
    pipelines, whose ranks hold different layers, for roles on devices of their own, and where a number is not known.
    """
    sizes = [_size(settings, key) for key in _SIZES]
    if not all(sizes) or sizes[-1] > 1 or rendering.recipe.layout.pools is not None:
        return ()
    nodes, per_node, tp, shards, _ = sizes
    return processes_of(nodes * per_node, per_node, tp, shards)


def _size(settings: Mapping[str, object], key: str) -> int:
    """Read a number of devices; 0 where nobody knows it before the start."""
    value = settings.get(key, 1)
    return value if type(value) is int and value > 0 else 0


def fork_sigma(aqn: Aqn, step: int, schedule_steps: int) -> float:
    """Sigma that the fork puts on the weights of the rollout which its log reports as `step`, counted from 1.

    Source: zhshgmail/verl cfb21db5, `get_sigma_by_step` in verl/utils/noise_injection.py. The trainer hands over its
    step after the update, for the next weight sync: the rollout of step s gets s - 1. Floats as there, with their
    borders.
    """
    by_stage = stage_sigmas(aqn.sigma_start, aqn.sigma_end, aqn.stages)
    stage = int(min(step - 1, schedule_steps) // (schedule_steps / aqn.stages))
    return by_stage[min(stage, aqn.stages - 1)]
