"""Derive what the log must show from verl's effective settings: steps, validations, noise and records of weights.

Sources: `fit` and `_create_dataloader` of verl 0.6.1 to 0.9.1, and recipe/dapo/dapo_ray_trainer.py. Training steps are
counted from 1; step 0 is the validation before training. verl's own trainers take a step for each batch, also 0.9.1
where it filters groups: it begins its data anew until the step is full. The DAPO recipe's trainer may take several
batches of the data for one step, and ends with the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.shared.assembly import MOST_STEPS
from rlx.backends.shared.noise import payload_schedule, processes_of, scheduled, watch_expectation
from rlx.backends.shared.overrides import Override
from rlx.backends.shared.payload_files import is_recorded
from rlx.backends.verl.key_names import LOG_PROBS_KEY, correction_of
from rlx.backends.verl.keys import release
from rlx.backends.verl.overrides import VerlRendering
from rlx.backends.verl.trainers import is_dapo_recipe, is_own_program
from rlx.errors import UsageError
from rlx.evidence.log_grammar import Role
from rlx.model import (
    BatchesAStep,
    Expectations,
    Link,
    NoiseExpectation,
    NoiseProcess,
    NoiseSchedule,
    WeightExpectation,
    stage_sigmas,
)

if TYPE_CHECKING:
    from rlx.recipe.schema import Aqn

Settings = Mapping[str, object]
_FILTER = "algorithm.filter_groups"
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
_SHOWN = ((0, 8), (0, 10))
"""The versions, up to but without the last, whose trainer and engine the hooks were written for."""
_WARM_UP = "trainer.critic_warmup"


def settings_of(overrides: tuple[Override, ...]) -> Settings:
    """Key → value as verl gets it; of a map, also each key below."""
    return {key: value for override in overrides if override.prefix != "~" for key, value in override.leaves()}


def expectations(rendering: VerlRendering, settings: Settings) -> Expectations:
    """Derive what the log must show. Raises UsageError where an override replaces a number by something else."""
    length = run_length(rendering, settings)
    totals = rendering.recipe.backend.totals
    every = whole(settings, "trainer.test_freq")
    before_train = settings["trainer.val_before_train"] is True
    correction = correction_of(lambda key: settings.get(key, rendering.table.defaults.get(key)))
    # With bypass verl computes no probabilities of the actor before the update, so there is no gap to log.
    bypass = correction is not None and correction.bypass
    return Expectations(
        total_steps=length.total,
        validation_steps=totals.validations if totals else _validation_steps(length, every, before_train),
        last_step_validated=(
            totals.steps in totals.validations if totals else every > 0 and not length.data_ends_first
        ),
        validation_items=rendering.recipe.data.val_rows,
        validation_samples=count(settings, "actor_rollout_ref.rollout.val_kwargs.n"),
        metric=rendering.recipe.eval.metric,
        noise=noise_schedule(rendering, settings, length.total, length.by_data, length.epoch),
        reports_probability_gap=settings.get(LOG_PROBS_KEY) is True and not bypass,
        witness=Role.POLICY_KL.value if bypass else "",
        correction=correction,
        watch=watch(rendering, settings, length.total),
        batches=batches_a_step(rendering, settings),
        weights=weight_expectation(rendering, settings),
    )


def _validation_steps(length: Length, every: int, before_train: bool) -> tuple[int, ...]:
    steps = {0} if before_train else set()
    if every > 0 and length.last is not None:
        steps.update(range(every, length.last + 1, every))
        if not length.data_ends_first:
            steps.add(length.last)
    return tuple(sorted(steps))


@dataclass(frozen=True, slots=True)
class Length:
    """Steps of the run. `total` is what verl announces, `by_data` where its epochs end; None: not known beforehand.

    Where a step may take several batches, `by_data` is the most that the data can give. `epoch` are the steps of one
    epoch.

    The data can end first: then verl stops without taking any step for its last one.
    """

    total: int | None
    by_data: int | None
    epoch: int | None = None

    @property
    def data_ends_first(self) -> bool:
        return self.total is not None and self.by_data is not None and self.by_data < self.total

    @property
    def last(self) -> int | None:
        return self.by_data if self.data_ends_first else self.total


def run_length(rendering: VerlRendering, settings: Settings) -> Length:
    """verl drops the last, incomplete batch of an epoch. Raises UsageError for a setting that is no count of steps."""
    totals = rendering.recipe.backend.totals
    length = Length(totals.steps, None) if totals else _counted(rendering, settings)
    if length.total is not None and length.total > MOST_STEPS:
        raise UsageError(
            f"the run would have {length.total:,} steps, and a plan lists each up to {MOST_STEPS:,}",
            "lower train.steps or train.epochs",
        )
    return length


def batches_a_step(rendering: VerlRendering, settings: Settings) -> BatchesAStep | None:
    """Count the batches per step that the DAPO recipe's trainer logs; None for trainers that take one, or log none."""
    if not is_dapo_recipe(rendering.recipe, rendering.version):
        return None
    if settings.get(f"{_FILTER}.enable") is not True:
        return BatchesAStep(1, 1)
    most = settings.get(f"{_FILTER}.max_num_gen_batches")
    least = -(-count(settings, "data.train_batch_size") // _generated(rendering, settings))
    return BatchesAStep(least, most if type(most) is int and most > 0 else None)


def _counted(rendering: VerlRendering, settings: Settings) -> Length:
    rows, most_rows = rendering.recipe.data.train_rows, settings.get("data.train_max_samples")
    if rows is not None and type(most_rows) is int and most_rows > 0:
        rows = min(rows, most_rows)
    epochs = count(settings, "trainer.total_epochs")
    a_step = batches_a_step(rendering, settings) or BatchesAStep(1, 1)
    batches = None if rows is None else rows // _generated(rendering, settings)
    announced = None if batches is None else batches * epochs
    steps = settings.get("trainer.total_training_steps")
    total = announced if steps is None else count(settings, "trainer.total_training_steps")
    by_data = None if announced is None else announced // a_step.least
    return Length(total, by_data, batches if a_step.most == 1 else None)


def _generated(rendering: VerlRendering, settings: Settings) -> int:
    """Prompts of a batch of the data. The DAPO recipe's own default is a reference to the other size."""
    written = settings.get("data.gen_batch_size")
    if is_dapo_recipe(rendering.recipe, rendering.version) and type(written) is int and written > 0:
        return written
    return count(settings, "data.train_batch_size")


def count(settings: Settings, key: str) -> int:
    value = whole(settings, key)
    if value < 1:
        raise UsageError(f"overrides.{key}: must be at least 1, found {value}", "remove it, or write a larger number")
    return value


def whole(settings: Settings, key: str) -> int:
    value = settings.get(key)
    if type(value) is not int:
        from rlx.recipe.schema_errors import describe

        raise UsageError(
            f"overrides.{key}: rlx must know this number beforehand, found {describe(value)}", "write a whole number"
        )
    return value


def noise_schedule(
    rendering: VerlRendering,
    settings: Mapping[str, object],
    total_steps: int | None,
    by_data: int | None,
    epoch_steps: int | None = None,
) -> NoiseSchedule | None:
    """Sigma of each of `total_steps` steps; None for an arm without noise, or of unknown length.

    `settings`: key → value as verl gets it. `by_data` is the number of steps until the epochs end: the fork's own
    noise takes that for the length of the run. `epoch_steps` are the steps of one epoch. Raises UsageError where the
    noise needs them and they are not known.
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
    return scheduled(recipe, aqn, sigmas, NoiseExpectation(links))


def watch(rendering: VerlRendering, settings: Mapping[str, object], total_steps: int | None) -> NoiseExpectation | None:
    """Expect what an arm without noise shows of that; None where rlx brings none to any arm, or could bring none here.

    This never prevents a training: where the hooks would refuse a noisy arm, this one is not watched.
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
    return watch_expectation(recipe, watched, total_steps, links, rollout_processes(rendering, settings), probed=probed)


def _is_hookable(rendering: VerlRendering, settings: Mapping[str, object], watched: Aqn) -> bool:
    """Tell whether verl's own rollout would take this noise, as far as that is known before the start."""
    recipe = rendering.recipe
    if recipe.rollout.engine != "vllm":
        return False
    if recipe.rollout.tp > 1 and "linear" in watched.layer_types:
        return False

    if release(rendering.version) < (0, 7):
        return recipe.layout.nodes == 1 and setting_is(rendering, settings, _SLEEPS, True)
    return all(setting_is(rendering, settings, key, value) for key, value in HOOKABLE.items())


def setting_is(rendering: VerlRendering, settings: Mapping[str, object], key: str, value: object) -> bool:
    """Tell whether a key has this value, by what is set or else by default; so it has where this verl lacks it."""
    return settings.get(key, rendering.table.defaults.get(key, value)) == value


def _is_probed(rendering: VerlRendering) -> bool:
    """Tell whether a request can ask for the score of a prompt: verl 0.7.1 hands on none of vLLM's."""
    engine = rendering.recipe.rollout.engine
    return engine == "cpu" or (engine == "vllm" and release(rendering.version) >= (0, 8))


def _links(rendering: VerlRendering, aqn: Aqn) -> Iterator[Link]:
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


def rollout_processes(rendering: VerlRendering, settings: Mapping[str, object]) -> tuple[NoiseProcess, ...]:
    """Count them as verl does: neighbours among the workers are one replica, its shards one after another.

    Source: `ServerAdapter.__init__` of verl 0.7.1 to 0.9.1, `vLLMAsyncRollout` of 0.6.1. Empty for a rollout in
    pipelines, whose ranks hold different layers, for roles on devices of their own, and where a number is not known.
    """
    values = (settings.get(key, 1) for key in _SIZES)
    # 0 where a number is not known before the start.
    sizes = [value if type(value) is int and value > 0 else 0 for value in values]
    if not all(sizes) or sizes[-1] > 1 or rendering.recipe.layout.pools is not None:
        return ()
    nodes, per_node, tp, shards, _ = sizes
    return processes_of(nodes * per_node, per_node, tp, shards)


def fork_sigma(aqn: Aqn, step: int, schedule_steps: int) -> float:
    """Sigma that the fork puts on the weights of the rollout which its log reports as `step`, counted from 1.

    Source: zhshgmail/verl cfb21db5, `get_sigma_by_step` in verl/utils/noise_injection.py. The trainer hands over its
    step after the update, for the next weight sync: the rollout of step s gets s - 1. Floats as there, with their
    borders.
    """
    by_stage = stage_sigmas(aqn.sigma_start, aqn.sigma_end, aqn.stages)
    stage = int(min(step - 1, schedule_steps) // (schedule_steps / aqn.stages))
    return by_stage[min(stage, aqn.stages - 1)]


def weight_expectation(rendering: VerlRendering, settings: Mapping[str, object]) -> WeightExpectation | None:
    """Expect the records of the trainer's workers and of the processes that generate; None where there are none.

    The hooks go into verl's own program with FSDP, and into an engine that they know.
    """
    recipe, layout = rendering.recipe, rendering.recipe.layout
    first, last = _SHOWN
    is_recorded_by_hooks = (
        is_recorded(recipe.env)
        and is_own_program(recipe.backend, rendering.version)
        and recipe.backend.engine in ("fsdp", "fsdp2")
        and recipe.rollout.engine in ("cpu", "vllm")
        and layout.pools is None
        and first <= release(rendering.version) < last
        and all(setting_is(rendering, settings, key, value) for key, value in HOOKABLE.items())
    )
    if not is_recorded_by_hooks:
        return None
    return WeightExpectation(
        trainers=layout.nodes * layout.devices_per_node,
        engines=len(rollout_processes(rendering, settings)),
        syncs_each_step=setting_is(rendering, settings, _WARM_UP, 0),
    )
