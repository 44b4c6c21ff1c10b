"""`--systems`: whole systems are compared, every difference is listed, and the evaluation must be equal."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.compare import Comparison, compare
from rlx.compare.outputs import Items
from rlx.compare.sentences import headline
from rlx.evidence import ItemScores, JudgedRun
from rlx.model import Severity
from rlx.model.registration import RegisteredArm
from tests.cli.support import rlx
from tests.compare.builders import LR_CONTROL, LR_TREATMENT, RunBuilder, arm, only
from tests.compare.run_dirs import ASKED, arm_of, write_run
from tests.compare.test_compare_seeds import RunsOf

SLOW, FAST = (0.60, 0.62, 0.61, 0.63), (0.70, 0.73, 0.71, 0.72)
RECIPE: Mapping[str, Any] = {
    "model": {"path": "/m/a", "dtype": "bfloat16"},
    "data": {"train": "/d/train", "val": "/d/val"},
    "reward": {"path": "/r.py", "kwargs": {"scale": 1}},
    "eval": {"n": 1},
    "train": {"lr": 1e-6},
}
FOUND: Mapping[str, Any] = {
    "data": {"/d/val": {"sha256": "v"}},
    "model": {"sha256": "a", "chat_template": "t"},
    "files": {"payload/r.py": "r"},
}


def systems(
    recipe: Mapping[str, Any],
    found: Mapping[str, Any] = FOUND,
    items: Mapping[int, Items] | None = None,
    asked: bool = True,
) -> Comparison:
    """Compare two systems that differ in this."""
    own = {**RECIPE, **{key: {**RECIPE.get(key, {}), **value} for key, value in recipe.items()}}
    control = RunBuilder(arm="a", recipe=RECIPE, provenance=FOUND)
    other = RunBuilder(arm="b", recipe=own, provenance=found)
    return compare(arm(control, SLOW), [arm(other, FAST)], None, items or {}, systems=asked)


def objections(found: Comparison) -> list[str]:
    return [finding.id for finding in only(found).findings if finding.severity is Severity.ERROR]


def graded(runs: Sequence[JudgedRun], scores: Sequence[float]) -> Items:
    rows = {f"i{number}": (score,) for number, score in enumerate(scores)}
    answers = {item: (f"answer to {item}",) for item in rows}
    return {run.run_id: ItemScores(3, rows, answers=answers) for run in runs}


@pytest.mark.parametrize(
    ("recipe", "found"),
    [
        ({"model": {"path": "/m/b"}}, {**FOUND, "model": {"sha256": "b", "chat_template": "t"}}),
        ({"model": {"path": "/m/b"}}, {**FOUND, "model": {"sha256": "b", "chat_template": "other"}}),
        ({"data": {"train": "/d/more"}, "train": {"lr": 2e-6}}, FOUND),
    ],
)
def test_another_model_or_other_data_are_listed_and_not_objected_to(
    recipe: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    asked, unasked = systems(recipe, found), systems(recipe, found, asked=False)
    contrast = only(asked)
    assert not objections(asked) and objections(unasked)
    assert contrast.p_value is not None and contrast.factors == ()
    assert not any(item.declared for item in contrast.differences)
    assert "no setting credited" in headline(asked) and "RLX933" in {each.id for each in contrast.findings}
    assert any("no one of them is credited" in said for said in contrast.sentences)


@pytest.mark.parametrize(
    ("recipe", "found"),
    [
        ({"eval": {"n": 4}}, FOUND),
        ({"eval": {"temperature": 1.0}}, FOUND),
        ({"model": {"dtype": "float32"}}, FOUND),
        ({"data": {"val": "/d/other"}}, FOUND),
        ({}, {**FOUND, "data": {"/d/val": {"sha256": "w"}}}),
        ({}, {**FOUND, "model": {"sha256": "a", "chat_template": "other"}}),
        ({}, {**FOUND, "files": {"payload/r.py": "s"}}),
        ({"reward": {"kwargs": {"scale": 10}}}, FOUND),
    ],
)
def test_another_evaluation_stays_an_error(recipe: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    assert objections(systems(recipe, found)) == ["RLX902"]


def test_equal_scores_of_common_answers_show_one_way_to_grade() -> None:
    scaled: Mapping[str, Any] = {"reward": {"kwargs": {"scale": 10}}}
    control = arm(RunBuilder(arm="a", recipe=RECIPE), SLOW)
    treated = arm(RunBuilder(arm="b", recipe=RECIPE), FAST)
    scores = [float(number % 2) for number in range(40)]
    for ours, theirs, expected in (
        (scores, scores, []),
        (scores[:20], scores[:20], ["RLX902"]),
        ([1.0] * 40, [1.0] * 40, ["RLX902"]),
        (scores, [1 - score for score in scores], ["RLX902", "RLX921"]),
    ):
        # At a step that is not compared: what is tested here is how they are graded.
        items = {3: {**graded(control, ours), **graded(treated, theirs)}}
        assert objections(systems(scaled, items=items)) == expected


def test_the_runs_of_one_system_must_be_alike() -> None:
    control = arm(LR_CONTROL, SLOW)
    mixed = [*arm(LR_TREATMENT, FAST[:2]), *arm(replace(LR_TREATMENT, recipe={"train": {"lr": 3e-6}}), FAST)[2:]]
    found = only(compare(control, [mixed], systems=True))
    assert "RLX907" in {finding.id for finding in found.errors}


@pytest.mark.long
def test_the_command_says_it_in_every_form(runs_of: RunsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = RunBuilder(arm="baseline", series={0: 0.1, 6: 0.6}, planned_rows=100, recipe=RECIPE)
    two = RunBuilder(
        arm="b", series={0: 0.1, 6: 0.7}, recipe={**RECIPE, "model": {"path": "/m/b", "dtype": "bfloat16"}}
    )
    two = replace(two, treatment=("model.path",), planned_rows=100)
    runs_of(one, replace(one, seed=2), two, replace(two, seed=2))
    assert "not evaluated alike" in rlx("compare", "baseline", "b", code=14).stdout
    assert "model.path: /m/a → /m/b" in rlx("compare", "baseline", "b", "--systems").stdout
    said = json.loads(rlx("compare", "baseline", "b", "--systems", "--json").stdout)
    assert said["systems"] and said["contrasts"][0]["factors"] == []
    rlx("report", "baseline", "b", "--systems", "-o", "page.html", "--bundle", "b.tar.gz")
    assert "whole systems" in Path("page.html").read_text(encoding="utf-8")
    rlx("judge", "b.tar.gz")


def registered(other: RunBuilder, **asked: Any) -> list[RunBuilder]:
    """Return the runs of an experiment on two models."""
    arms = (RegisteredArm("baseline", (), "0", "e"), RegisteredArm("b", ("model.path",), "1", "e"))
    one = RunBuilder(arm="baseline", planned_rows=100, recipe=RECIPE)
    experiment = replace(ASKED, arms=arms, **asked)
    return [*arm_of(one, SLOW[:3], experiment), *arm_of(other, FAST[:3], experiment)]


def written(runs: Sequence[RunBuilder]) -> None:
    for run in runs:
        write_run(run.plan(), run.series, None)


OTHER = {**RECIPE, "model": {"path": "/m/b", "dtype": "bfloat16"}}
MODEL = RunBuilder(arm="b", planned_rows=100, recipe=OTHER, treatment=("model.path",))


@pytest.mark.long
def test_an_experiment_of_systems_is_compared_so_without_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(registered(MODEL, kind="systems"))
    said = json.loads(rlx("compare", "baseline", "b", "--json").stdout)
    assert said["systems"] and said["contrasts"][0]["factors"] == []
    assert "RLX933" in {finding["id"] for finding in said["contrasts"][0]["findings"]}
    assert [answer["answer"]["kind"] for answer in said["registered"]["answers"]] == ["yes"]
    assert said == json.loads(rlx("compare", "baseline", "b", "--systems", "--json").stdout)
    assert "no setting credited" in said["claim"]
    rlx("report", "baseline", "b", "-o", "page.html", "--bundle", "b.tar.gz")
    assert json.loads(rlx("judge", "b.tar.gz", "--json").stdout)["agrees"]


def test_it_is_never_a_fallback_and_its_evaluation_must_be_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(registered(MODEL))
    found = json.loads(rlx("compare", "baseline", "b", "--json", code=14).stdout)
    assert not found["systems"] and found["registered"]["answers"] == []
    shutil.rmtree(os.environ["RLX_ROOT"])
    shutil.rmtree(os.environ["RLX_HOME"])
    sampled = replace(MODEL, recipe={**OTHER, "eval": {"n": 1, "temperature": 1.0}})
    written(registered(sampled, kind="systems"))
    found = json.loads(rlx("compare", "baseline", "b", "--json", code=14).stdout)
    assert "RLX902" in {finding["id"] for finding in found["contrasts"][0]["findings"]}


def imported(seed: int, name: str, **settings: Any) -> JudgedRun:
    """Return a run without a recipe, which prints its own seed, names and folders."""
    run = RunBuilder(arm=name, seed=seed, series={0: 0.1, 6: 0.5 + 0.01 * seed}).judged()
    config = {
        "data": {"seed": seed},
        "actor": {"data_loader_seed": seed, "lr": 1e-6},
        "trainer": {"default_local_dir": f"/runs/{name}-s{seed}/checkpoints", "experiment_name": f"{name}-s{seed}"},
        "rollout": {"trace": f"{name}-s{seed}"},
        "reward": {"path": f"/runs/{name}-s{seed}/payload/reward.py"},
        **settings,
    }
    return replace(run, plan=replace(run.plan, recipe={}), provenance={"printed_config": config})


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        ({}, set()),
        ({"critic": {"warmup": 3}}, {"RLX903"}),
        ({"data": {"seed": 7}}, {"RLX903", "RLX912", "RLX913"}),
        ({"reward": {"path": "/elsewhere/payload/reward.py"}}, {"RLX903"}),
    ],
)
def test_imported_runs_are_not_faulted_for_their_own_seeds_names_and_folders(
    settings: Mapping[str, Any], ids: set[str]
) -> None:
    control = [imported(seed, "a", critic={"warmup": 0}) for seed in (1, 2, 3)]
    treated = [imported(seed, "b", **{"critic": {"warmup": 0}, **settings}) for seed in (1, 2, 3)]
    found = only(compare(control, [treated])).findings
    assert {each.id for each in found if each.severity is Severity.WARNING} - {"RLX718"} == ids
