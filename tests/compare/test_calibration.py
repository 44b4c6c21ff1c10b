"""The benchmark that calibrates the tests: it runs, and it would notice a test that errs."""

from __future__ import annotations

import re
import subprocess
import sys
from statistics import fmean

import numpy as np
import pytest

from benchmarks.calibrated import Line, any_alarm, by_count, covered
from benchmarks.simulated import both_answers, item_differences, right_answers, seed_values
from tests.conftest import REPOSITORY

SHARE = re.compile(r"([\d.]+) %")


@pytest.mark.long
def test_few_replications_give_the_whole_table() -> None:
    command = [sys.executable, "benchmarks/calibration.py", "--replications", "20"]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, encoding="utf-8")
    assert shown.stderr == ""
    assert shown.stdout.count("### ") == 7 + 1 + 8
    old = shown.stdout.partition("### One run per arm, mean@1, no outputs, few items")[0].splitlines()
    rows = [line.split("|")[2:6] for line in old if line.startswith("| n =") or " seeds, " in line]
    assert len(rows) == 24 + 24 + 24 + 12 + 24 + 30 + 24
    alarms, coverage = ([float(SHARE.search(row[i])[1]) for row in rows if row[i].strip()] for i in (0, 1))  # type: ignore[index]
    assert 1 < fmean(alarms) < 6
    assert 94 < fmean(coverage) < 99


def test_a_test_that_errs_breaks_the_budget() -> None:
    assert Line("", 20_000, 0.05, 0.95).notes == []
    assert Line("", 20_000, 0.07).broken
    assert Line("", 20_000, 0.05, 0.93).broken
    assert not Line("", 20_000, 0.0601, 0.9399).broken
    assert Line("", 20_000, 0.03, 0.98).notes == ["cautious"]
    assert Line("", 20_000, 0.05, 0.95, 0.90).notes == ["short"]


def test_what_compare_warns_of_is_marked_and_breaks_nothing() -> None:
    assert Line("", 20_000, 0.09, 0.91, warned=True).notes == ["errs, known"]
    assert Line("", 20_000, 0.05, 0.95, warned=True).notes == []
    command = [sys.executable, "benchmarks/calibration.py", "--replications", "4000", "--only", "unequal spread"]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, encoding="utf-8")
    known = [line.split(",")[0] for line in shown.stdout.splitlines() if "known" in line]
    assert shown.returncode == 0
    assert {"| 2 and 5 seeds"} <= {*known} <= {"| 2 and 2 seeds", "| 2 and 5 seeds", "| 3 and 10 seeds"}, known


def test_simulated_answers_have_the_accuracy_and_likeness_that_were_asked_for() -> None:
    rng = np.random.default_rng(1)
    both, treatment, control, neither = both_answers(rng, (200, 5000), 0.7, 0.4, 0.05).mean(axis=0) / 5000
    assert (both + treatment, both + control) == pytest.approx((0.725, 0.675), abs=2e-3)
    assert both + treatment + control + neither == pytest.approx(1)
    assert treatment + control == pytest.approx(2 * 0.7 * 0.3 * 0.6, abs=2e-3)


def test_simulated_differences_have_the_effect_and_spread_that_were_asked_for() -> None:
    rng = np.random.default_rng(1)
    for effect in (0.05, 0.0):
        kinds, counts = item_differences(rng, (200, 2000), 0.7, 0.4, 8, effect)
        assert (counts @ kinds / 2000).mean() == pytest.approx(effect, abs=1e-3)
    # Two means of eight answers that correlate with 0.4.
    assert (counts @ kinds**2 / 2000).mean() == pytest.approx(2 * 0.7 * 0.3 * 0.6 / 8, rel=0.01)


def test_simulated_right_answers_have_the_accuracy_and_likeness() -> None:
    ways, counts = right_answers(np.random.default_rng(1), (200, 2000), 0.7, 0.3, 3)
    shares = counts.mean(axis=0) / 2000
    assert list(shares @ ways) == pytest.approx([0.7] * 3, abs=2e-3)
    assert shares @ (ways[:, 0] & ways[:, 2]) == pytest.approx(0.7**2 + 0.7 * 0.3 * 0.3, abs=2e-3)


def test_simulated_seeds_spread_as_asked_on_top_of_the_items() -> None:
    values = seed_values(np.random.default_rng(1), (1, 500, 10), 100_000, 0.02)
    assert values.mean() == pytest.approx(0.7, abs=5e-3)
    assert values.std() == pytest.approx(0.02, rel=0.1)


def test_counting_helpers() -> None:
    counts = np.array([[1, 2], [3, 4], [1, 2]])
    p_value, low, high = by_count(counts, lambda left, right: (left / 10, -right, right))
    assert (list(p_value), list(low), list(high)) == ([0.1, 0.3, 0.1], [-2, -4, -2], [2, 4, 2])
    assert any_alarm(np.array([[0.01, 0.04, np.nan], [0.9, 0.04, 0.02]])) == pytest.approx(2 / 3)
    assert covered(np.array([-1.0, 1.0, np.nan]), np.array([1.0, 2.0, np.nan]), 0.0) == 0.5
