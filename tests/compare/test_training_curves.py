"""Training curves: what they are means of, where they have no point, and which of them are drawn."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.compare.training_curves import MOST_METRICS, MOST_POINTS, band, training_curves
from rlx.errors import UsageError
from rlx.evidence import JudgedRun
from rlx.evidence.reading.metric_table import NO_COLUMN, MetricColumn
from rlx.evidence.run_evidence import ProbePair
from rlx.model import NoiseProcess
from tests.compare.builders import RunBuilder
from tests.report.samples import recorded


def of(values: Mapping[int, float]) -> MetricColumn:
    return MetricColumn(array("q", values), array("d", values.values()))


def run(log: Mapping[int, Mapping[str, float]], seed: int = 1, backend: str = "verl") -> JudgedRun:
    built = RunBuilder(metrics=log, seed=seed).judged()
    return replace(built, evidence=replace(built.evidence, backend=backend))


def test_a_band_is_the_mean_with_the_lowest_and_the_highest_run() -> None:
    found = band([of({1: 0.0, 2: 1.0}), of({1: 4.0, 2: 1.0}), of({1: 2.0, 2: 4.0})], most=9)
    assert (found.steps, found.mean, found.low, found.high) == ((1, 2), (2.0, 2.0), (0.0, 1.0), (4.0, 4.0))
    assert (found.runs, found.lost, found.width) == (3, 0, 1)


def test_where_a_run_has_no_value_there_is_no_mean_that_would_jump() -> None:
    found = band([of({1: 0.0, 2: 0.0, 3: 0.0}), of({1: 9.0, 2: math.nan}), of({1: 0.0, 2: 0.0})], most=9)
    assert (found.steps, found.mean, found.lost) == ((1,), (3.0,), 2)


def test_a_run_without_the_metric_leaves_no_band() -> None:
    assert band([of({1: 1.0}), NO_COLUMN], most=9).steps == ()


def test_long_curves_are_means_of_neighbours() -> None:
    found = band([of({step: float(step) for step in range(1, 11)})], most=3)
    assert found.width == 4
    assert (found.steps, found.mean) == ((3, 7), (2.5, 6.5))
    assert len(band([of({step: 0.0 for step in range(10_000)})], MOST_POINTS).steps) <= MOST_POINTS


def test_without_patterns_the_metrics_that_show_how_a_training_goes(wording: SnapshotAssertion) -> None:
    found = training_curves([[recorded("tiny-baseline", "baseline")], [recorded("probed-aqn", "aqn")]])
    assert len(found.curves) == 7 and len(found.zero) == 2
    titles = [each.title for each in found.curves]
    assert {"titles": titles, "missing": found.missing, "zero": found.zero} == wording
    probe = found.curves[-2]
    assert probe.arms[0] is None and probe.arms[1] is not None


def test_a_role_has_the_name_of_its_back_end(wording: SnapshotAssertion) -> None:
    found = training_curves([[run({1: {"kl": 0.1}, 2: {"kl": 0.2}}, backend="trl")]])
    assert [each.title for each in found.curves] == wording


def test_the_penalty_counts_where_the_loss_is_only_logged() -> None:
    row = {"actor/reward_kl_penalty": 0.3, "actor/kl_loss": 0.0}
    (found,) = training_curves([[run({1: row, 2: row})]]).curves
    assert found.arms[0] is not None and found.arms[0].mean == (0.3, 0.3)


def test_patterns_choose_any_metric_of_any_log(wording: SnapshotAssertion) -> None:
    arms = [[run({1: {"a/x": 1.0, "b": 0.0}, 2: {"a/x": 1.0, "b": 0.0}})], [run({1: {"a/y": 1.0}, 2: {"a/y": 2.0}})]]
    found = training_curves(arms, ["a/*", "b"])
    assert [(each.title, [arm is not None for arm in each.arms]) for each in found.curves] == [
        ("a/x", [True, False]),
        ("a/y", [False, True]),
        ("b", [True, False]),
    ]
    with pytest.raises(UsageError, match=r"none\*") as refused:
        training_curves(arms, ["a/*", "none*"])
    assert refused.value.message == wording


def test_one_step_is_no_curve() -> None:
    found = training_curves([[run({1: {"a": 1.0, "b": 1.0}, 2: {"b": 2.0}})]], ["*"])
    assert ([each.title for each in found.curves], found.missing) == (["b"], ("a",))


def test_more_than_anybody_looks_at_is_not_drawn() -> None:
    row = {f"m{number:03}": 1.0 for number in range(MOST_METRICS + 5)}
    found = training_curves([[run({1: row, 2: row})]], ["m*"])
    assert (len(found.curves), len(found.more)) == (MOST_METRICS, 5)


def test_the_probe_is_the_mean_over_the_processes_that_looked() -> None:
    looks = [
        (1, 0.1, "rollout"),
        (1, 0.3, "rollout"),
        (2, 0.5, "rollout"),
        (2, 9.0, "validation"),
        (2, None, "rollout"),
    ]
    pairs = tuple(ProbePair(phase, step, NoiseProcess(), 0.1, delta, None) for step, delta, phase in looks)
    bare = run({})
    (found,) = training_curves([[replace(bare, evidence=replace(bare.evidence, probes=pairs))]]).curves
    assert found.arms[0] is not None and found.arms[0].mean == pytest.approx((0.2, 0.5))
