"""What the folders of cases do not show: the second witness with a control, borders of the schedule, odd plans."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.evidence import (
    Announcement,
    Evidence,
    NoiseEvent,
    RunTotals,
    VerdictStatus,
    conflicts,
    judge,
    judge_unplanned,
    settings_of,
)
from rlx.evidence.checks.noise_by_step import planned_sigmas
from rlx.evidence.verdict import ranges
from rlx.model import Expectations, NoiseSchedule, RunState, sigmas_by_step

STEPS = 20
METRIC = "val-core/a/acc/mean@1"
PROBABILITY_GAP = "training/rollout_probs_diff_mean"
REJECTED = "rollout_corr/rollout_rs_seq_masked_fraction"
SCHEDULE = NoiseSchedule(sigmas_by_step(0.05, 0.0005, 5, STEPS), 5, ("rmsnorm",), "payload", False)
EXPECTED = Expectations(STEPS, (0, 10, 20), True, 100, 1, "auto", SCHEDULE, True)


def healthy(gap: dict[int, float] | None = None) -> Evidence:
    metrics: dict[int, dict[str, float]] = {0: {METRIC: 0.1}}
    noise = []
    for step in range(1, STEPS + 1):
        sigma = SCHEDULE.sigma(step)
        metrics[step] = {"actor/lr": 1e-6, PROBABILITY_GAP: gap[step] if gap else 1e-7 * (1 + step % 3) + sigma / 10}
        noise.append(NoiseEvent(step, sigma, 5 if sigma else 0, effective_std=sigma))
        if step in (10, 20):
            metrics[step][METRIC] = step / 100
            noise.append(NoiseEvent(step, 0.0, 0, phase="validation"))
    return Evidence(metrics, tuple(noise), RunTotals(STEPS, 400, 100))


def verdict(
    evidence: Evidence, expected: Expectations = EXPECTED, state: RunState = RunState.FINISHED
) -> tuple[str, list[str]]:
    judged = judge(evidence, expected, state, arm="aqn")
    return judged.status, [finding.id for finding in judged.findings]


def test_a_healthy_run_is_valid() -> None:
    assert verdict(healthy()) == ("valid", [])


def test_a_gap_that_grows_anyhow_convinces_nobody_and_a_control_that_grows_as_much_contradicts_it() -> None:
    growth = {step: 1e-4 * step for step in range(1, STEPS + 1)}
    evidence = healthy(growth)
    assert verdict(evidence) == ("unverified", ["RLX608"])
    judged = judge(evidence, EXPECTED, RunState.FINISHED, arm="aqn", control_gap=growth)
    assert (judged.status, [finding.id for finding in judged.findings]) == ("unverified", ["RLX609"])
    assert judged.dissent
    above = {step: math.hypot(gap, SCHEDULE.sigma(step) / 8) for step, gap in growth.items()}
    assert judge(healthy(above), EXPECTED, RunState.FINISHED, arm="aqn", control_gap=growth).status == "valid"


def constant(gap: dict[int, float]) -> tuple[Evidence, Expectations]:
    schedule = replace(SCHEDULE, sigmas=sigmas_by_step(0.05, 0.05, 5, STEPS, "constant"))
    noise = tuple(
        NoiseEvent(step, schedule.sigma(step), 5 if step > 4 else 0, effective_std=schedule.sigma(step))
        for step in range(1, STEPS + 1)
    )
    declared = replace(EXPECTED, noise=replace(schedule, in_validation=True))
    return replace(healthy(gap), noise=noise), declared


def test_of_one_sigma_the_gap_must_rise_where_the_noise_begins() -> None:
    noisy = {step: 4e-3 * (1 + 0.05 * math.sin(3 * step)) + (5e-3 if step > 4 else 0.0) for step in range(1, STEPS + 1)}
    assert verdict(*constant(noisy))[0] == "valid"
    assert verdict(*constant({**noisy, 2: 0.05}))[0] == "unverified", "too few steps to tell the rise from an odd one"
    drift = {step: 4e-3 + 4e-4 * step for step in range(1, STEPS + 1)}
    later = {step: gap + (5e-3 if step > 12 else 0.0) for step, gap in drift.items()}
    for gap in (drift, later):
        assert verdict(*constant(gap)) == ("unverified", ["RLX608", "RLX717"])


def test_at_ten_steps_of_five_stages_the_gap_cannot_agree_at_one_percent() -> None:
    """Two strong steps above eight others: p = 1/45."""
    schedule = NoiseSchedule(sigmas_by_step(0.05, 0.0005, 5, 10), 5, ("rmsnorm",), "payload", True)
    noise = tuple(
        NoiseEvent(step, schedule.sigma(step), 5 if schedule.sigma(step) else 0, effective_std=schedule.sigma(step))
        for step in range(1, 11)
    )
    metrics = {step: {PROBABILITY_GAP: 1e-7 * (1 + step % 3) + schedule.sigma(step) / 8} for step in range(1, 11)}
    metrics[10][METRIC] = 0.5
    expected = replace(EXPECTED, total_steps=10, validation_steps=(), noise=schedule)
    assert verdict(Evidence(metrics, noise, RunTotals(10, 400, 100)), expected)[0] == "unverified"


# training/rollout_probs_diff_mean of healthy bfloat16 runs on NPUs (verl-project/verl-ascend-recipe at 2a3edec0,
# baseline/): Qwen3-8B GSPO with FSDP2, Qwen3-30B-A3B GSPO with Megatron, Moonlight-16B DAPO with Megatron.
PUBLISHED = (0.0045346, 0.005604, 0.0251671)


def of_npus(level: float, seed: int, top: float = 0.0) -> dict[int, float]:
    """100 steps about a published level, 8 % apart, and noise of a tenth of sigma in squares."""
    random = Random(seed)
    sigmas = sigmas_by_step(top, top / 100, 5, 100) if top else (0.0,) * 100
    return {step: math.hypot(level * random.gauss(1, 0.08), 0.12 * sigmas[step - 1]) for step in range(1, 101)}


def with_plan_of(top: float, gap: dict[int, float]) -> tuple[Evidence, Expectations]:
    schedule = NoiseSchedule(sigmas_by_step(top, top / 100, 5, 100), 5, ("rmsnorm",), "payload", True)
    noise = tuple(
        NoiseEvent(step, sigma, 5 if sigma else 0, effective_std=sigma) for step, sigma in enumerate(schedule.sigmas, 1)
    )
    metrics = {step: {PROBABILITY_GAP: value} for step, value in gap.items()}
    metrics[100][METRIC] = 0.5
    return Evidence(metrics, noise, RunTotals(100, 400, 100)), replace(
        EXPECTED, total_steps=100, validation_steps=(), noise=schedule
    )


@pytest.mark.parametrize("level", PUBLISHED)
def test_a_published_run_without_noise_is_not_accused(level: float) -> None:
    for seed in range(20):
        evidence, expected = with_plan_of(0.05, of_npus(level, seed))
        bare = replace(evidence, noise=())
        assert verdict(bare, replace(expected, noise=None)) == ("valid", [])


@pytest.mark.parametrize("level", PUBLISHED)
@pytest.mark.parametrize("top", [0.05, 0.01])
def test_above_a_published_gap_only_strong_noise_can_be_missed(level: float, top: float) -> None:
    """Below its power the gap is inconclusive, whether or not the noise was there; above it, an absence shows."""
    has_power = top == 0.05 and level < 0.01
    for seed in range(20):
        evidence, expected = with_plan_of(top, of_npus(level, seed))
        absent = judge(evidence, expected, RunState.FINISHED, arm="aqn")
        assert (absent.status, absent.dissent) == ("unverified", has_power)
        evidence, expected = with_plan_of(top, of_npus(level, seed, top))
        assert not judge(evidence, expected, RunState.FINISHED, arm="aqn").dissent


def test_a_validation_just_before_the_first_noise_runs_on_the_weights_that_get_it() -> None:
    """A fork leaves the noise in: the weights of a validation at step 4 are those of the rollout of step 5."""
    evidence = healthy()
    forked = replace(EXPECTED, noise=replace(SCHEDULE, provider="builtin"))
    for step, told in ((4, True), (3, False)):
        validated = {**evidence.metrics, step: {**evidence.metrics[step], METRIC: 0.1}}
        judged = judge(replace(evidence, metrics=validated), forked, RunState.FINISHED, arm="aqn")
        (doubt,) = [finding for finding in judged.findings if finding.id == "RLX606"]
        assert (f"steps {step}, 10, 20" in doubt.message) == told


@pytest.mark.parametrize(("elements", "ids"), [((10_000, 1), []), ((1, 10_000), ["RLX614"])])
def test_what_survives_rounding_is_weighted_by_elements(elements: tuple[int, int], ids: list[str]) -> None:
    """One layer of two kept its noise: whether most of it arrived depends on how large each is."""
    evidence, lost = healthy(), 0.1
    noise = tuple(
        replace(event, kind=kind, elements=count, changed=count, effective_std=event.sigma * share)
        for event in evidence.noise
        for kind, count, share in zip(("whole", "lost"), elements, (1.0, lost), strict=True)
        if event.sigma
    )
    clean = tuple(event for event in evidence.noise if not event.sigma)
    found = verdict(replace(evidence, noise=noise + clean))[1]
    assert [each for each in found if each == "RLX614"] == ids


def test_each_pair_of_records_that_differ_is_told_with_its_own_values(wording: SnapshotAssertion) -> None:
    def record(**changed: float) -> Evidence:
        values = {int(step.removeprefix("at_")): {METRIC: value} for step, value in changed.items()}
        return replace(healthy(), metrics={**healthy().metrics, **values})

    records = {"mine": record(at_10=0.3, at_20=0.4), "hers": record(at_10=0.3, at_20=0.5), "his": record(at_10=0.35)}
    evidence = replace(healthy(), conflicts=conflicts(records))
    said = [each.message for each in judge(evidence, EXPECTED, RunState.FINISHED, arm="aqn").findings]
    (pair,) = [words for words in said if "mine" in words and "hers" in words]
    assert METRIC in pair and "0.4 and 0.5" in pair and "0.35" not in pair
    assert len(said) == 3 and said == wording


def rejecting(share: float) -> Evidence:
    """A run that logs what its rejection took at noisy steps only."""
    evidence = healthy()
    metrics = {
        step: {**values, REJECTED: share} if step and SCHEDULE.sigma(step) else values
        for step, values in evidence.metrics.items()
    }
    return replace(evidence, metrics=metrics)


@pytest.mark.parametrize(
    ("share", "control", "status", "ids"),
    [
        (0.6, None, "unverified", ["RLX653"]),
        (0.1, None, "valid", []),
        (0.6, 0.55, "valid", []),
        (0.6, 0.1, "unverified", ["RLX650"]),
    ],
)
def test_a_control_says_what_rejection_takes_without_noise(
    share: float, control: float | None, status: str, ids: list[str]
) -> None:
    taken = None if control is None else dict.fromkeys(range(1, STEPS + 1), control)
    judged = judge(rejecting(share), EXPECTED, RunState.FINISHED, arm="aqn", control_removed=taken)
    assert (judged.status, [finding.id for finding in judged.findings]) == (status, ids)


@pytest.mark.parametrize(("lost", "status"), [(25, "valid"), (26, "invalid")])
def test_more_than_a_twentieth_of_the_steps_without_a_finite_loss_is_too_much(lost: int, status: str) -> None:
    steps = {step: {"actor/pg_loss": math.nan if step <= lost else 0.1} for step in range(1, 501)}
    evidence = Evidence({**steps, 500: {**steps[500], METRIC: 0.4}}, totals=RunTotals(500, 400, 100))
    expected = Expectations(500, (500,), True, 100, 1, "auto", None, True)
    assert verdict(evidence, expected) == (status, ["RLX654"])


def test_a_run_in_progress_is_not_charged_with_its_last_step() -> None:
    evidence = Evidence({step: {"actor/grad_norm": 0.0 if step < 3 else math.inf} for step in (1, 2, 3)})
    expected = Expectations(100, (100,), True, 100, 1, "auto", None, True)
    assert verdict(evidence, expected, RunState.RUNNING) == ("incomplete", ["RLX906", "RLX654"])


def test_a_control_that_does_not_grow_confirms_the_noise() -> None:
    flat = dict.fromkeys(range(1, STEPS + 1), 1e-7)
    assert judge(healthy(), EXPECTED, RunState.FINISHED, arm="aqn", control_gap=flat).status == "valid"


def test_weak_stages_that_drown_do_not_count_against_the_strong_ones() -> None:
    """bfloat16: 4e-3 apart without noise; the stages below sigma 0.005 are invisible in it."""
    gap = {step: 4e-3 * (1 + 0.1 * math.sin(3 * step)) + SCHEDULE.sigma(step) / 5 for step in range(1, STEPS + 1)}
    weak = [step for step in gap if 0 < SCHEDULE.sigma(step) < 0.005]
    gap |= {step: 3.7e-3 for step in weak}
    assert verdict(healthy(gap)) == ("valid", [])


def test_too_few_steps_are_inconclusive_rather_than_a_disagreement() -> None:
    schedule = replace(SCHEDULE, sigmas=(0.0, 0.05, 0.01))
    evidence = healthy()
    short = Evidence({step: evidence.metrics[step] for step in range(4)}, noise=tuple(
        NoiseEvent(step, schedule.sigma(step), 5 if step > 1 else 0) for step in (1, 2, 3)
    ))  # fmt: skip
    expected = replace(EXPECTED, total_steps=3, validation_steps=(), last_step_validated=False, noise=schedule)
    assert verdict(short, expected) == ("unverified", ["RLX608"])


def test_a_back_end_that_reports_no_gap_leaves_the_run_unverified(wording: SnapshotAssertion) -> None:
    evidence = healthy()
    bare = replace(
        evidence, metrics={s: {k: v for k, v in m.items() if k != PROBABILITY_GAP} for s, m in evidence.metrics.items()}
    )
    judged = judge(bare, replace(EXPECTED, reports_probability_gap=False), RunState.FINISHED, arm="aqn")
    assert judged.status == "unverified" and judged.sentence == wording


@pytest.mark.parametrize(
    ("sigma", "status"), [(0.05 * 1.0009, "valid"), (0.05 * 1.002, "invalid"), (math.nan, "invalid")]
)
def test_sigma_may_differ_by_its_rounding_only(sigma: float, status: str) -> None:
    evidence = healthy()
    noise = tuple(replace(event, sigma=sigma) if event.sigma == 0.05 else event for event in evidence.noise)
    assert verdict(replace(evidence, noise=noise))[0] == status


@pytest.mark.parametrize(("source", "status"), [("log", "valid"), ("aqn-host-1.jsonl", "invalid")])
def test_only_a_printed_sigma_may_lack_digits(source: str, status: str) -> None:
    """1.6e-6 in place of 2e-6: a log prints both as 0.000002, the payload writes what it adds."""
    small = NoiseSchedule(sigmas_by_step(0.05, 2e-6, 5, STEPS), 5, ("rmsnorm",), "payload", False)
    planned = {2e-6: 1.6e-6}
    evidence = healthy()
    noise = tuple(
        replace(event, sigma=planned.get(small.sigma(event.step or 0), small.sigma(event.step or 0)), source=source)
        if event.phase == "rollout"
        else event
        for event in evidence.noise
    )
    assert verdict(replace(evidence, noise=noise), replace(EXPECTED, noise=small))[0] == status


@pytest.mark.parametrize(("factor", "status"), [(0.1, "valid"), (None, "unverified")])
def test_factors_of_layers_are_no_loss_by_rounding(factor: float | None, status: str) -> None:
    """A tenth of sigma arrived: as the factors of the layers ask for, or because the rest was rounded away."""
    evidence = healthy()
    noise = tuple(
        replace(event, elements=9, changed=9, effective_std=event.sigma / 10, asked_std=factor and event.sigma * factor)
        if event.sigma
        else event
        for event in evidence.noise
    )
    assert verdict(replace(evidence, noise=noise))[0] == status


def test_a_second_sync_of_one_step_must_fit_too() -> None:
    evidence = healthy()
    again = NoiseEvent(12, 0.05, 5)
    assert verdict(replace(evidence, noise=(*evidence.noise, again))) == ("invalid", ["RLX603"])


def test_noise_after_the_last_step_reaches_nobody() -> None:
    evidence = healthy()
    assert verdict(replace(evidence, noise=(*evidence.noise, NoiseEvent(21, 0.0005, 5)))) == ("valid", [])


def test_declared_noise_in_validation_is_no_fault() -> None:
    evidence = healthy()
    noise = tuple(
        replace(event, sigma=0.01, layers=5) if event.phase == "validation" else event for event in evidence.noise
    )
    declared = replace(EXPECTED, noise=replace(SCHEDULE, in_validation=True))
    judged = judge(replace(evidence, noise=noise), declared, RunState.FINISHED, arm="aqn")
    assert "10: 0.01, 20: 0.01" in judged.findings[0].message
    assert verdict(replace(evidence, noise=noise)) == ("invalid", ["RLX606"])
    # It is said all the same.
    assert verdict(replace(evidence, noise=noise), declared) == ("valid", ["RLX717"])


def test_validation_without_a_sync_of_its_own_is_clean_while_there_is_no_noise() -> None:
    evidence = healthy()
    noise = tuple(event for event in evidence.noise if event.phase == "rollout")
    early = replace(evidence, noise=noise, metrics={**evidence.metrics, 2: {**evidence.metrics[2], METRIC: 0.1}})
    judged = judge(early, EXPECTED, RunState.FINISHED, arm="aqn")
    assert "steps 10, 20" in judged.findings[0].message


def test_without_any_total_there_is_no_end_to_reach() -> None:
    evidence = replace(healthy(), totals=RunTotals())
    assert verdict(evidence, replace(EXPECTED, total_steps=None)) == ("unverified", ["RLX706"])


def test_a_run_that_never_came_to_its_noise_is_invalid() -> None:
    evidence = healthy()
    short = Evidence({step: evidence.metrics[step] for step in range(4)}, evidence.noise[:4], RunTotals(3))
    expected = replace(EXPECTED, total_steps=None, validation_steps=(), last_step_validated=False)
    assert verdict(short, expected) == ("invalid", ["RLX601"])


def test_a_plan_that_leaves_the_last_step_out_excuses_nothing() -> None:
    evidence = healthy()
    last = {key: value for key, value in evidence.metrics[STEPS].items() if key != METRIC}
    unvalidated = replace(evidence, metrics={**evidence.metrics, STEPS: last})
    planned_so = replace(EXPECTED, validation_steps=(0, 10), last_step_validated=False)
    assert verdict(unvalidated, planned_so) == ("incomplete", ["RLX702"])


def test_a_fraction_needs_one_data_source_and_right_or_wrong_answers() -> None:
    evidence = healthy()
    odd = replace(evidence, metrics={**evidence.metrics, 10: {**evidence.metrics[10], METRIC: 0.123456}})
    assert verdict(odd) == ("unverified", ["RLX708"])


def with_partial_credit(*odd_steps: int) -> Evidence:
    """A reward function of the recipe's own, all 100 answers kept, and values at these steps that 100 cannot have."""
    evidence = healthy()
    metrics = {step: {**evidence.metrics[step], METRIC: 0.12345 + step / 100} for step in odd_steps}
    kept = dict.fromkeys((0, 10, 20), 100)
    return replace(
        evidence, metrics={**evidence.metrics, **metrics}, answers=kept, settings=settings_of({"reward": {"path": "r"}})
    )


