"""Sigma that follows a measurement: the formula, what it starts from, and what the record says of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from rlx_aqn import Injector  # noqa: E402
from rlx_aqn_settings import InjectionSettings  # noqa: E402

from rlx.model import AdaptiveSigma, sigmas_by_step  # noqa: E402
from tests.payload.models import dense  # noqa: E402

RULE = {"target": "gap", "value": 0.004, "gain": 0.25, "sigma_min": 0.01, "sigma_max": 0.1}
LOW, HIGH = 0.001, 0.02


def settings(stages: int = 5, total: int = 20, **rule: object) -> InjectionSettings:
    return InjectionSettings(0.05, 0.05, stages, total, seed=1, schedule="adaptive", adaptive={**RULE, **rule})


def injector(tmp_path: Path, **rule: object) -> Injector:
    return Injector(settings(**rule), tmp_path / "events.jsonl")


def records(tmp_path: Path) -> list[dict[str, object]]:
    lines = map(json.loads, (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == "noise"]


class TestFormula:
    def test_it_rises_below_the_target_and_falls_beyond_it(self) -> None:
        measured = {5: LOW, 6: LOW, 7: HIGH, 8: 0.004}
        sigmas = [settings().sigma(step, measured) for step in range(4, 10)]
        assert sigmas == pytest.approx([0.0, 0.05, 0.0625, 0.078125, 0.0625, 0.078125])

    def test_it_stays_within_its_bounds(self) -> None:
        assert settings().sigma(20, dict.fromkeys(range(1, 20), LOW)) == 0.1
        assert settings().sigma(20, dict.fromkeys(range(1, 20), HIGH)) == 0.01

    def test_the_stage_free_of_noise_decides_nothing(self) -> None:
        measured = dict.fromkeys(range(1, 5), LOW)
        assert [settings().sigma(step, measured) for step in (1, 4, 5, 21)] == [0.0, 0.0, 0.05, 0.0]

    def test_a_step_knows_only_those_before_it(self) -> None:
        assert settings().sigma(6, {5: LOW, 6: HIGH, 7: HIGH}) == settings().sigma(6, {5: LOW})

    @given(
        stages=st.integers(3, 40), total=st.integers(1, 120), gain=st.floats(0.01, 1), value=st.floats(1e-4, 2),
        measured=st.dictionaries(st.integers(1, 120), st.floats(1e-6, 3), max_size=120),
    )  # fmt: skip
    def test_equals_the_plan_s(
        self, stages: int, total: int, gain: float, value: float, measured: dict[int, float]
    ) -> None:
        ours = settings(stages, total, gain=gain, value=value)
        rule = AdaptiveSigma(**{**RULE, "gain": gain, "value": value})
        planned = rule.follow(sigmas_by_step(0.05, 0.05, stages, total, "adaptive"), measured)
        assert [ours.sigma(step, measured) for step in range(1, total + 1)] == pytest.approx(planned, rel=1e-12, abs=0)

    @pytest.mark.parametrize(("schedule", "rule"), [("adaptive", None), ("constant", RULE)])
    def test_the_schedule_and_what_it_follows_go_together(self, schedule: str, rule: dict[str, object] | None) -> None:
        with pytest.raises(ValueError, match="adaptive"):
            InjectionSettings(0.05, 0.05, 5, 20, schedule=schedule, adaptive=rule)


class TestRecord:
    def test_each_sync_names_its_measurement_and_the_target(self, tmp_path: Path) -> None:
        noise, model = injector(tmp_path), dense()
        for step, measured in ((5, LOW), (6, HIGH), (7, HIGH)):
            noise.apply(model, step)
            noise.measured(step, measured)
        noise.apply(model, 8)
        told = [(line["sigma"], line["measured"], line["target"]) for line in records(tmp_path)]
        assert told == [
            (0.05, None, 0.004),
            (pytest.approx(0.0625), LOW, 0.004),
            (pytest.approx(0.05), HIGH, 0.004),
            (pytest.approx(0.04), HIGH, 0.004),
        ]

    def test_the_noise_is_as_large_as_it_says(self, tmp_path: Path) -> None:
        noise, model = injector(tmp_path), dense()
        noise.measured(5, LOW)
        event = noise.apply(model, 6)
        assert event.asked_std == pytest.approx(0.0625)
        assert event.effective_std == pytest.approx(0.0625, rel=0.3)

    def test_a_validation_between_changes_nothing(self, tmp_path: Path) -> None:
        noise, model = injector(tmp_path), dense()
        noise.measured(5, LOW)
        before = noise.apply(model, 6)
        assert noise.apply(model, 5, phase="validation").sigma == 0
        after = noise.apply(model, 6)
        assert (before.sigma, before.fingerprint) == (after.sigma, after.fingerprint)
        assert [line.get("measured") for line in records(tmp_path)] == [LOW, None, LOW]

    @pytest.mark.parametrize("measured", [math.nan, math.inf])
    def test_what_is_no_number_leaves_it_as_it_is(self, measured: float, tmp_path: Path) -> None:
        noise = injector(tmp_path)
        noise.measured(5, measured)
        assert noise.apply(dense(), 6).sigma == 0.05
        assert records(tmp_path)[0]["measured"] is None

    def test_other_schedules_say_nothing_of_it(self, tmp_path: Path) -> None:
        noise = Injector(InjectionSettings(0.05, 0.05, 5, 20, schedule="constant"), tmp_path / "events.jsonl")
        noise.measured(5, LOW)
        assert noise.apply(dense(), 6).sigma == 0.05
        assert "measured" not in records(tmp_path)[0]
