"""What a run promises: steps, validations, noise."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from rlx.backends.verl.backend import plan
from rlx.backends.verl.expectations import fork_sigma
from rlx.errors import UsageError
from rlx.model import BatchesAStep, Expectations, NoiseExpectation, NoiseProcess, Site
from rlx.recipe.schema import Aqn
from tests.backends.conftest import AQN, CPU, MakeRecipe


def expected(recipe: MakeRecipe, *changes: dict[str, Any]) -> Expectations:
    return plan(recipe(*changes), Site()).expectations


def test_steps_are_whole_batches_times_epochs(recipe: MakeRecipe) -> None:
    promised = expected(recipe)
    assert promised.total_steps == 116
    assert promised.validation_steps == (0, 20, 40, 60, 80, 100, 116)
    assert promised.last_step_validated
    assert (promised.validation_items, promised.validation_samples) == (1319, 1)


@pytest.mark.parametrize(
    ("change", "steps", "last"),
    [
        ({"before_train": False}, (20, 40, 60, 80, 100, 116), True),
        ({"every": None}, (0,), False),
        ({"every": None, "before_train": False}, (), False),
        ({"every": 58}, (0, 58, 116), True),
        ({"every": 500}, (0, 116), True),
    ],
)
def test_validations(change: dict[str, Any], steps: tuple[int, ...], last: bool, recipe: MakeRecipe) -> None:
    promised = expected(recipe, {"eval": change})
    assert (promised.validation_steps, promised.last_step_validated) == (steps, last)


def test_an_evaluation_after_the_training_is_the_result(recipe: MakeRecipe) -> None:
    """The validations during the training promise nothing then: another metric, of other rows."""
    post = {"rows": "/data/held-out.parquet", "row_count": 500, "n": 4, "temperature": 0.6}
    promised = expected(recipe, {"train": {"save_every": 116}, "eval": {"every": 20, "n": 2, "post": post}})
    assert (promised.total_steps, promised.validation_steps, promised.last_step_validated) == (116, (116,), True)
    assert (promised.validation_items, promised.validation_samples) == (500, 4)
    assert promised.metric == "val-core/post/acc/mean@4"


def test_steps_override_epochs_and_the_data_lasts(recipe: MakeRecipe) -> None:
    promised = expected(recipe, {"train": {"steps": 200}})
    assert promised.total_steps == 200
    assert promised.validation_steps[-1] == 200
    assert promised.last_step_validated


DAPO = {"backend": {"version": "0.7.1", "trainer": "dapo"}}
FILTER = {"algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "acc"}
LIMIT = {**FILTER, "algorithm.filter_groups.max_num_gen_batches": 10}


@pytest.mark.parametrize(
    ("overrides", "steps", "batches", "last"),
    [
        # 7473 rows: 58 batches of 128 an epoch, 29 of 256, 116 of 64. Two epochs.
        ({}, 116, BatchesAStep(1, 1), True),
        ({"data.gen_batch_size": 256}, 58, BatchesAStep(1, 1), True),
        ({**FILTER, "data.gen_batch_size": 256}, 58, BatchesAStep(1, None), True),
        ({**LIMIT, "data.gen_batch_size": 256}, 58, BatchesAStep(1, 10), True),
        # Two batches fill a step at the best: half of what the trainer announces.
        ({**LIMIT, "data.gen_batch_size": 64}, 232, BatchesAStep(2, 10), False),
    ],
)
def test_dapo_counts_batches_of_the_data(
    overrides: dict[str, Any], steps: int, batches: BatchesAStep, last: bool, recipe: MakeRecipe
) -> None:
    promised = expected(recipe, DAPO, {"overrides": overrides})
    assert (promised.total_steps, promised.batches, promised.last_step_validated) == (steps, batches, last)
    assert max(promised.validation_steps) == (steps if last else 100)


def test_dapo_in_verl_s_own_trainer_counts_as_that_does(recipe: MakeRecipe) -> None:
    """It begins its data anew until a step is full, and logs no batches."""
    alone = expected(recipe, {"backend": {"version": "0.9.1"}})
    dapo = expected(recipe, {"backend": {"version": "0.9.1", "trainer": "dapo"}}, {"overrides": FILTER})
    assert (dapo.total_steps, dapo.validation_steps, dapo.batches) == (116, alone.validation_steps, None)


def test_another_program_is_held_to_what_the_recipe_declares(recipe: MakeRecipe) -> None:
    totals = {"steps": 400, "validations": [0, 200]}
    backend = {"trainer": "declared", "totals": totals, "entrypoint": "somewhere.fully_async_main"}
    promised = expected(recipe, {"backend": backend})
    assert (promised.total_steps, promised.validation_steps, promised.last_step_validated) == (400, (0, 200), False)


@pytest.mark.parametrize(
    ("backend", "program"),
    [
        ({"version": "0.9.1"}, "verl.trainer.main_ppo"),
        ({"version": "0.9.1", "trainer": "dapo"}, "verl.trainer.main_ppo"),
        ({"version": "0.6.1", "trainer": "dapo"}, "recipe.dapo.main_dapo"),
        ({"version": "0.8.0", "trainer": "dapo", "entrypoint": "dapo.main_dapo"}, "dapo.main_dapo"),
    ],
)
def test_each_trainer_has_its_program(backend: dict[str, Any], program: str, recipe: MakeRecipe) -> None:
    assert f"-m {program} " in " ".join(plan(recipe({"backend": backend}), Site()).command)


def test_without_rows_only_what_is_certain_is_promised(recipe: MakeRecipe) -> None:
    promised = expected(recipe, {"data": {"train_rows": None, "val_rows": None}})
    assert promised.total_steps is None
    assert promised.validation_steps == (0,)
    assert promised.last_step_validated
    assert promised.validation_items is None


def test_overrides_count_as_what_verl_gets(recipe: MakeRecipe) -> None:
    keys = {
        "trainer.test_freq": 50,
        "++trainer.total_epochs": 1,
        "data.train_batch_size": 64,
        "trainer.val_before_train": False,
        "actor_rollout_ref.rollout.val_kwargs.n": 8,
        "actor_rollout_ref.rollout.calculate_log_probs": False,
    }
    promised = expected(recipe, {"overrides": keys})
    assert promised.validation_steps == (50, 100, 116)
    assert promised.validation_samples == 8
    assert not promised.reports_probability_gap


def test_a_run_whose_data_ends_first_has_no_last_validation(recipe: MakeRecipe) -> None:
    promised = expected(recipe, {"train": {"steps": 100}, "overrides": {"trainer.total_epochs": 1}})
    assert promised.total_steps == 100
    assert promised.validation_steps == (0, 20, 40)
    assert not promised.last_step_validated


@pytest.mark.parametrize("key", ["trainer.test_freq", "~trainer.test_freq"])
def test_a_number_that_cannot_be_counted_with_is_refused(key: str, recipe: MakeRecipe) -> None:
    with pytest.raises(UsageError, match=r"overrides\.trainer\.test_freq"):
        expected(recipe, {"overrides": {key: None if key[0] == "~" else "${data.train_batch_size}"}})


def test_payload_noise_covers_every_step(recipe: MakeRecipe) -> None:
    noise = expected(recipe, CPU, {"aqn": AQN}).noise
    assert noise is not None
    assert len(noise.sigmas) == 116
    assert noise.sigmas[:12] == (0.0,) * 12
    assert noise.sigmas[12] == 0.05
    assert noise.sigmas[-1] == pytest.approx(0.0005)
    assert not noise.in_validation
    assert expected(recipe).noise is None


def test_noise_in_validation_is_a_declared_condition(recipe: MakeRecipe) -> None:
    noise = expected(recipe, {"aqn": {**AQN, "provider": "builtin"}, "eval": {"noise": True}}).noise
    assert noise is not None
    assert noise.in_validation
    assert noise.provider == "builtin"


def promise(recipe: MakeRecipe, *changes: dict[str, Any]) -> NoiseExpectation:
    noise = expected(recipe, *changes).noise
    assert noise is not None and noise.promise is not None
    return noise.promise


def test_the_settings_that_travel_are_promised(recipe: MakeRecipe) -> None:
    resolved = recipe(CPU, {"aqn": AQN})
    planned = plan(resolved, Site())
    noise = planned.expectations.noise
    assert noise is not None and noise.promise is not None
    content = next(file.content for file in planned.files if file.path == "payload/aqn.json")
    assert noise.promise.digest == hashlib.sha256(content.encode()).hexdigest()[:16]
    assert noise.promise.settings == json.loads(content)


FORK = {"aqn": {**AQN, "provider": "builtin"}}


@pytest.mark.parametrize(
    ("change", "links"),
    [
        ({**CPU, "aqn": AQN}, "asked reached drawn felt lifted trained on"),
        ({"aqn": AQN}, "asked reached drawn felt lifted trained on"),
        (FORK, "drawn felt trained on"),
        # Switched off by the recipe it is no less promised.
        ({**FORK, "overrides": {"actor_rollout_ref.rollout.calculate_log_probs": False}}, "drawn felt trained on"),
        ({"aqn": AQN, "overrides": {"trainer.n_gpus_per_node": "${oc.env:N}"}}, "asked drawn felt lifted trained on"),
    ],
)
def test_links_that_the_back_end_can_show(change: dict[str, Any], links: str, recipe: MakeRecipe) -> None:
    assert " ".join(promise(recipe, change).links) == links


@pytest.mark.parametrize(
    ("change", "count", "last"),
    [
        (CPU, 1, (0, 0, 0, 0)),
        ({**CPU, "layout": {"device": "cpu", "devices_per_node": 2}}, 2, (1, 0, 0, 0)),
        ({}, 8, (7, 0, 0, 0)),
        ({"rollout": {"tp": 2}}, 8, (3, 0, 1, 0)),
        ({"rollout": {"tp": 2, "ep": 4}}, 8, (1, 1, 1, 0)),
        ({"layout": {"nodes": 2}, "rollout": {"tp": 8}}, 16, (1, 0, 7, 1)),
        ({"rollout": {"tp": 3}}, 0, None),
        ({"overrides": {"actor_rollout_ref.rollout.pipeline_model_parallel_size": 2}}, 0, None),
    ],
)
def test_processes_are_counted_as_verl_does(
    change: dict[str, Any], count: int, last: tuple[int, ...] | None, recipe: MakeRecipe
) -> None:
    processes = promise(recipe, change, {"aqn": AQN}).processes
    assert len(processes) == len(set(processes)) == count
    if last is not None:
        assert processes[-1] == NoiseProcess(*last)


def test_the_forks_schedule_is_the_one_it_was_seen_to_follow() -> None:
    """Re-executed from the fork for 10 stages in 29 steps: its step counter 0-2 is free of noise, then about 3 each."""
    seen = [fork_sigma(Aqn.model_validate(AQN), step, 29) for step in range(1, 30)]
    assert seen[:3] == [0.0] * 3
    levels = [0.05, 0.0281, 0.0158, 0.00889, 0.005, 0.00281, 0.00158, 0.00089, 0.0005]
    assert sorted({round(sigma, 8) for sigma in seen[3:]}, reverse=True) == pytest.approx(levels, rel=5e-3)
    assert seen[3:] == sorted(seen[3:], reverse=True)


@pytest.mark.parametrize(("total", "stages"), [(116, 10), (29, 10), (20, 5), (7, 3), (3, 10), (1000, 7)])
def test_the_forks_schedule_equals_the_forks_code(total: int, stages: int) -> None:
    aqn = Aqn(sigma_start=0.05, sigma_end=0.0005, stages=stages)
    trend = [0.05 * (0.0005 / 0.05) ** (index / (stages - 2)) for index in range(stages - 1)]
    for step in range(1, total + 1):
        assert fork_sigma(aqn, step, total) == pytest.approx(get_sigma_by_step(step - 1, total, trend), rel=1e-12)


def get_sigma_by_step(step: int, total_steps: int, sigma_trend: list[float]) -> float:
    """As it stands in verl/utils/noise_injection.py of zhshgmail/verl at cfb21db5, without its first result."""
    step = min(step, total_steps)
    num_intervals = len(sigma_trend) + 1
    steps_per_interval = total_steps / num_intervals
    interval_id = int(step // steps_per_interval)
    if interval_id == 0:
        return 0
    return sigma_trend[min(interval_id - 1, len(sigma_trend) - 1)]


def test_the_fork_spreads_its_noise_over_all_epochs_it_is_given(recipe: MakeRecipe) -> None:
    builtin = {"aqn": {**AQN, "provider": "builtin"}, "train": {"steps": 70}}
    launch = plan(recipe(builtin), Site())
    assert "trainer.total_epochs=2" in launch.command
    noise = launch.expectations.noise
    assert noise is not None
    assert len(noise.sigmas) == 70
    # Two epochs are 116 steps: after 70 of them the noise is in its seventh stage of ten.
    assert noise.sigmas[-1] == pytest.approx(0.05 * 0.01 ** (4 / 8))
