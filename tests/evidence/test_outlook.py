"""What may still become of a run that goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlx.evidence import Evidence, NoiseEvent, judge
from rlx.evidence.verdict import HOPELESS, ON_TRACK, Outlook, outlook
from rlx.model import RunState
from tests.evidence.test_judge import EXPECTED, METRIC, healthy


def until(step: int, evidence: Evidence) -> Evidence:
    """The evidence as it was after that step."""
    noise = tuple(event for event in evidence.noise if (event.step or 0) <= step)
    return replace(evidence, metrics={at: row for at, row in evidence.metrics.items() if at <= step}, noise=noise)


def seen(evidence: Evidence, state: RunState = RunState.RUNNING) -> Outlook:
    return outlook(judge(evidence, EXPECTED, state, arm="aqn"), state)


@pytest.mark.parametrize("step", [0, 1, 4, 5, 10, 13, 19])
def test_an_honest_run_is_on_track_at_every_step(step: int) -> None:
    assert seen(until(step, healthy())) == (ON_TRACK, "")
    assert seen(until(step, healthy()), RunState.STALLED).word == ON_TRACK


def test_noise_that_did_not_come_will_not_come() -> None:
    silent = replace(until(12, healthy()), noise=())
    word, why = seen(silent)
    assert word == HOPELESS
    assert "RLX6" in why
    missed = until(12, healthy())
    missed = replace(missed, noise=tuple(event for event in missed.noise if event.step != 9))
    assert seen(missed).word == HOPELESS


def test_a_validation_that_was_missed_is_missed() -> None:
    evidence = until(12, healthy())
    row = {name: value for name, value in evidence.metrics[10].items() if name != METRIC}
    word, why = seen(replace(evidence, metrics={**evidence.metrics, 10: row}))
    assert (word, "RLX703" in why) == (HOPELESS, True)


def test_noise_where_none_was_planned() -> None:
    quiet = replace(EXPECTED, noise=None)
    verdict = judge(until(12, healthy()), quiet, RunState.RUNNING, arm="baseline")
    assert outlook(verdict, RunState.RUNNING).word == HOPELESS
    plain = replace(until(12, healthy()), noise=(NoiseEvent(1, 0.0, 0),))
    assert outlook(judge(plain, quiet, RunState.RUNNING, arm="baseline"), RunState.RUNNING).word == "on track"


def test_an_ended_run_has_its_verdict() -> None:
    assert seen(healthy(), RunState.FINISHED) == ("valid", "")
    assert seen(until(12, healthy()), RunState.FAILED) == ("incomplete", "")


def test_nothing_is_known_of_the_noise_before_the_first_step() -> None:
    waiting = replace(healthy(), metrics={}, noise=())
    assert judge(waiting, EXPECTED, RunState.QUEUED, arm="aqn").noise == "–"
    assert judge(replace(until(3, healthy()), noise=()), EXPECTED, RunState.RUNNING, arm="aqn").noise.startswith("σ 0")
