"""The records of a run's weights: which runs carry them, what those promise, and the switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlx.backends.verl.backend import plan
from rlx.model import LaunchPlan, Site, WeightExpectation
from tests.backends.conftest import AQN, CPU, resolved

OFF = {"env": {"RLX_WEIGHT_RECORDS": "off"}}
CARRIED = {"rlx_weights.py", "rlx_verl_weights.py", "rlx_aqn_events.py", "rlx_aqn_hook.py", "rlx_aqn_settings.py"}


def planned(folder: Path, *changes: dict[str, Any]) -> LaunchPlan:
    return plan(resolved(folder, *changes), Site())


def payload(launch: LaunchPlan) -> list[str]:
    return [file.path.removeprefix("payload/") for file in launch.files if file.path.startswith("payload/")]


@pytest.mark.parametrize("changes", [(CPU,), (), ({"backend": {"version": "0.8.0"}},)], ids=["cpu", "vllm", "0.8.0"])
def test_every_run_of_stock_verl_records_its_weights(changes: tuple[Any, ...], tmp_path: Path) -> None:
    launch = planned(tmp_path, *changes)
    devices = launch.devices
    assert launch.expectations.weights == WeightExpectation(devices, devices)
    assert set(payload(launch)) >= CARRIED
    assert "rlx_aqn.py" not in payload(launch), "no noise, and nothing of it"
    assert launch.env["VERL_USE_EXTERNAL_MODULES"].split(",")[-1] == "rlx_verl_weights"


def test_no_file_travels_twice(tmp_path: Path) -> None:
    names = payload(planned(tmp_path, CPU, {"aqn": AQN}))
    assert len(names) == len(set(names)) and set(names) >= CARRIED


@pytest.mark.parametrize(
    "changes",
    [
        (OFF,),
        (CPU, OFF),
        ({"backend": {"version": "0.7.1"}},),
        ({"backend": {"engine": "megatron"}},),
        ({"backend": {"entrypoint": "my.trainer", "trainer": "sync"}},),
        ({"overrides": {"trainer.v1.trainer_mode": "separate_async"}},),
    ],
    ids=["off", "off-on-a-cpu", "0.7.1", "megatron", "another-program", "asynchronous"],
)
def test_other_runs_promise_and_carry_nothing(changes: tuple[Any, ...], tmp_path: Path) -> None:
    launch = planned(tmp_path, *changes)
    assert launch.expectations.weights is None
    assert not {"rlx_weights.py", "rlx_verl_weights.py"} & set(payload(launch))
    assert "rlx_verl_weights" not in launch.env.get("VERL_USE_EXTERNAL_MODULES", "")


def test_a_trainer_that_warms_up_its_critic_syncs_less_often(tmp_path: Path) -> None:
    weights = planned(tmp_path, CPU, {"overrides": {"trainer.critic_warmup": 3}}).expectations.weights
    assert weights is not None and not weights.syncs_each_step
