"""What verl's metrics show of the settings of a recipe: honest runs and edited ones, on values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rlx.backends.verl.log.setting_traces import TRACES, modes
from rlx.evidence import Evidence, judge
from rlx.evidence.modes import Mode
from rlx.evidence.run_evidence import SERVED, TRAINED, Restart, WeightRecord, WeightSync
from rlx.evidence.traces import KeyTrace, Setup, TraceStatus
from rlx.model import Expectations, RunState

STEPS = range(1, 21)
LR = "train.lr"
OPTIM = "actor_rollout_ref.actor.optim"
Tree = dict[str, Any]
Metrics = dict[int, dict[str, float]]


def tree(**settings: object) -> Tree:
    """Make a configuration of the tiny recipe; a keyword is a dotted key with `__` for its dots."""
    keys: Tree = {
        "algorithm.adv_estimator": "grpo",
        "algorithm.use_kl_in_reward": False,
        "algorithm.kl_ctrl": {"type": "fixed", "kl_coef": 0.001},
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.actor.use_kl_loss": False,
        "actor_rollout_ref.actor.kl_loss_coef": 0.001,
        OPTIM: {"lr": 2e-4, "lr_warmup_steps": -1, "lr_warmup_steps_ratio": 0.0, "lr_scheduler_type": "constant"},
        "actor_rollout_ref.rollout.n": 8,
        "data.train_batch_size": 20,
        "data.max_response_length": 8,
        "data.max_prompt_length": 32,
        "trainer.total_epochs": 1,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    found: Tree = {}
    for key, value in keys.items():
        *path, name = key.split(".")
        section = found
        for each in path:
            section = section.setdefault(each, {})
        section[name] = dict(value) if isinstance(value, dict) else value
    return found


def metrics(**changes: float | Callable[[int], float]) -> Metrics:
    """Make what the tiny recipe logs; a keyword is a name with `__` for its slash, and a value or one by step."""
    usual: dict[str, float | Callable[[int], float]] = {
        "actor/grad_norm": lambda step: 1.234567891 / step,
        "actor/lr": 2e-4,
        "perf/total_num_tokens": 2510.0,
        "prompt_length/mean": 13.0,
        "prompt_length/max": 13.0,
        "response_length/mean": 2.6875,
        "response_length/max": 8.0,
        "critic/advantages/max": 2.4748666286468506,
        "training/epoch": 0,
        **{name.replace("__", "/"): value for name, value in changes.items()},
    }
    return {
        step: {name: float(value(step) if callable(value) else value) for name, value in usual.items()}
        for step in STEPS
    }


def traces(
    logged: Metrics,
    configuration: Tree,
    planned: frozenset[str] = frozenset(),
    treatment: tuple[str, ...] = (),
    resumed: bool = False,
    found: Mapping[str, Any] | None = None,
    weights: tuple[WeightRecord, ...] = (),
) -> dict[str, KeyTrace]:
    """Return the traces of a run by key."""
    restarts = (Restart(2, 10, "attempt 2 began at step 10"),) if resumed else ()
    verdict = judge(
        Evidence(metrics=logged, backend="verl", restarts=restarts, weights=weights),
        Expectations(20, (), False, None, 1, "auto", None, False),
        RunState.FINISHED,
        arm="hot",
        setup=Setup({}, treatment, configuration, True, planned, found or {}),
    )
    ids = {finding.id for finding in verdict.findings}
    contradicted = any(trace.shown is TraceStatus.CONTRADICTED for trace in verdict.traces)
    assert contradicted == ("RLX646" in ids)
    return {trace.key: trace for trace in verdict.traces}


def without(logged: Metrics, name: str) -> Metrics:
    return {step: {key: value for key, value in values.items() if key != name} for step, values in logged.items()}


def cosine(step: int) -> float:
    return 2e-4 * (0.5 + 0.5 * math.cos(math.pi * step / 20))


HONEST: dict[str, tuple[Metrics, Tree]] = {
    "constant": (metrics(), tree()),
    "warm-up, logged after the step": (
        metrics(actor__lr=lambda step: 2e-4 * min(1, step / 5)),
        tree(**{f"{OPTIM}.lr_warmup_steps".replace(".", "__"): 5}),
    ),
    "warm-up, logged before the step": (
        metrics(actor__lr=lambda step: 2e-4 * min(1, (step - 1) / 5)),
        tree(**{f"{OPTIM}.lr_warmup_steps".replace(".", "__"): 5}),
    ),
    "warm-up by its share": (
        metrics(actor__lr=lambda step: 2e-4 * min(1, step / 4)),
        tree(**{f"{OPTIM}.lr_warmup_steps_ratio".replace(".", "__"): 0.2}),
    ),
    "cosine": (metrics(actor__lr=cosine), tree(**{f"{OPTIM}.lr_scheduler_type".replace(".", "__"): "cosine"})),
    "KL in the loss": (
        metrics(actor__kl_loss=lambda step: 1e-4 * step, actor__kl_coef=0.05),
        tree(
            actor_rollout_ref__actor__use_kl_loss=True,
            actor_rollout_ref__actor__kl_loss_coef=0.05,
        ),
    ),
    "a KL loss that is not taken, logged as zero": (metrics(actor__kl_loss=0.0), tree()),
    "an adaptive KL in the reward": (
        metrics(
            actor__reward_kl_penalty=lambda step: 1e-3 * step,
            actor__reward_kl_penalty_coeff=lambda step: 1e-3 * 1.1**step,
        ),
        tree(algorithm__use_kl_in_reward=True, algorithm__kl_ctrl={"type": "adaptive", "kl_coef": 0.001}),
    ),
    "advantages that are not divided": (
        metrics(critic__advantages__max=30.0),
        tree(algorithm__norm_adv_by_std_in_grpo=False),
    ),
    "two epochs, of which the steps end the first": (
        metrics(),
        tree(trainer__total_epochs=2, trainer__total_training_steps=20),
    ),
    "two epochs of filtered groups, of which the data ended first": (
        metrics(),
        tree(trainer__total_epochs=2, algorithm__filter_groups={"enable": True}),
    ),
    "two epochs": (metrics(training__epoch=lambda step: (step - 1) // 10), tree(trainer__total_epochs=2)),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_run_contradicts_nothing(name: str) -> None:
    found = traces(*HONEST[name])
    assert not [trace for trace in found.values() if trace.shown in (TraceStatus.CONTRADICTED, TraceStatus.SILENT)]
    assert found[LR].shown is TraceStatus.SHOWN


EDITED: dict[str, tuple[Metrics, Tree, str, int]] = {
    "the rate of the other arm": (metrics(actor__lr=4e-4), tree(), LR, 1),
    "no rate from step 6 on": (metrics(actor__lr=lambda step: 2e-4 if step < 6 else 0.0), tree(), LR, 6),
    "a decay that nobody set": (metrics(actor__lr=cosine), tree(), LR, 1),
    "a constant rate where a cosine is set": (
        metrics(),
        tree(**{f"{OPTIM}.lr_scheduler_type".replace(".", "__"): "cosine"}),
        LR,
        2,
    ),
    "another warm-up": (
        metrics(actor__lr=lambda step: 2e-4 * min(1, step / 10)),
        tree(**{f"{OPTIM}.lr_warmup_steps".replace(".", "__"): 5}),
        LR,
        1,
    ),
    "a warm-up that nobody set swallows the run": (
        metrics(actor__lr=lambda step: 2e-4 * step / 100),
        tree(**{f"{OPTIM}.lr_warmup_steps".replace(".", "__"): 100}),
        LR,
        1,
    ),
    "another KL coefficient": (
        metrics(actor__kl_loss=1e-3, actor__kl_coef=0.01),
        tree(actor_rollout_ref__actor__use_kl_loss=True, actor_rollout_ref__actor__kl_loss_coef=0.05),
        "algorithm.kl",
        1,
    ),
    "a KL term that nobody set": (
        metrics(actor__kl_loss=lambda step: 1e-3 * step, actor__kl_coef=0.05),
        tree(),
        "algorithm.kl",
        1,
    ),
    "another coefficient of the KL in the reward": (
        metrics(actor__reward_kl_penalty=1e-3, actor__reward_kl_penalty_coeff=0.1),
        tree(algorithm__use_kl_in_reward=True),
        "algorithm.kl",
        1,
    ),
    "one answer to a prompt": (metrics(perf__total_num_tokens=2510 / 8), tree(), "train.batch_size", 1),
    "half of the batch": (metrics(perf__total_num_tokens=1255.0), tree(), "train.batch_size", 1),
    "longer answers": (metrics(response_length__max=16.0), tree(), "data.max_response_tokens", 1),
    "longer prompts": (metrics(prompt_length__max=40.0), tree(), "data.max_prompt_tokens", 1),
    "advantages of another estimator": (metrics(critic__advantages__max=7.0), tree(), "algorithm.kind", 1),
    "one epoch of two": (metrics(), tree(trainer__total_epochs=2), "train.epochs", 20),
    "a second epoch": (metrics(training__epoch=lambda step: step // 11), tree(), "train.epochs", 11),
}


@pytest.mark.parametrize("name", EDITED)
def test_an_edited_run_is_contradicted(name: str) -> None:
    logged, configuration, key, step = EDITED[name]
    found = traces(logged, configuration)
    assert found[key].shown is TraceStatus.CONTRADICTED
    assert found[key].step == step
    assert [trace.key for trace in found.values() if trace.shown is TraceStatus.CONTRADICTED] == [key]


COSINE = tree(**{f"{OPTIM}.lr_scheduler_type".replace(".", "__"): "cosine"})
WARM_UP = tree(**{f"{OPTIM}.lr_warmup_steps".replace(".", "__"): 5})


def used(rate: Callable[[int], float | None], role: str = TRAINED, worker: int = 0) -> WeightRecord:
    """Return the record of a process whose optimizer stepped with these rates; its weights move at each step."""
    syncs = [WeightSync(step, (f"{step:016x}",), step, moving=int(step > 0)) for step in (0, *STEPS)]
    rated = tuple(sync._replace(rate=rate(sync.number)) if sync.number else sync for sync in syncs)
    name = ("model.norm.weight",)
    return WeightRecord(role, f"weights-{role}-{worker}", names=name, dtypes=("float32",), syncs=rated)


STEPPED_OTHERWISE: dict[str, tuple[Metrics, Tree, tuple[WeightRecord, ...], int]] = {
    "half of the rate from step 2 on": (metrics(), tree(), (used(lambda step: 2e-4 if step < 2 else 1e-4),), 2),
    "the rate of the other arm": (metrics(), tree(), (used(lambda _: 4e-4),), 1),
    "no rate at one step": (metrics(), tree(), (used(lambda step: 0.0 if step == 7 else 2e-4),), 7),
    "a decay that no schedule has": (metrics(), tree(), (used(lambda step: cosine(step - 1)),), 2),
    "a constant rate below a cosine": (metrics(actor__lr=cosine), COSINE, (used(lambda _: 2e-4),), 2),
    "one of two workers": (metrics(), tree(), (used(lambda _: 2e-4), used(lambda _: 1e-3, worker=1)), 1),
}


@pytest.mark.parametrize("name", STEPPED_OTHERWISE)
def test_an_optimizer_that_steps_otherwise_than_its_metric_is_contradicted(name: str) -> None:
    logged, configuration, weights, step = STEPPED_OTHERWISE[name]
    found = traces(logged, configuration, weights=weights)[LR]
    assert (found.shown, found.step) == (TraceStatus.CONTRADICTED, step)


STEPPED_AS_PLANNED: dict[str, tuple[Metrics, Tree, tuple[WeightRecord, ...]]] = {
    "constant": (metrics(), tree(), (used(lambda _: 2e-4), used(lambda _: None, SERVED))),
    "cosine, logged after the step": (metrics(actor__lr=cosine), COSINE, (used(lambda step: cosine(step - 1)),)),
    "warm-up": (
        metrics(actor__lr=lambda step: 2e-4 * min(1, step / 5)),
        WARM_UP,
        (used(lambda step: 2e-4 * min(1, (step - 1) / 5)),),
    ),
    "steps without an update": (metrics(), tree(), (used(lambda step: None if step % 3 else 2e-4),)),
}


@pytest.mark.parametrize("name", STEPPED_AS_PLANNED)
def test_an_optimizer_that_steps_as_planned_contradicts_nothing(name: str) -> None:
    logged, configuration, weights = STEPPED_AS_PLANNED[name]
    assert traces(logged, configuration, weights=weights)[LR].shown is TraceStatus.SHOWN


@pytest.mark.parametrize(
    ("name", "configuration", "key"),
    [
        ("actor/lr", tree(), LR),
        ("actor/kl_loss", tree(actor_rollout_ref__actor__use_kl_loss=True), "algorithm.kl"),
        ("actor/reward_kl_penalty", tree(algorithm__use_kl_in_reward=True), "algorithm.kl"),
    ],
)
def test_a_trace_that_is_due_and_silent_is_named(name: str, configuration: Tree, key: str) -> None:
    assert traces(without(metrics(), name), configuration)[key].shown is TraceStatus.SILENT


def test_a_rate_that_is_printed_as_nothing_shows_nothing() -> None:
    """As verl 0.4 prints it, with three decimals."""
    rounded = {step: {key: round(value, 3) for key, value in row.items()} for step, row in metrics().items()}
    assert traces(rounded, tree())[LR].shown is TraceStatus.COMPOSED


def test_a_planned_warm_up_may_be_longer_than_the_run() -> None:
    key = f"{OPTIM}.lr_warmup_steps"
    logged = metrics(actor__lr=lambda step: 2e-4 * step / 100)
    configuration = tree(**{key.replace(".", "__"): 100})
    assert traces(logged, configuration, frozenset({key}))[LR].shown is TraceStatus.SHOWN


def test_an_unknown_schedule_is_not_observable() -> None:
    unknown = tree(**{f"{OPTIM}.lr_scheduler_type".replace(".", "__"): "wsd"})
    assert traces(metrics(actor__lr=cosine), unknown)[LR].shown is TraceStatus.NOT_OBSERVABLE
    megatron = tree(actor_rollout_ref__actor__strategy="megatron", **{f"{OPTIM}.lr_warmup_steps".replace(".", "__"): 5})
    assert traces(metrics(actor__lr=cosine), megatron)[LR].shown is TraceStatus.NOT_OBSERVABLE


def test_a_schedule_after_a_resumption_is_not_observable_and_a_constant_rate_is() -> None:
    warm_up = tree(**{f"{OPTIM}.lr_warmup_steps".replace(".", "__"): 5})
    assert traces(metrics(actor__lr=cosine), warm_up, resumed=True)[LR].shown is TraceStatus.NOT_OBSERVABLE
    assert traces(metrics(), tree(), resumed=True)[LR].shown is TraceStatus.SHOWN


MODES = {
    "algorithm__filter_groups": ({"enable": True}, Mode.FILTERED_GROUPS),
    "actor_rollout_ref__rollout__multi_turn": ({"enable": True}, Mode.MULTI_TURN),
    "actor_rollout_ref__model__lora_rank": (32, Mode.LORA),
    "actor_rollout_ref__actor__use_dynamic_bsz": (True, Mode.DYNAMIC_BATCHES),
    "actor_rollout_ref__rollout__quantization": ("fp8", Mode.QUANTISED_ROLLOUT),
    "actor_rollout_ref__rollout__expert_parallel_size": (4, Mode.MOE),
    "trainer__v1": ({"trainer_mode": "separate_async"}, Mode.ASYNCHRONOUS),
    "async_training": ({"staleness_threshold": 0.5, "partial_rollout": True}, Mode.ASYNCHRONOUS),
}


@pytest.mark.parametrize("key", MODES)
def test_modes_are_read_from_the_configuration(key: str) -> None:
    value, mode = MODES[key]
    configuration = tree(**{key: value})
    assert mode in set(modes(configuration))
    assert not set(modes(tree()))
    unlike = metrics(perf__total_num_tokens=99.0)
    observed = traces(unlike, configuration)["train.batch_size"].shown
    holds = mode in (Mode.LORA, Mode.DYNAMIC_BATCHES, Mode.QUANTISED_ROLLOUT, Mode.MOE)
    assert observed is (TraceStatus.CONTRADICTED if holds else TraceStatus.NOT_OBSERVABLE)


def test_each_declared_factor_is_named_with_what_shows_it() -> None:
    treatment = ("train.lr", "rollout.temperature", f"overrides.{OPTIM}.weight_decay")
    found = traces(metrics(), tree(), treatment=treatment)
    assert found[LR].shown is TraceStatus.SHOWN
    assert found["rollout.temperature"].shown is TraceStatus.COMPOSED


def test_digests_of_data_and_model_are_traces() -> None:
    known = {"data": {"/x/train.parquet": {"sha256": "a" * 64}}, "model": {"sha256": "b" * 64}}
    found = traces(metrics(), tree(), found=known)
    assert [found[key].shown for key in ("data.train", "model.path")] == [TraceStatus.SHOWN] * 2
    unread = {"data": {"/x/train.parquet": "error: PermissionError"}, "model": "error: no such folder"}
    found = traces(metrics(), tree(), found=unread)
    assert [found[key].shown for key in ("data.train", "model.path")] == [TraceStatus.COMPOSED] * 2


def test_every_row_of_the_table_is_tried() -> None:
    tried = {key for _, _, key, _ in EDITED.values()} | {"data.train", "model.path", "model.dtype", "model.lora"}
    # Its metric is logged by one recipe of verl alone, and not at every step: nothing can contradict it.
    assert {trace.keys[0] for trace in TRACES} == tried | {"overrides.algorithm.filter_groups"}


def trl(logged: Mapping[str, float | Callable[[int], float]], **arguments: object) -> dict[str, KeyTrace]:
    """Return the traces of a run of TRL that logs these metrics."""
    usual: dict[str, float | Callable[[int], float]] = {
        "grad_norm": lambda step: 1.234567891 / step,
        "learning_rate": 1e-3,
        "completions/max_length": 8.0,
    }
    configuration = {
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "beta": 0.0,
        "max_completion_length": 8,
        **arguments,
    }
    rows = {
        step: {name: float(value(step) if callable(value) else value) for name, value in {**usual, **logged}.items()}
        for step in STEPS
    }
    verdict = judge(
        Evidence(metrics=rows, backend="trl"),
        Expectations(20, (), False, None, 1, "auto", None, False),
        RunState.FINISHED,
        arm="hot",
        setup=Setup({}, (), configuration, True),
    )
    return {trace.key: trace for trace in verdict.traces}


TRL: dict[str, tuple[dict[str, float | Callable[[int], float]], dict[str, object], TraceStatus]] = {
    "constant": ({}, {}, TraceStatus.SHOWN),
    "linear": (
        {"learning_rate": lambda step: 1e-3 * (20 - step) / 20},
        {"lr_scheduler_type": "linear"},
        TraceStatus.SHOWN,
    ),
    "linear after a warm-up by its share": (
        {"learning_rate": lambda step: 1e-3 * (step / 4 if step < 4 else (20 - step) / 16)},
        {"lr_scheduler_type": "linear", "warmup_steps": 0.2},
        TraceStatus.SHOWN,
    ),
    "a rate that stays where it should fall": ({}, {"lr_scheduler_type": "linear"}, TraceStatus.CONTRADICTED),
    "the rate of the other arm": ({"learning_rate": 2e-3}, {}, TraceStatus.CONTRADICTED),
    "a schedule that rlx does not know": ({}, {"lr_scheduler_type": "polynomial"}, TraceStatus.NOT_OBSERVABLE),
}


@pytest.mark.parametrize("name", TRL)
def test_the_learning_rate_of_trl(name: str) -> None:
    logged, arguments, shown = TRL[name]
    assert trl(logged, **arguments)[LR].shown is shown


def test_the_kl_term_and_the_lengths_of_trl() -> None:
    assert trl({})["algorithm.kl"].shown is TraceStatus.SHOWN
    assert trl({"kl": 0.01})["algorithm.kl"].shown is TraceStatus.CONTRADICTED
    assert trl({"kl": 0.01}, beta=0.04)["algorithm.kl"].shown is TraceStatus.SHOWN
    assert trl({}, beta=0.04)["algorithm.kl"].shown is TraceStatus.SILENT
    assert trl({"completions/max_length": 9.0})["data.max_response_tokens"].shown is TraceStatus.CONTRADICTED
