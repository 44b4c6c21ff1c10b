from __future__ import annotations

import math

import pytest

from rlx.evidence import Evidence, core_metric, series
from rlx.evidence.metrics import data_sources, samples, statistic, validated_steps, variable
from rlx.model import Expectations


def expecting(metric: str = "auto") -> Expectations:
    return Expectations(2, (0, 2), True, 100, 1, metric, None, True)


def validated(*keys: str) -> Evidence:
    return Evidence(metrics={0: dict.fromkeys(keys, 0.5), 1: {"actor/lr": 1.0}, 2: dict.fromkeys(keys, 0.6)})


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ([], None),
        (["val-aux/a/acc/mean@1"], None),
        (["val-core/a/reward/mean@1"], "val-core/a/reward/mean@1"),
        (["val-core/a/reward/mean@1", "val-core/a/acc/mean@1"], "val-core/a/acc/mean@1"),
        (["val-core/a/acc/best@4/mean", "val-core/a/acc/maj@4/mean", "val-core/a/acc/mean@4"], "val-core/a/acc/mean@4"),
        (["val-core/b/acc/mean@1", "val-core/a/acc/mean@1"], "val-core/a/acc/mean@1"),
    ],
)
def test_auto_takes_the_key_that_the_log_shows(keys: list[str], chosen: str | None) -> None:
    assert core_metric(validated(*keys), expecting()) == chosen


def test_auto_prefers_the_key_that_is_there_every_time() -> None:
    evidence = Evidence(
        metrics={
            0: {"val-core/a/reward/mean@1": 0.1, "val-core/a/acc/mean@1": math.nan},
            2: {"val-core/a/reward/mean@1": 0.2, "val-core/a/acc/mean@1": 0.2},
        }
    )
    assert core_metric(evidence, expecting()) == "val-core/a/reward/mean@1"


def test_a_planned_metric_counts_only_if_the_log_has_it() -> None:
    evidence = validated("val-core/a/acc/mean@1", "critic/score/mean")
    assert core_metric(evidence, expecting("critic/score/mean")) == "critic/score/mean"
    assert core_metric(evidence, expecting("val-core/b/acc/mean@1")) is None


def test_a_data_source_may_contain_slashes() -> None:
    evidence = validated(
        "val-core/openai/gsm8k/acc/mean@1", "val-core/openai/gsm8k/acc/maj@8/mean", "val-core/math/acc/mean@1"
    )
    assert data_sources(evidence) == ["math", "openai/gsm8k"]


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("val-core/openai/gsm8k/acc/mean@8", ("acc", "mean@8", 8)),
        ("val-core/x/reward/maj@16/mean", ("reward", "maj@16/mean", 16)),
        ("val-core/x", ("", "x", 1)),
        ("anything", ("", "anything", 1)),
    ],
)
def test_the_parts_of_a_name(key: str, parts: tuple[str, str, int]) -> None:
    assert (variable(key), statistic(key), samples(key)) == parts


def test_series_and_validated_steps() -> None:
    evidence = Evidence(
        metrics={0: {"val-core/a/acc/mean@1": math.nan}, 1: {"x": 1.0}, 2: {"val-core/a/acc/mean@1": 0.5}}
    )
    assert list(series(evidence, "val-core/a/acc/mean@1")) == [0, 2]
    assert validated_steps(evidence, "val-core/a/acc/mean@1") == [2]
    assert validated_steps(evidence, None) == [0, 2]
    assert series(evidence, "nothing") == {}
