"""The links asked, reached and drawn where the folders of cases do not show them: runs of rlx 0.1, restarts, forks."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.evidence import (
    Evidence,
    NoiseEvent,
    RunTotals,
    Verdict,
    judge,
    judge_unplanned,
    read_evidence,
    read_log,
    with_settings_of,
)
from rlx.evidence.reading.process_records import read_records
from rlx.evidence.run_evidence import NoiseSettings
from rlx.model import Expectations, Link, NoiseExpectation, NoiseProcess, NoiseSchedule, RunState, sigmas_by_step
from tests.conftest import CASES
from tests.recorded import recorded_expectations

RUNS = sorted((CASES / "six-runs").glob("tiny-cpu-aqn-*"))
SIGMAS = sigmas_by_step(0.05, 0.0005, 5, 20)
Document = dict[str, Any]


def plan_of(run: Path) -> Document:
    plan: Document = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["plan"]
    return plan


def judged(run: Path, attempts: list[Path]) -> tuple[str, list[str], str]:
    """The status, the ids about the chain of evidence, and the sentence."""
    plan = plan_of(run)
    promised = with_settings_of(plan["recipe"], recorded_expectations(plan["expectations"]))
    verdict = judge(read_evidence(attempts), promised, RunState.FINISHED, arm="aqn")
    return verdict.status, [each.id for each in verdict.findings if each.id[:5] == "RLX67"], verdict.sentence


def rewritten(attempt: Path, folder: Path, change: Callable[[Document], None]) -> Path:
    """A copy of an attempt, each record of which was changed."""
    shutil.copytree(attempt, folder)
    for path in (folder / "events").iterdir():
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for record in records:
            change(record)
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return folder


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name[:15])
def test_a_run_of_the_first_edition_is_judged_as_before(run: Path, wording: SnapshotAssertion) -> None:
    status, ids, sentence = judged(run, [run / "attempts/1"])
    assert (status, ids) == ("valid", [])
    assert sentence == wording


TOLD: list[tuple[Document, str]] = [
    ({"seed": 9}, "seed 9, planned 1"),
    ({"targets": ["norm"]}, 'targets ["norm"], planned "auto"'),
    ({"exclude": ["model.norm"]}, 'exclude ["model.norm"], planned []'),
    ({"multipliers": {"norm": 0.1}}, 'multipliers {"norm": 0.1}, planned {}'),
    ({"sigma_start": 0.5}, "sigma_start 0.5, planned 0.05"),
    ({"tp_size": 2}, "tp_size 2, planned 1"),
    ({"total_steps": 40, "stages": 4}, "stages 4, planned 5; total_steps 40, planned 20"),
]


@pytest.mark.parametrize(("other", "words"), TOLD, ids=lambda value: str(value)[:20])
def test_its_settings_are_held_against_its_recipe(other: Document, words: str, tmp_path: Path) -> None:
    def change(record: Document) -> None:
        if record["kind"] == "settings":
            record.update(other)

    attempt = rewritten(RUNS[0] / "attempts/1", tmp_path / "1", change)
    status, ids, sentence = judged(RUNS[0], [attempt])
    assert (status, ids[0]) == ("invalid", "RLX670")
    assert words in sentence


def times(factor: float) -> Callable[[Document], None]:
    def change(record: Document) -> None:
        record["effective_std"] = record["effective_std"] * factor

    return change


NOISY: dict[str, tuple[Callable[[Document], None], str]] = {
    "ten times": (times(10.0), "RLX677"),
    "twice the variance": (times(math.sqrt(2)), "RLX677"),
    "a tenth": (times(0.1), "RLX677"),
    "no number": (times(math.nan), "RLX677"),
    "one noise for all steps": (lambda record: record.update(fingerprint="00"), "RLX676"),
    "one of five layers": (lambda record: record.update(layers=1, elements=64, changed=64), "RLX674"),
}


@pytest.mark.parametrize("what", NOISY)
def test_so_is_what_its_records_allow(what: str, tmp_path: Path) -> None:
    edit, id = NOISY[what]

    def change(record: Document) -> None:
        if record["kind"] == "noise" and record["sigma"] > 0:
            edit(record)

    attempt = rewritten(RUNS[0] / "attempts/1", tmp_path / "1", change)
    status, ids, _ = judged(RUNS[0], [attempt])
    assert (status, ids) == ("invalid", [id])


FACTORS = {"model.norm": 2.0}


@pytest.mark.parametrize(
    ("told", "times", "status"),
    [
        (FACTORS, 1.6**0.5, "valid"),
        (FACTORS, 3.2**0.5, "invalid"),
        (FACTORS, 0.3, "invalid"),
        ({}, 1.6**0.5, "invalid"),
    ],
)
def test_without_a_recipe_factors_are_those_that_were_told(
    told: Document, times: float, status: str, tmp_path: Path
) -> None:
    """Twice sigma on the last of five norms: (4 · 1 + 4) / 5 of the variance was asked for."""

    def change(record: Document) -> None:
        if record["kind"] == "settings":
            record["multipliers"] = told
        elif record["sigma"] > 0:
            record.update(asked_std=record["sigma"] * 1.6**0.5, effective_std=record["effective_std"] * times)

    attempt = rewritten(RUNS[0] / "attempts/1", tmp_path / "1", change)
    promised = recorded_expectations(plan_of(RUNS[0])["expectations"])
    verdict = judge(read_evidence([attempt]), promised, RunState.FINISHED, arm="aqn")
    assert verdict.status == status
    assert ("RLX677" in verdict.sentence) is (status == "invalid")


@pytest.mark.parametrize(("seed", "status"), [("the same", "valid"), ("another", "invalid")])
def test_a_second_attempt_draws_the_noise_of_the_first(seed: str, status: str, tmp_path: Path) -> None:
    """The first attempt has synced the weights of the step at which the second goes on."""

    def change(record: Document) -> None:
        if record.get("fingerprint") and seed == "another":
            record["fingerprint"] = f"other{record['step']}"

    first = shutil.copytree(RUNS[0] / "attempts/1", tmp_path / "1")
    again = rewritten(first, tmp_path / "2", change)
    evidence, records = read_evidence([first]), read_records(again / "events", 2)
    both = replace(evidence, noise=(*evidence.noise, *records.events))
    plan = plan_of(RUNS[0])
    verdict = judge(both, recorded_expectations(plan["expectations"]), RunState.FINISHED, arm="aqn")
    assert verdict.status == status
    assert ("RLX676" in verdict.sentence) is (status == "invalid")


def lines_of_a_fork(*links: Link, gap: bool) -> tuple[Evidence, Expectations]:
    """20 steps of a fork that prints what it draws."""
    noise = NoiseSchedule(SIGMAS, 5, ("rmsnorm",), "builtin", True, NoiseExpectation(links))
    metrics: dict[int, dict[str, float]] = {0: {"val-core/a/acc/mean@1": 0.1}}
    for step, sigma in enumerate(SIGMAS, start=1):
        metrics[step] = {"actor/lr": 1e-6}
        if gap:
            metrics[step]["training/rollout_probs_diff_mean"] = 1e-7 * (1 + step % 3) + sigma / 10
    metrics[20]["val-core/a/acc/mean@1"] = 0.2
    events = tuple(NoiseEvent(step, sigma, 5) for step, sigma in enumerate(SIGMAS, start=1) if sigma)
    return Evidence(metrics, events, RunTotals(20, 400, 100)), Expectations(
        20, (0, 20), True, 100, 1, "auto", noise, gap
    )


def test_links_that_were_never_promised_are_named(wording: SnapshotAssertion) -> None:
    evidence, expected = lines_of_a_fork(Link.DRAWN, gap=False)
    verdict = judge(evidence, expected, RunState.FINISHED, arm="aqn")
    assert verdict.status == "valid" and len(remarks_on_links(verdict)) == 1
    assert [verdict.sentence, *remarks_on_links(verdict)] == wording


def test_of_a_run_that_failed_before_its_first_step_no_link_is_said_to_be_shown(wording: SnapshotAssertion) -> None:
    _, expected = lines_of_a_fork(Link.DRAWN, gap=False)
    verdict = judge(Evidence({}, (), RunTotals(20, 400, 100)), expected, RunState.FAILED, arm="aqn")
    assert verdict.status == "incomplete" and len(remarks_on_links(verdict)) == 1
    assert [verdict.sentence, *remarks_on_links(verdict)] == wording


def remarks_on_links(verdict: Verdict) -> list[str]:
    return [each.message for each in verdict.findings if each.id == "RLX679"]


def test_a_promised_link_that_is_silent_leaves_the_run_unverified() -> None:
    evidence, expected = lines_of_a_fork(Link.DRAWN, Link.FELT, gap=False)
    verdict = judge(evidence, expected, RunState.FINISHED, arm="aqn")
    assert verdict.status == "unverified" and "RLX608" in verdict.sentence


def test_without_any_noise_drawn_nothing_is_valid() -> None:
    evidence, expected = lines_of_a_fork(Link.DRAWN, gap=True)
    verdict = judge(replace(evidence, noise=()), expected, RunState.FINISHED, arm="aqn")
    assert verdict.status == "invalid" and "RLX601" in verdict.sentence


def test_a_log_without_a_plan_is_counted(wording: SnapshotAssertion) -> None:
    nothing = Expectations(None, (), False, None, 1, "auto", None, True)
    fork, _ = lines_of_a_fork(Link.DRAWN, gap=False)
    recorded = read_log(CASES / "logs/tiny-aqn/log", finished=True)
    control = read_log(CASES / "logs/tiny-baseline/log", finished=True)
    seen = [judge_unplanned(each, nothing, RunState.FINISHED) for each in (fork, recorded, control)]
    assert [verdict.noise for verdict in seen] == ["16 of 20 steps · 5 layers", "19 lines · 5 layers", "never"]
    assert [verdict.sentence for verdict in seen] == wording


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OPTIONS = st.sampled_from(["seed", "targets", "multipliers", "tp_size", "stages", "reached"])
NUMBERS = st.none() | st.floats() | st.sampled_from([0.05, 1e200, 5e-324])
COUNTS = st.none() | st.integers(0, 1 << 62)
EVENTS = st.builds(
    NoiseEvent,
    step=st.integers(0, 25),
    sigma=st.floats() | st.sampled_from(SIGMAS),
    layers=st.integers(0, 9),
    source=st.sampled_from(["log", "aqn-a-1.jsonl"]),
    changed=COUNTS,
    elements=COUNTS,
    effective_std=NUMBERS,
    asked_std=NUMBERS,
    replica=st.integers(0, 2),
    fingerprint=st.sampled_from(["", "a", "b"]),
    dtypes=st.sampled_from(["", "float32", "bfloat16", "bfloat16+float32"]),
)
TOLD_ANYHOW = st.builds(
    NoiseSettings,
    process=st.builds(NoiseProcess, replica=st.integers(0, 2)),
    content=st.dictionaries(OPTIONS, JSON, max_size=4).map(json.dumps),
    layers=st.sampled_from([(), ("model.norm",), (".layers.", "")]),
    elements=COUNTS,
)


@settings(deadline=None, max_examples=100)
@given(st.lists(EVENTS, max_size=6), st.lists(TOLD_ANYHOW, max_size=3), st.booleans(), st.booleans())
def test_any_record_gets_a_verdict(events: list[NoiseEvent], told: list[NoiseSettings], new: bool, named: bool) -> None:
    evidence, expected = lines_of_a_fork(gap=True)
    assert expected.noise is not None
    layers = ("model.layers.0.input_layernorm", "model.norm") if named else ()
    factors = {"multipliers": {"norm": 2.0}, "seed": 1}
    promise = NoiseExpectation(tuple(Link), factors, "a", (NoiseProcess(), NoiseProcess(1)), layers, 128, 2.0)
    noise = replace(expected.noise, provider="payload", promise=promise if new else None)
    evidence = replace(evidence, noise=tuple(events), noise_settings=tuple(told))
    verdict = judge(evidence, replace(expected, noise=noise), RunState.FINISHED, arm="aqn")
    assert verdict.sentence.startswith(f"{verdict.status}: ") and "\n" not in verdict.sentence
