"""What a rehearsal's evidence says of each part of the recipe, and what its reward function was asked."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from shutil import copy

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.evidence import Evidence, NoiseEvent, RunTotals, Verdict, VerdictStatus
from rlx.evidence.smoke_test_result import RewardCalls, SmokeTestResult, read_reward_calls, rehearsed
from rlx.model import Expectations, Finding, NoiseSchedule, RunState, Severity
from rlx.resources import payload_folder

EXPECTED = Expectations(2, (0, 2), True, 4, 1, "auto", None, True)
NOISE = NoiseSchedule((0.0, 0.05), 3, ("rmsnorm",), "payload", False)
VALID = Verdict(VerdictStatus.VALID, (), "valid", "none")
CALLS = RewardCalls(count=20, low=0.0, high=1.0, seconds=0.001)
GAP = "training/rollout_probs_diff_mean"


def step(number: int, **changes: float) -> dict[str, float]:
    values = {"response_length/mean": 16.0, "actor/grad_norm": 0.5, "actor/pg_loss": 0.1, GAP: 1e-7}
    validation = {"val-core/mine/acc/mean@1": 0.25} if number == 2 else {}
    return {**values, **validation, **{key.replace("__", "/"): value for key, value in changes.items()}}


def evidence(**changes: float) -> Evidence:
    metrics = {0: {"val-core/mine/acc/mean@1": 0.0}, 1: step(1), 2: step(2, **changes)}
    return Evidence(metrics=metrics, totals=RunTotals(2, 16, 4))


def judged(
    found: Evidence, expected: Expectations = EXPECTED, state: RunState = RunState.FINISHED, calls: RewardCalls = CALLS
) -> SmokeTestResult:
    return rehearsed(found, expected, VALID, state, calls, None)


def failed(result: SmokeTestResult) -> set[str]:
    return {check.name for check in result.checks if check.passed is False}


def ids(result: SmokeTestResult) -> list[str]:
    return [finding.id for finding in result.findings]


def test_all_that_worked_is_named() -> None:
    result = judged(evidence())
    assert result.passed and all(check.passed for check in result.checks)
    assert len(result.checks) == 7
    assert result.checks[-1].detail == "steps 0, 2, val-core/mine/acc/mean@1 0.25"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_update_without_finite_numbers_fails(value: float) -> None:
    result = judged(evidence(actor__grad_norm=value))
    assert (failed(result), ids(result)) == ({"actor update"}, ["RLX563"])


def test_gradients_of_zero_are_explained() -> None:
    found = evidence(actor__grad_norm=0.0)
    found = replace(found, metrics={**found.metrics, 1: step(1, actor__grad_norm=0.0)})
    (check,) = [check for check in judged(found).checks if check.name == "actor update"]
    assert check.passed and "equal scores" in check.detail
    untrained = Finding("RLX655", Severity.ERROR, "nothing was trained", "")
    verdict = Verdict(VerdictStatus.INVALID, (untrained,), "invalid", "none")
    assert rehearsed(found, EXPECTED, verdict, RunState.FINISHED, CALLS, None).passed, "two steps need not learn"


def test_a_validation_that_is_missing_or_not_a_number_fails() -> None:
    found = evidence()
    missing = replace(found, metrics={number: found.metrics[number] for number in (1, 2)})
    assert failed(judged(missing)) == {"validation"}
    odd = replace(found, metrics={**found.metrics, 0: {"val-core/mine/acc/mean@1": math.nan}})
    assert failed(judged(odd)) == {"validation"}
    none = replace(EXPECTED, validation_steps=())
    assert judged(replace(found, metrics={1: step(1)}), none).passed


def test_both_witnesses_of_noise_are_asked(wording: SnapshotAssertion) -> None:
    expected = replace(EXPECTED, noise=NOISE)
    event = NoiseEvent(2, 0.05, 5, changed=100, elements=100, effective_std=0.05)
    loud = replace(evidence(**{GAP.replace("/", "__"): 1e-3}), noise=(event,))
    assert judged(loud, expected).passed
    unapplied = failed(judged(replace(loud, noise=()), expected))
    unseen = failed(judged(replace(evidence(), noise=(event,)), expected))
    assert (len(unapplied), len(unseen)) == (1, 1) and unapplied != unseen
    assert [unapplied, unseen] == wording


@pytest.mark.parametrize(("status", "told"), [(VerdictStatus.INVALID, ["RLX602"]), (VerdictStatus.UNVERIFIED, [])])
def test_what_makes_the_run_invalid_is_told_without_the_remarks_beside_it(
    status: VerdictStatus, told: list[str]
) -> None:
    found = (Finding("RLX602", Severity.ERROR, "wrong noise"), Finding("RLX683", Severity.NOTE, "a look is missing"))
    result = rehearsed(evidence(), EXPECTED, Verdict(status, found, "", ""), RunState.FINISHED, CALLS, None)
    assert (ids(result), result.passed) == (told, not told)


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (RewardCalls(count=20, failed=20, error="TypeError: no"), "failed for 20 of 20 answers: TypeError: no"),
        (RewardCalls(count=20, not_finite=3, low=0.0, high=1.0), "not finite for 3 of 20"),
    ],
)
def test_a_reward_that_fails_is_told_although_the_run_goes_on(calls: RewardCalls, words: str) -> None:
    result = judged(evidence(), calls=calls)
    assert ids(result) == ["RLX561"] and words in result.findings[0].message


def test_a_reward_that_is_never_called_is_told() -> None:
    assert ids(judged(evidence(), calls=RewardCalls())) == ["RLX562"]


@pytest.mark.parametrize(("state", "id"), [(RunState.FAILED, "RLX560"), (RunState.STOPPED, "RLX564")])
def test_an_end_too_early_says_how_far_it_came(state: RunState, id: str) -> None:
    early = Evidence(totals=RunTotals(2, 16, 4))
    result = judged(early, state=state, calls=RewardCalls())
    assert ids(result) == [id]
    assert "data read" in result.findings[0].message
    assert [check.passed for check in result.checks[:3]] == [True, True, None]


def called(folder: Path, function: str, name: str = "score") -> RewardCalls:
    """The recorder as verl uses it, in a process of its own."""
    copy(payload_folder("verl") / "rehearsed_reward.py", folder)
    (folder / "reward.py").write_text(function, encoding="utf-8")
    (folder / "rehearsed_reward.json").write_text(json.dumps({"file": "reward.py", "function": name}), encoding="utf-8")
    program = (
        "import asyncio, inspect, rehearsed_reward as r\n"
        "given = dict(data_source='d', solution_str='s', ground_truth='7', extra_info={})\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        done = r.compute_score(**given)\n"
        "        assert inspect.iscoroutine(done) == inspect.iscoroutinefunction(r.compute_score)\n"
        "        print(asyncio.run(done) if inspect.iscoroutine(done) else done)\n"
        "    except Exception as problem: print('raised', problem)\n"
    )
    environment = {**os.environ, "RLX_ATTEMPT_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, check=True, capture_output=True)
    return read_reward_calls(folder)


def test_what_the_function_answers_is_recorded(tmp_path: Path) -> None:
    calls = called(tmp_path, "def score(ground_truth, **_):\n    return {'score': float(ground_truth), 'acc': 1.0}\n")
    assert (calls.count, calls.failed, calls.low, calls.high) == (2, 0, 7.0, 7.0)


def test_a_coroutine_stays_one(tmp_path: Path) -> None:
    calls = called(tmp_path, "async def score(**_):\n    return 0.5\n")
    assert (calls.count, calls.low) == (2, 0.5)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("score = lambda solution, truth: 0.0\n", "TypeError: <lambda>() got an unexpected keyword argument"),
        ("def score(**_):\n    return None\n", "it returned None"),
        ("def score(**_):\n    return {'acc': 1.0}\n", "it returned {'acc': 1.0}"),
    ],
)
def test_what_the_function_cannot_answer_is_recorded(tmp_path: Path, function: str, error: str) -> None:
    calls = called(tmp_path, function)
    assert (calls.count, calls.failed) == (2, 2)
    assert calls.error.startswith(error)


def test_scores_that_are_no_numbers_count_apart(tmp_path: Path) -> None:
    calls = called(tmp_path, "def score(**_):\n    return float('nan')\n")
    assert (calls.count, calls.failed, calls.not_finite, calls.low) == (2, 0, 2, None)


def test_a_line_that_was_cut_off_is_no_call(tmp_path: Path) -> None:
    (tmp_path / "rewards").mkdir()
    (tmp_path / "rewards/1.jsonl").write_text('{"score": 1.0, "seconds": 0.5}\n{"score": 1.0, "sec', encoding="utf-8")
    assert read_reward_calls(tmp_path).count == 1
    assert read_reward_calls(tmp_path / "nothing") == RewardCalls()
