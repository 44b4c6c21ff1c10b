"""Edits of the metrics: the gap between rollout and actor, the validation, and what the training logged."""

from __future__ import annotations

import math

from rlx.model import Link
from tests.evidence.edits import GAP, GRADIENT, LOSS, REJECTED, REJECTED_TOKENS
from tests.evidence.grid.cases import Source, caught, honest, unseen
from tests.evidence.grid.run_pair import RunDirectory, RunPair

METRICS = Source.METRICS
ACCURACY = "val-core/rlx/tiny-addition/acc/mean@1"
RATE = "actor/lr"
_NOISY = range(5, 21)


# asked


@caught(METRICS, Link.ASKED, "unverified", "RLX618", twin="gap-three-times-as-large")
def gap_of_a_schedule_turned_round(pair: RunPair) -> None:
    """The records say that sigma falls; the gap rises with the stages."""
    gaps = pair.aqn.gaps()
    pair.aqn.put(GAP, {step: gaps[25 - step] for step in _NOISY})


@caught(METRICS, Link.ASKED, "unverified", "RLX618", twin="gap-three-times-as-large")
def gap_of_a_schedule_that_begins_a_stage_late(pair: RunPair) -> None:
    gaps = pair.aqn.gaps()
    pair.aqn.put(GAP, {step: gaps[step - 4] for step in _NOISY})


@honest(METRICS, Link.ASKED)
def gap_three_times_as_large(pair: RunPair) -> None:
    """Of another model, or an engine that rounds otherwise."""
    pair.aqn.put(GAP, {step: 3 * gap for step, gap in pair.aqn.gaps().items()})


@honest(METRICS, Link.ASKED)
def gap_that_scatters_by_a_fifth(pair: RunPair) -> None:
    gaps = pair.aqn.gaps()
    pair.aqn.put(GAP, {step: gap * (1 + 0.2 * math.sin(11 * step)) for step, gap in gaps.items()})


# reached


@caught(METRICS, Link.REACHED, "unverified", "RLX609", twin="gap-a-third-as-large")
def gap_of_the_control(pair: RunPair) -> None:
    """The noise was drawn and recorded, on a model that generates nothing."""
    pair.aqn.put(GAP, pair.baseline.gaps())


@honest(METRICS, Link.REACHED)
def gap_a_third_as_large(pair: RunPair) -> None:
    """Above the floor of float32, as a model has it that is less sensitive."""
    pair.aqn.put(GAP, {step: gap if step < 5 else gap / 3 for step, gap in pair.aqn.gaps().items()})


@honest(METRICS, Link.REACHED)
def gap_above_the_floor_of_merged_adapters(pair: RunPair) -> None:
    """4e-4 with noise and without, as where adapters are merged into the rollout's weights."""
    for run in (pair.aqn, pair.baseline):
        run.put(GAP, {step: math.hypot(4e-4 * (1 + 0.1 * math.sin(7 * step)), gap) for step, gap in run.gaps().items()})


@unseen(
    METRICS,
    Link.REACHED,
    "the gap is a mean over all samples, and nobody knows how large it must be: half of the replicas without noise, or "
    "half of the layers, look like a model that is half as sensitive",
)
def gap_of_half_the_replicas(pair: RunPair) -> None:
    clean = pair.baseline.gaps()
    pair.aqn.put(GAP, {step: (gap + clean[step]) / 2 for step, gap in pair.aqn.gaps().items()})


# drawn


@caught(METRICS, Link.DRAWN, "unverified", "RLX618", twin="gap-with-a-drift")
def gap_of_noise_that_adds_up(pair: RunPair) -> None:
    """Each noise comes on top of those before: their variances add."""
    gaps = pair.aqn.gaps()
    total = {step: math.sqrt(sum(gaps[each] ** 2 for each in _NOISY if each <= step)) for step in _NOISY}
    pair.aqn.put(GAP, {step: gap * (1 + 0.002 * step) for step, gap in total.items()})


@honest(METRICS, Link.DRAWN)
def gap_with_a_drift(pair: RunPair) -> None:
    """As it grows from step to step in long answers, with noise and without."""
    for run in (pair.aqn, pair.baseline):
        run.put(GAP, {step: gap + 2e-7 * step for step, gap in run.gaps().items()})


