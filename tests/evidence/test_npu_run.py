"""A real run on NPUs without noise, as figures by step: its gap is neither noise nor a reason to accuse anybody."""

from __future__ import annotations

import csv
import math

import pytest

from rlx.evidence import Evidence, NoiseEvent, RunTotals, Verdict, judge
from rlx.model import Expectations, NoiseSchedule, RunState, sigmas_by_step
from tests.conftest import CASES

FIGURES = CASES / "npu-run" / "figures.csv"
GAP, ACCURACY = "training/rollout_probs_diff_mean", "val-core/openai/gsm8k/acc/mean@1"
STEPS = 100


def recorded() -> dict[int, dict[str, float]]:
    """The metrics by step."""
    with FIGURES.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {int(row["step"]): {key: float(text) for key, text in row.items() if key != "step" and text} for row in rows}


def expectations(noise: NoiseSchedule | None) -> Expectations:
    return Expectations(STEPS, (0, 20, 40, 60, 80, 100), True, 1319, 1, "auto", noise, reports_probability_gap=True)


def schedule(sigma: float, stages: int = 5) -> NoiseSchedule:
    sigmas = sigmas_by_step(sigma, sigma / 100, stages, STEPS)
    return NoiseSchedule(sigmas, stages, ("rmsnorm",), "payload", in_validation=False)


def judged(noise: NoiseSchedule | None, response: float = 0.0) -> Verdict:
    """The verdict on this run with the records of such noise. `response`: what noise of size 1 adds to the gap."""
    metrics, events = recorded(), []
    for step in range(1, STEPS + 1) if noise else ():
        sigma = noise.sigma(step) if noise else 0.0
        metrics[step][GAP] = math.hypot(metrics[step][GAP], response * sigma)
        events.append(NoiseEvent(step, sigma, 145 if sigma else 0, effective_std=sigma or None))
        if ACCURACY in metrics[step]:
            events.append(NoiseEvent(step, 0.0, 0, phase="validation"))
    evidence = Evidence(metrics, tuple(events), RunTotals(STEPS, 7473, 1319))
    return judge(evidence, expectations(noise), RunState.FINISHED, arm="aqn" if noise else "baseline")


def test_without_noise_it_is_valid() -> None:
    verdict = judged(None)
    assert (verdict.status, verdict.findings) == ("valid", ())


@pytest.mark.parametrize("stages", [5, 10])
def test_noise_that_only_the_record_knows_is_not_believed(stages: int) -> None:
    verdict = judged(schedule(0.05, stages))
    assert verdict.status == "unverified"
    # With five stages the gap without noise already rises while noise should be strongest.
    assert verdict.dissent == (stages == 10)


@pytest.mark.parametrize("sigma", [0.01, 0.002])
def test_noise_below_this_floor_is_neither_seen_nor_denied(sigma: float) -> None:
    verdict = judged(schedule(sigma))
    assert (verdict.status, verdict.dissent) == ("unverified", False)
    assert "RLX608" in {finding.id for finding in verdict.findings}


@pytest.mark.parametrize("sigma", [0.05, 0.02])
@pytest.mark.parametrize("stages", [5, 10])
@pytest.mark.parametrize("response", [0.12, 0.4, 1.1])
def test_no_noise_of_any_measured_strength_is_accused(sigma: float, stages: int, response: float) -> None:
    assert not judged(schedule(sigma, stages), response).dissent
