"""Every command means the same by the time of a step."""

from __future__ import annotations

import json

import pytest

from rlx.evidence import Evidence
from rlx.evidence.metrics import latest_seconds, step_times, usual_seconds
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.recorded import place_runs


@pytest.mark.parametrize("folder", ["pairs/probed", "six-runs"])
def test_status_compare_and_report_say_the_same_seconds(folder: str) -> None:
    place_runs(CASES / folder)
    status = {row["run_id"]: row["step_seconds"] for row in json.loads(rlx("status", "-a", "--json").stdout)["runs"]}
    answer = json.loads(rlx("compare", "baseline", "aqn", "--json").stdout)
    arms = [answer["control"], *answer["treatments"]]
    compared = {run["run_id"]: run["seconds_per_step"] for arm in arms for run in arm["runs"]}
    assert status == compared and all(compared.values())


def test_the_first_step_and_those_that_validate_do_not_set_it_but_the_time_left_follows_the_last() -> None:
    seconds = [30.0, 2.0, 2.0, 9.0, 2.0, 2.0, 9.0, 3.0, 3.0, 3.0]
    times = step_times(Evidence(metrics={step: {"timing_s/step": each} for step, each in enumerate(seconds, start=1)}))
    assert list(times) == list(range(1, 11))
    assert (usual_seconds(seconds), latest_seconds(seconds)) == (3.0, 3.0)
    assert usual_seconds(seconds[:6]) == 2.0
    assert usual_seconds([]) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e200])
def test_what_is_no_time_counts_for_none(seconds: float) -> None:
    assert step_times(Evidence(metrics={1: {"timing_s/step": seconds}})) == {}