@honest(METRICS, Link.DRAWN)
def gap_that_falls_slower_than_sigma(pair: RunPair) -> None:
    """As where large noise saturates."""
    pair.aqn.put(GAP, {step: 1e-3 * (gap / 1e-3) ** 0.6 for step, gap in pair.aqn.gaps().items() if step > 4})


@caught(METRICS, Link.DRAWN, "unverified", "RLX609", twin="gap-with-an-outlier")
def gap_of_noise_that_is_left_from_the_step_before(pair: RunPair) -> None:
    """The engine generates with the noise that was drawn a step earlier."""
    gaps = pair.aqn.gaps()
    pair.aqn.put(GAP, {step: gaps[step - 1] for step in _NOISY})


# felt


@caught(METRICS, Link.FELT, "unverified", "RLX609", twin="gap-above-the-floor-of-bfloat16")
def gap_at_the_floor_of_bfloat16(pair: RunPair) -> None:
    for run in (pair.aqn, pair.baseline):
        run.put(GAP, {step: _floor(step) for step in run.gaps()})


@honest(METRICS, Link.FELT)
def gap_above_the_floor_of_bfloat16(pair: RunPair) -> None:
    """Noise above a floor of 4e-3 that scatters by 8 % and drifts."""
    for run in (pair.aqn, pair.baseline):
        run.put(GAP, {step: math.hypot(_floor(step), gap) for step, gap in run.gaps().items()})


@caught(METRICS, Link.FELT, "unverified", "RLX609", twin="gap-with-an-outlier")
def gap_that_is_flat_but_at_one_step(pair: RunPair) -> None:
    flat = {step: 1.3e-7 + 1e-8 * math.sin(step) for step in pair.aqn.gaps()}
    pair.aqn.put(GAP, flat | {3: 0.008})


@honest(METRICS, Link.FELT)
def gap_with_an_outlier(pair: RunPair) -> None:
    pair.aqn.put(GAP, {3: 0.008})


@caught(METRICS, Link.FELT, "unverified", "RLX608", twin="gap-that-is-no-number-at-one-step")
def gap_that_is_no_number(pair: RunPair) -> None:
    """As of an engine that gives no probabilities with the strongest noise."""
    pair.aqn.put(GAP, dict.fromkeys(range(5, 9), math.nan))


@honest(METRICS, Link.FELT)
def gap_that_is_no_number_at_one_step(pair: RunPair) -> None:
    """As the mean over a step all of whose samples are masked."""
    pair.aqn.put(GAP, {14: math.nan})


@honest(METRICS, Link.FELT)
def gap_never_logged_beside_a_probe(pair: RunPair) -> None:
    """The engine itself felt the noise: its own word is enough."""
    for step in pair.aqn.gaps():
        pair.aqn.forget(step, lambda key: key == GAP)


# lifted


@caught(METRICS, Link.LIFTED, "unverified", "RLX709", "RLX713", twin="metrics-with-a-digit-more-than-the-log")
def validation_with_another_value_in_the_metrics(pair: RunPair) -> None:
    """The log has the value of clean weights, the file that of noisy ones."""
    pair.aqn.set_in_metrics(ACCURACY, {20: 0.88})


@caught(METRICS, Link.LIFTED, "incomplete", "RLX703", twin="validation-with-a-second-metric")
def validation_left_out(pair: RunPair) -> None:
    pair.aqn.forget(10, lambda key: key.startswith("val-"))


@honest(METRICS, Link.LIFTED)
def metrics_with_a_digit_more_than_the_log(pair: RunPair) -> None:
    """As a float32 is printed with seven digits, and stored with sixteen."""
    for line in pair.aqn.metrics:
        if ACCURACY in line["data"]:
            line["data"][ACCURACY] *= 1 + 4e-8


@honest(METRICS, Link.LIFTED)
def validation_with_a_second_metric(pair: RunPair) -> None:
    """Metrics of a second data set beside the first are no other value of it."""
    pair.aqn.set_in_metrics("val-aux/rlx/tiny-subtraction/acc/mean@1", {10: 0.41, 15: 0.43, 20: 0.44})