def test_partial_credit_is_no_fault_where_everything_else_shows_it() -> None:
    assert verdict(with_partial_credit(10, 20)) == ("valid", ["RLX708"])
    # Where most values are right or wrong answers, the one that is not has no credit.
    assert verdict(with_partial_credit(20)) == ("unverified", ["RLX708"])
    lost = replace(with_partial_credit(10, 20), answers={0: 100, 10: 100})
    assert verdict(lost) == ("unverified", ["RLX708"])
    named = replace(with_partial_credit(10, 20), settings=settings_of({"reward": "gsm8k"}))
    assert verdict(named) == ("unverified", ["RLX708"])
    eight = replace(EXPECTED, validation_samples=8, metric="val-core/a/acc/mean@8")
    metrics = {
        step: {"val-core/a/acc/mean@8" if key == METRIC else key: value for key, value in line.items()}
        for step, line in with_partial_credit(10, 20).metrics.items()
    }
    of_eight = replace(with_partial_credit(), metrics=metrics, answers=dict.fromkeys((0, 10, 20), 800))
    assert verdict(of_eight, eight) == ("valid", ["RLX708"])
    metrics[10]["val-core/a/acc/mean@8"], metrics[20]["val-core/a/acc/mean@8"] = 1 / 800, 799 / 800
    assert verdict(of_eight, eight) == ("valid", [])


