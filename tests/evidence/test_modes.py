"""In which modes a check speaks: each contradiction, in the composed configurations of published kinds of recipes.

The configurations are those of tests/cases/modes; tests/backends/test_composed_modes.py has Hydra compose them anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from rlx.backends.verl.log.setting_traces import modes
from rlx.evidence import Evidence, Verdict, judge
from rlx.evidence.modes import Mode, setting
from rlx.evidence.run_evidence import AttemptTime, Restart, WeightRecord
from rlx.evidence.traces import Setup, TraceStatus
from rlx.model import Expectations, RunState, WeightExpectation
from tests.evidence.composed_modes import NAMES, ModeCase, read_case
from tests.evidence.test_recorded_weights import adapters, engine, trainer

STEPS = range(1, 21)
SYNCS = range(21)
OPTIM = "actor_rollout_ref.actor.optim"
OBJECTIONS = {"RLX646", "RLX647", *(f"RLX{number}" for number in (*range(750, 760), *range(790, 799)))}
SECONDS = 5.0
PROMPT, ANSWER = 13.0, 2.6875
By = Callable[[int], float]


class Run(NamedTuple):
    """What a run leaves, before it is edited. `answers`: of a step."""

    metrics: dict[str, By]
    evidence: Evidence
    answers: float


def plain_run(case: ModeCase) -> Run:
    """Make a run that does just what its configuration says, as plain synchronous training would log it."""
    batch, answers = (
        setting(case.configuration, key) for key in ("data.train_batch_size", "actor_rollout_ref.rollout.n")
    )
    total = float((batch or 64) * answers)
    tokens, epochs = total * (PROMPT + ANSWER), setting(case.configuration, "trainer.total_epochs")
    logged: dict[str, By] = {
        "actor/grad_norm": lambda step: 1.234567891 / step,
        "actor/lr": rate(case),
        "training/global_step": float,
        "training/epoch": lambda step: round((step - 1) * (epochs - 1) / (len(STEPS) - 1)),
        "timing_s/step": lambda step: SECONDS,
        "perf/total_num_tokens": lambda step: tokens,
        "perf/throughput": lambda step: tokens / SECONDS / 2,
        "prompt_length/mean": lambda step: PROMPT,
        "prompt_length/max": lambda step: PROMPT,
        "response_length/mean": lambda step: ANSWER,
        "response_length/max": lambda step: 8.0,
        "critic/advantages/max": lambda step: 0.5,
        "training/off_policy/trajectory_staleness/mean": lambda step: 0.0,
    }
    if setting(case.configuration, "actor_rollout_ref.actor.use_kl_loss"):
        coefficient = float(setting(case.configuration, "actor_rollout_ref.actor.kl_loss_coef"))
        logged |= {"actor/kl_loss": lambda step: 1e-4 * step, "actor/kl_coef": lambda step: coefficient}
    time = AttemptTime(1, 1000.0, 1000.0 + 30 * SECONDS, len(STEPS), len(STEPS) * SECONDS)
    evidence = Evidence(backend="verl", attempts=1, times=(time,), weights=(trained(case), engine(SYNCS)))
    return Run(logged, evidence, total)


def trained(case: ModeCase) -> WeightRecord:
    """Return the record of a trainer; Megatron names its adapters so that their rank is not known."""
    rank = setting(case.configuration, "actor_rollout_ref.model.lora_rank")
    return replace(adapters(SYNCS), lora_rank=rank) if rank else trainer(SYNCS)


def rate(case: ModeCase) -> By:
    highest = float(setting(case.configuration, f"{OPTIM}.lr"))
    warm_up = setting(case.configuration, f"{OPTIM}.lr_warmup_steps") or -1
    if setting(case.configuration, f"{OPTIM}.warmup_style") == "cosine":
        return lambda step: highest * (0.5 + 0.5 * math.cos(math.pi * step / len(STEPS)))
    return lambda step: highest * (min(1.0, step / warm_up) if warm_up > 0 else 1.0)


def logs(name: str, value: By) -> Callable[[Run], Run]:
    return lambda run: run._replace(metrics={**run.metrics, name: value})


def halved(run: Run) -> Run:
    """Half of the answers, whose speed agrees with them."""
    both = ("perf/total_num_tokens", "perf/throughput")
    return run._replace(metrics={**run.metrics, **{name: _half(run.metrics[name]) for name in both}})


def _half(value: By) -> By:
    return lambda step: value(step) / 2


def shortened(run: Run) -> Run:
    (time,) = run.evidence.times
    return run._replace(evidence=replace(run.evidence, times=(time._replace(ended=1000.0 + 10 * SECONDS),)))


def kept_weights(run: Run) -> Run:
    return run._replace(evidence=replace(run.evidence, weights=(run.evidence.weights[0], engine([0] * len(SYNCS)))))


def faster(run: Run) -> Run:
    speed = run.metrics["perf/throughput"]
    return logs("perf/throughput", lambda step: speed(step) * (3 if step == 8 else 1))(run)


def other_rate(run: Run) -> Run:
    planned = run.metrics["actor/lr"]
    return logs("actor/lr", lambda step: planned(step) * 2)(run)


CONTRADICTIONS: dict[str, tuple[Callable[[Run], Run], str]] = {
    "half of the answers": (halved, "train.batch_size"),
    "longer answers": (logs("response_length/max", lambda step: 1e6), "data.max_response_tokens"),
    "longer prompts": (logs("prompt_length/max", lambda step: 1e6), "data.max_prompt_tokens"),
    "advantages of another estimator": (logs("critic/advantages/max", lambda step: 30.0), "algorithm.kind"),
    "another rate": (other_rate, "train.lr"),
    "an epoch too many": (logs("training/epoch", lambda step: 1000 * (step > 10)), "train.epochs"),
    "a KL term in the reward": (logs("actor/reward_kl_penalty", lambda step: 1e-3 * step), "algorithm.kl"),
    "the epoch falls": (logs("training/epoch", lambda step: int(step < 11) * 1e-9), "RLX751"),
    "another step": (logs("training/global_step", lambda step: step + 10 * (step > 10)), "RLX751"),
    "a step twice": (logs("training/global_step", lambda step: (step + 1) // 2), "RLX751"),
    "another throughput": (faster, "RLX754"),
    "answers of older weights": (
        logs("training/off_policy/trajectory_staleness/mean", lambda step: 4.0),
        "RLX756",
    ),
    "shorter than its steps": (shortened, "RLX750"),
    "weights that the engine keeps": (kept_weights, "RLX792"),
}
"""An edit of a run, and the setting that its trace contradicts or the finding that it brings."""


def verdict_of(case: ModeCase, run: Run) -> Verdict:
    logged = {step: {name: float(value(step)) for name, value in run.metrics.items()} for step in STEPS}
    expectations = Expectations(20, (), False, None, 1, "auto", None, False, weights=WeightExpectation(1, 1))
    return judge(
        replace(run.evidence, metrics=logged),
        expectations,
        RunState.FINISHED,
        arm="hot",
        setup=Setup({}, (), case.configuration, True, planned_warm_up(case)),
    )


def planned_warm_up(case: ModeCase) -> frozenset[str]:
    return frozenset(word.partition("=")[0].lstrip("+") for word in case.overrides)


def objections(verdict: Verdict) -> set[str]:
    ids = {finding.id for finding in verdict.findings} & OBJECTIONS
    return ids | {trace.key for trace in verdict.traces if trace.shown is TraceStatus.CONTRADICTED}


@pytest.mark.parametrize("name", NAMES)
def test_modes_are_those_of_the_case(name: str) -> None:
    case = read_case(name)
    assert {mode.name for mode in modes(case.configuration)} == case.modes


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_does_as_configured_is_left_alone(name: str) -> None:
    case = read_case(name)
    assert objections(verdict_of(case, plain_run(case))) == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_contradiction_is_seen_where_its_equation_holds_and_nowhere_else(name: str) -> None:
    case = read_case(name)
    seen = {
        each
        for each, (edit, what) in CONTRADICTIONS.items()
        if what in objections(verdict_of(case, edit(plain_run(case))))
    }
    assert CONTRADICTIONS.keys() - seen == case.not_observable


@pytest.mark.parametrize("name", NAMES)
def test_all_that_cannot_be_observed_together_is_no_objection(name: str) -> None:
    case = read_case(name)
    run = plain_run(case)
    for each in sorted(case.not_observable):
        run = CONTRADICTIONS[each][0](run)
    assert objections(verdict_of(case, run)) <= {"RLX793"}


def test_every_mode_has_a_case_and_every_contradiction_is_seen_in_one_and_left_alone_in_one() -> None:
    cases = [read_case(name) for name in NAMES]
    assert set().union(*(case.modes for case in cases)) == {mode.name for mode in Mode}
    everywhere = {"a KL term in the reward", "a step twice"}
    assert set().union(*(case.not_observable for case in cases)) == CONTRADICTIONS.keys() - everywhere
    assert any(not case.not_observable for case in cases)


def test_a_run_that_began_again_is_a_resumed_one_whatever_its_configuration_says() -> None:
    case = read_case("synchronous-grpo")
    run = faster(plain_run(case))
    begun_again = replace(run.evidence, restarts=(Restart(2, 10, "attempt 2 began at step 10"),))
    assert "RLX754" in objections(verdict_of(case, run))
    assert "RLX754" not in objections(verdict_of(case, run._replace(evidence=begun_again)))


@pytest.mark.parametrize(
    ("path", "has_experts"),
    [
        ("Qwen/Qwen3-30B-A3B", True),
        ("/models/qwen3-235b-a22b-instruct/", True),
        ("moonshotai/Moonlight-16B-A3B", True),
        ("deepseek-ai/DeepSeek-V3", True),
        ("mistralai/Mixtral-8x7B-v0.1", True),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", False),
        ("Qwen/Qwen2.5-7B-Instruct", False),
        ("/data/experts-moe/Qwen3-8B", False),
    ],
)
def test_a_model_of_experts_is_known_by_its_name(path: str, has_experts: bool) -> None:
    configuration: Mapping[str, Any] = {"actor_rollout_ref": {"model": {"path": path}}}
    assert (Mode.MOE in set(modes(configuration))) is has_experts