@unseen(
    METRICS,
    Link.LIFTED,
    "a validation on noisy weights has fewer right answers, and so has a checkpoint that is worse: the value does not "
    "say on which weights it was taken",
)
def validation_as_low_as_with_noise(pair: RunPair) -> None:
    """Eight answers fewer at step 20, in all that was kept of it."""
    run = pair.aqn
    value = run.value(ACCURACY, 20) - 0.08
    for key in (ACCURACY, *(f"val-aux/rlx/tiny-addition/{name}/mean@1" for name in ("reward", "score"))):
        run.set_in_metrics(key, {20: value})
        run.set_in_log(key, {20: f"np.float64({value})"})
    answers = run.outputs(20)
    for answer in [each for each in answers if each["acc"]][:8]:
        answer.update(output="1", score=0.0, reward=0.0, acc=0.0)
    run.put_outputs(20, answers)


# trained on


@caught(METRICS, Link.TRAINED_ON, "unverified", "RLX650", twin="rejection-that-takes-clean-samples-as-well")
def rejection_that_takes_the_noisy_samples(pair: RunPair) -> None:
    _rejected(pair.aqn, (0.0, 0.9, 0.66, 0.1, 0.0))


@honest(METRICS, Link.TRAINED_ON)
def rejection_that_takes_clean_samples_as_well(pair: RunPair) -> None:
    _rejected(pair.aqn, (0.6, 0.62, 0.61, 0.63, 0.6))


@caught(METRICS, Link.TRAINED_ON, "unverified", "RLX652", twin="rejection-that-takes-clean-samples-as-well")
def rejection_that_is_no_number_at_noisy_steps(pair: RunPair) -> None:
    _rejected(pair.aqn, (0.0, math.nan, math.nan, math.nan, math.nan))


@caught(METRICS, Link.TRAINED_ON, "invalid", "RLX651", twin="rejection-that-takes-clean-samples-as-well")
def rejection_that_takes_all_noisy_samples(pair: RunPair) -> None:
    _rejected(pair.aqn, (0.0, 0.999, 0.999, 0.999, 0.999))


@caught(METRICS, Link.TRAINED_ON, "invalid", "RLX655", twin="gradient-of-zero-at-one-step")
def gradients_of_zero(pair: RunPair) -> None:
    pair.aqn.put(GRADIENT, dict.fromkeys(range(1, 21), 0.0))


@honest(METRICS, Link.TRAINED_ON)
def gradient_of_zero_at_one_step(pair: RunPair) -> None:
    pair.aqn.put(GRADIENT, {11: 0.0})


@caught(METRICS, Link.TRAINED_ON, "invalid", "RLX655", twin="learning-rate-that-begins-at-zero")
def learning_rate_of_zero(pair: RunPair) -> None:
    """Gradients there are, and no step is taken along them."""
    pair.aqn.put(RATE, dict.fromkeys(range(1, 21), 0.0))


@honest(METRICS, Link.TRAINED_ON)
def learning_rate_that_begins_at_zero(pair: RunPair) -> None:
    """A warm-up of five steps, as the engine composed it."""
    for run in (pair.aqn, pair.baseline):
        run.compose("lr_warmup_steps: -1", "lr_warmup_steps: 5")
        run.put(RATE, {step: 0.0002 * (step - 1) / 5 for step in range(1, 6)})


@caught(METRICS, Link.TRAINED_ON, "invalid", "RLX646", twin="learning-rate-that-begins-at-zero")
def learning_rate_that_begins_at_zero_and_was_not_set_to(pair: RunPair) -> None:
    for run in (pair.aqn, pair.baseline):
        run.put(RATE, {step: 0.0002 * (step - 1) / 5 for step in range(1, 6)})


@caught(METRICS, Link.TRAINED_ON, "invalid", "RLX654", twin="loss-lost-at-one-step")
def loss_lost_in_the_control_to_the_end(pair: RunPair) -> None:
    pair.baseline.put(LOSS, dict.fromkeys(range(9, 21), math.nan))


@honest(METRICS, Link.TRAINED_ON)
def loss_lost_at_one_step(pair: RunPair) -> None:
    pair.aqn.put(LOSS, {12: math.nan})


def _rejected(run: RunDirectory, by_stage: tuple[float, ...]) -> None:
    shares = {step: by_stage[(step - 1) // 4] for step in range(1, 21)}
    for key in (REJECTED, REJECTED_TOKENS):
        run.put(key, shares)


def _floor(step: int) -> float:
    """The gap of a healthy bfloat16 run: 4e-3 with a scatter of 8 % and a drift."""
    return 4e-3 * (1 + 0.01 * step + 0.11 * math.sin(7 * step))