def with_second_source(value: float, first: float) -> Evidence:
    evidence = healthy()
    at_end = {**evidence.metrics[20], METRIC: first, "val-core/b/acc/mean@1": value}
    return replace(evidence, metrics={**evidence.metrics, 20: at_end})


def test_values_of_several_sources_must_fit_one_split_of_the_rows() -> None:
    """100 rows: 1/3 and 1/7 may be of 30 and 70; 1/61 and 1/59 take 120; 0.123456 fits no number of rows."""
    assert verdict(with_second_source(1 / 3, 10 / 70)) == ("valid", ["RLX711"])
    assert verdict(with_second_source(0.5, 0.5)) == ("valid", ["RLX711"])
    assert verdict(with_second_source(1 / 61, 1 / 59)) == ("unverified", ["RLX708", "RLX711"])
    assert verdict(with_second_source(0.1234567, 0.5)) == ("unverified", ["RLX708", "RLX711"])


def test_three_printed_decimals_are_fractions_too() -> None:
    evidence = healthy()
    values = {0: 0.143, 10: 0.286, 20: 0.429}
    # The gap keeps its digits where it is the witness: the line of the last step tells how the log prints.
    last = {key: round(value, 3) for key, value in evidence.metrics[STEPS].items()}
    lines = {**evidence.metrics, STEPS: last}
    metrics = {step: {**line, METRIC: values[step]} if step in values else line for step, line in lines.items()}
    rounded = replace(evidence, totals=RunTotals(STEPS, 400, 7), metrics=metrics)
    assert verdict(rounded, replace(EXPECTED, validation_items=None)) == ("valid", [])


