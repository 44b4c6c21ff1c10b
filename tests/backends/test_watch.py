"""The watch of an arm without noise: which arms carry it, what they promise, and that they train as they would."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from rlx.backends.verl.backend import plan
from rlx.model import LaunchPlan, Link, NoiseExpectation, NoiseProcess, Site
from tests.backends.conftest import AQN, CPU, resolved

NOISY = {"arms": {"baseline": {}, "aqn": {"aqn": AQN}}, "control": "baseline"}
ALONE = {"arms": {"baseline": {}, "other": {"seed": 2}}, "control": "baseline"}


def planned(folder: Path, *changes: dict[str, Any], arm: str = "baseline") -> LaunchPlan:
    return plan(resolved(folder, *changes, arm=arm), Site())


def payload(launch: LaunchPlan) -> set[str]:
    return {file.path.removeprefix("payload/") for file in launch.files if file.path.startswith("payload/")}


def watch_of(launch: LaunchPlan) -> NoiseExpectation:
    assert launch.expectations.watch is not None and launch.expectations.noise is None
    return launch.expectations.watch


@pytest.mark.parametrize("changes", [(CPU,), ()], ids=["cpu", "vllm"])
def test_the_arm_without_noise_carries_what_the_other_carries(changes: tuple[Any, ...], tmp_path: Path) -> None:
    control, treatment = (planned(tmp_path, NOISY, *changes, arm=arm) for arm in ("baseline", "aqn"))
    assert payload(control) == payload(treatment) >= {"rlx_aqn.py", "rlx_aqn_probe.py", "aqn.json"}
    assert control.env == treatment.env
    assert treatment.expectations.watch is None
    content = next(file.content for file in control.files if file.path == "payload/aqn.json")
    settings = json.loads(content)
    assert (settings["sigma_start"], settings["sigma_end"], settings["layer_types"]) == (0.0, 0.0, ["rmsnorm"])
    watch = watch_of(control)
    assert (watch.settings, watch.digest) == (settings, hashlib.sha256(content.encode()).hexdigest()[:16])
    noise = treatment.expectations.noise
    assert noise is not None and noise.promise is not None
    assert (watch.processes, watch.probed) == (noise.promise.processes, noise.promise.probed)


def test_what_is_promised(tmp_path: Path) -> None:
    links = (Link.ASKED, Link.REACHED, Link.FELT, Link.LIFTED)
    watch = watch_of(planned(tmp_path, NOISY, CPU))
    assert (watch.links, watch.processes, watch.probed) == (links, (NoiseProcess(),), True)
    watch = watch_of(planned(tmp_path, NOISY))
    assert (watch.links, len(watch.processes), watch.probed) == (links, 8, True)
    # Its server hands on no score of a prompt.
    watch = watch_of(planned(tmp_path, NOISY, {"backend": {"version": "0.7.1"}}))
    assert (watch.links, len(watch.processes), watch.probed) == ((Link.ASKED, Link.REACHED, Link.LIFTED), 8, False)


@pytest.mark.parametrize("changes", [(CPU,), ()], ids=["cpu", "vllm"])
def test_it_trains_as_it_would_alone(changes: tuple[Any, ...], tmp_path: Path) -> None:
    watched, alone = (planned(tmp_path, *changes, arms) for arms in (NOISY, ALONE))
    assert (watched.command, watched.treatment, watched.recipe) == (alone.command, alone.treatment, alone.recipe)


FORK = {"arms": {"baseline": {}, "aqn": {"aqn": {**AQN, "provider": "builtin"}}}, "control": "baseline"}
LINEAR = {"arms": {"baseline": {}, "aqn": {"aqn": {**AQN, "layer_types": ["linear"]}}}, "control": "baseline"}


@pytest.mark.parametrize(
    "changes",
    [
        (ALONE, CPU),
        (ALONE,),
        (FORK,),
        (NOISY, {"rollout": {"engine": "sglang"}}),
        (NOISY, {"data": {"train_rows": None}}),
        (NOISY, {"backend": {"entrypoint": "recipe.dapo.main_dapo"}}),
        (NOISY, CPU, {"backend": {"trainer": "dapo", "entrypoint": "dapo.main_dapo"}}),
        (NOISY, {"overrides": {"actor_rollout_ref.rollout.checkpoint_engine.backend": "nccl"}}),
        (NOISY, {"overrides": {"trainer.v1.trainer_mode": "colocate_async"}}),
        (NOISY, {"backend": {"version": "0.6.1"}, "layout": {"nodes": 2}}),
        (NOISY, {"backend": {"version": "0.6.1"}, "overrides": {"actor_rollout_ref.rollout.free_cache_engine": False}}),
        (LINEAR, {"rollout": {"tp": 2}}),
    ],
)
def test_nobody_pays_who_asks_for_no_noise_or_could_not_have_it(changes: tuple[Any, ...], tmp_path: Path) -> None:
    control = planned(tmp_path, *changes)
    assert control.expectations.watch is None
    assert not {"rlx_aqn.py", "rlx_aqn_probe.py", "rlx_verl_hook.py", "aqn.json"} & payload(control)
    assert "rlx_verl_hook" not in control.env.get("VERL_USE_EXTERNAL_MODULES", "")


@pytest.mark.parametrize("version", ["0.6.1", "0.7.1", "0.8.0", "0.9.1"])
def test_every_version_that_takes_the_noise_can_be_watched(version: str, tmp_path: Path) -> None:
    control = planned(tmp_path, NOISY, {"backend": {"version": version}})
    assert watch_of(control).digest and control.env["VERL_USE_EXTERNAL_MODULES"].split(",")[0] == "rlx_verl_hook"


def test_of_several_arms_with_noise_the_first_says_which_layers(tmp_path: Path) -> None:
    more = {"arms": {"no-noise": {}, "a-norms": {"aqn": {**AQN, "targets": ["input"]}}, "b-all": {"aqn": AQN}}}
    watch = watch_of(planned(tmp_path, CPU, more, {"control": "no-noise"}, arm="no-noise"))
    assert watch.settings["targets"] == ["input"]
