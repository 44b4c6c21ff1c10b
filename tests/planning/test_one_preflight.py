"""plan, launch and doctor say the same of the same recipe and host: findings, their order, and the exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.cli.frame.app import command_line
from rlx.errors import RlxError
from rlx.hosts import local_site
from rlx.recipe import bundled_recipes
from rlx.runs import launch
from tests.cli.support import rlx, tiny_cpu_files
from tests.conftest import CASES
from tests.rig.docker import Container
from tests.rig.rig import Rig
from tests.runs.toys import home, toy_plan

RECIPES = [recipe.name for recipe in bundled_recipes()]
# What other work on this machine changes between two looks: free disk, zombies, free memory, other Rays, a slow probe.
_OF_THE_MOMENT = {"RLX512", "RLX516", "RLX517", "RLX518", "RLX520"}
Said = tuple[int, list[tuple[str, str, str]]]


def said(*words: str) -> Said:
    """The exit code and the findings of a command with --json."""
    result = CliRunner().invoke(command_line(words), [*words, "--json"])
    error = result.exception
    assert error is None or isinstance(error, RlxError | SystemExit), error
    found = json.loads(result.stdout)["findings"]
    code = error.exit_code if isinstance(error, RlxError) else result.exit_code
    shown = [(one["id"], one["severity"], one["message"]) for one in found if one["id"] not in _OF_THE_MOMENT]
    return code, shown


def differences(host: str, *container: str) -> dict[str, Any]:
    """The recipes of which the commands do not say the same there."""
    found = {}
    for name in RECIPES:
        doctor = said("doctor", host, *container, "--recipe", name)
        others = [said("plan", name, "--host", host, *container)]
        others += [said("launch", name, "--host", host, *container, "--dry-run")]
        if others != [doctor, doctor]:
            found[name] = (doctor, *others)
    return found


def test_on_this_machine() -> None:
    assert differences("local") == {}


@pytest.mark.parametrize("command", ["validate", "plan", "doctor"])
def test_a_model_of_unknown_shapes_is_said_wherever_findings_are(command: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    case = (CASES / "preflight/RLX238-breaks-unknown/recipe.yaml").read_text(encoding="utf-8")
    recipe.write_text(case.replace("../bases", str(CASES / "preflight/bases")), encoding="utf-8")
    words = ("doctor", "local", "--recipe", str(recipe)) if command == "doctor" else (command, str(recipe))
    done = CliRunner().invoke(command_line(words), words)
    assert "RLX238" in done.output


def test_on_a_host_with_npus(new_rig: Callable[[int], Rig]) -> None:
    rig = new_rig(1)
    host = rig.host("h1")
    host.add_devices("davinci_manager", *(f"davinci{number}" for number in range(16)))
    host.play_npu_smi("a3-ascend910-busy")
    assert rig.client.call(lambda: differences("h1")) == {}


def test_in_a_container(docker_rig: Rig, container: Container) -> None:
    assert docker_rig.client.call(lambda: differences("h1", "--container", "rl")) == {}


def test_a_launch_is_refused_for_what_is_not_there_and_a_written_plan_likewise(tmp_path: Path) -> None:
    words = ("tiny-cpu", "--arm", "baseline", "--set", "model.path=/nope")
    for command in (("plan", *words, "--host", "local"), ("launch", *words), ("launch", *words, "--host", "local")):
        done = rlx(*command, code=5)
        assert re.search(r"RLX550 local: model\.path: .*/nope", done.stdout + done.stderr)
    plans = tmp_path / "plans.json"
    plans.write_text(rlx("plan", *words, "--json").stdout, encoding="utf-8")
    refused = rlx("launch", "--plan", str(plans), code=5).stderr
    assert re.search(r"RLX550 local: model\.path: .*/nope", refused)


def test_a_written_plan_is_judged_again_whatever_it_says_of_itself(tmp_path: Path) -> None:
    document = json.loads(rlx("plan", "starter", "--arm", "baseline", "--json").stdout)
    (plan,) = document["plans"]
    plan["recipe"]["overrides"] = {"trainer.tset_freq": 1}
    plan["findings"] = []
    del plan["checked"]
    (tmp_path / "plans.json").write_text(json.dumps(document), encoding="utf-8")
    refused = rlx("launch", "--plan", str(tmp_path / "plans.json"), code=2)
    assert "RLX010" in refused.stderr and "trainer.test_freq" in refused.stderr


def test_the_noise_keys_of_the_host_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`builtin` names a fork's keys; stock verl would add them and read none."""
    tiny_cpu_files(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    builtin = ("--set", "arms.aqn.aqn.provider=builtin", "--set", "eval.noise=true")
    assert "RLX629" in rlx("validate", "starter", *builtin, code=2).stdout
    done = rlx("launch", "tiny-cpu", "--arm", "aqn", *builtin, "--dry-run", code=5)
    assert "RLX629" in done.stdout and "local" in done.stdout and "trainer.noise_injection" in done.stdout
    assert "RLX629" not in done.stderr, "each finding is printed once"


def test_many_runs_are_started_by_a_yes_only(tmp_path: Path) -> None:
    plans = [toy_plan("true", arm=f"arm{number}") for number in range(10)]
    (tmp_path / "plans.json").write_text(json.dumps({"plans": [_document(plan) for plan in plans]}), encoding="utf-8")
    refused = rlx("launch", "--plan", str(tmp_path / "plans.json"), code=2)
    assert "10 runs of 1 × cpu each" in refused.stderr and "-y" in refused.stderr
    assert not home().exists()
    started = rlx("launch", "--plan", str(tmp_path / "plans.json"), "-y")
    assert len(started.stdout.split()) == 10


def test_a_plan_that_was_not_judged_cannot_be_launched(wording: SnapshotAssertion) -> None:
    plan = toy_plan("true")
    for odd in (replace(plan, checked=""), replace(plan, seed=2), replace(plan, site=replace(local_site(), root="/x"))):
        with pytest.raises(RlxError) as refused:
            launch([odd], {}, home())
        assert "rlx.plan" in refused.value.hint
        assert refused.value.message == wording


def _document(plan: Any) -> Any:
    from rlx.model import to_jsonable

    return to_jsonable(plan)