def test_a_queued_run_has_nothing_to_be_blamed_for() -> None:
    assert verdict(Evidence(), state=RunState.QUEUED) == ("incomplete", ["RLX906"])


def test_a_run_that_failed_before_its_first_step(wording: SnapshotAssertion) -> None:
    judged = judge(Evidence(), EXPECTED, RunState.FAILED, arm="aqn")
    assert judged.status == "incomplete" and "(RLX801, RLX701, RLX702)" in judged.sentence
    assert judged.sentence == wording


@pytest.mark.parametrize("total", [28, 29, 30, 58, 116])
def test_a_fork_is_held_to_its_own_arithmetic_over_its_own_total(total: int) -> None:
    """get_sigma_by_step of the fork: stage = int(step // (total / stages)), steps from 0."""
    planned = NoiseSchedule(sigmas_by_step(0.05, 0.0005, 10, 29), 10, ("rmsnorm",), "builtin", True)
    by_stage = list(dict.fromkeys(planned.sigmas))
    fork = [by_stage[min(9, int(step // (total / 10)))] for step in range(total)]
    run = Evidence(totals=RunTotals(total_steps=total))
    assert list(planned_sigmas(planned, run)) == fork
    assert planned_sigmas(replace(planned, provider="payload"), run) == planned.sigmas


def test_ranges() -> None:
    assert ranges([4, 1, 2, 3, 9, 9, 7]) == "1-4, 7, 9"
    assert ranges([]) == ""


EVENTS = st.builds(
    NoiseEvent,
    step=st.none() | st.integers(0, 30),
    sigma=st.sampled_from([0.0, 0.05, 0.0005, math.nan]),
    layers=st.integers(0, 5),
    phase=st.sampled_from(["rollout", "validation"]),
    changed=st.none() | st.integers(0, 3),
    effective_std=st.none() | st.sampled_from([0.0, 0.05]),
    replica=st.integers(0, 1),
    found=st.sampled_from(["", "clean", "noisy"]),
    elements=st.none() | st.integers(0, 3),
    folded=st.booleans(),
)
ANNOUNCED = st.builds(
    Announcement, st.none() | st.integers(0, 30), st.sampled_from([0.0, 0.05, math.nan]), st.booleans()
)
METRICS = st.dictionaries(
    st.integers(0, 30),
    st.dictionaries(st.sampled_from([PROBABILITY_GAP, METRIC, "actor/lr"]), st.floats(), min_size=1),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(
    METRICS,
    st.lists(EVENTS, max_size=8),
    st.lists(ANNOUNCED, max_size=3),
    st.sampled_from(list(RunState)),
    st.booleans(),
    st.sampled_from([None, 3]),
)
def test_any_evidence_gets_a_verdict(
    metrics: dict[int, dict[str, float]],
    noise: list[NoiseEvent],
    announced: list[Announcement],
    state: RunState,
    quiet: bool,
    total: int | None,
) -> None:
    expected = replace(EXPECTED, noise=None) if quiet else EXPECTED
    expected = replace(expected, total_steps=total, validation_steps=(), last_step_validated=False)
    evidence = Evidence(dict(sorted(metrics.items())), tuple(noise), announced=tuple(announced))
    judged = judge(evidence, expected, state, arm="aqn")
    assert judged.sentence.startswith(f"{judged.status}: ")
    assert state is RunState.FINISHED or judged.status in (VerdictStatus.INVALID, VerdictStatus.INCOMPLETE)


def test_a_validation_that_lost_answers_is_no_whole_validation() -> None:
    evidence = replace(healthy(), answers={0: 100, 10: 45, 20: 100})
    assert verdict(evidence) == ("incomplete", ["RLX712"])
    assert "45 of 100" in judge(evidence, EXPECTED, RunState.FINISHED, arm="aqn").sentence
    assert verdict(replace(evidence, answers={0: 100, 10: 100, 20: 100})) == ("valid", [])


@pytest.mark.parametrize(("gradient", "is_invalid"), [(0.0, True), (0.7, False)])
def test_a_log_without_a_recipe_that_trained_nothing_is_invalid(gradient: float, is_invalid: bool) -> None:
    metrics = {step: {"actor/grad_norm": gradient if step == 2 else 0.0} for step in (1, 2, 3)}
    judged = judge_unplanned(Evidence(metrics, totals=RunTotals(3)), EXPECTED, RunState.FINISHED)
    assert (judged.status == "invalid") == ("RLX655" in {finding.id for finding in judged.findings}) == is_invalid


@pytest.mark.parametrize(
    ("broken", "state"),
    [((10,), "valid"), ((0,), "valid"), ((0, 10), "incomplete"), ((20,), "incomplete"), ((10, 20), "incomplete")],
)
def test_a_validation_that_is_no_number_costs_the_run_where_it_is_the_last_or_most_of_them(
    broken: tuple[int, ...], state: str
) -> None:
    found = healthy()
    metrics = {
        step: {**values, METRIC: math.nan} if step in broken else values for step, values in found.metrics.items()
    }
    said, ids = verdict(replace(found, metrics=metrics))
    assert said == state
    assert {*ids} & {"RLX702", "RLX703"}
