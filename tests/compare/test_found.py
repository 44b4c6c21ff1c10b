"""What differs besides the treatment, and in which order it is said."""

from __future__ import annotations

import functools
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

import rlx
from benchmarks.honest_trainings import FOLDER
from rlx.compare.difference_areas import DifferenceArea, area_of
from rlx.compare.run_differences import differences
from rlx.evidence import JudgedRun
from rlx.model import RunState, Severity
from rlx.recipe.schema import Recipe
from tests.compare.builders import RunBuilder, one_run_each, only
from tests.compare.conftest import Build
from tests.recorded import place_bundle

RECORD: dict[str, Any] = {
    "packages": {"torch": "2.7.1", "rich": "13.0", "math-verify": "0.7", "verl": "0.9.1"},
    "commits": {"verl": "abc"},
    "changes": {"verl": "none"},
    "machine": "node-1",
    "hardware": {"accelerators": {"19e5:d802": 8}, "processor": "Kunpeng"},
    "data": {"/data/train.parquet": {"sha256": "1"}, "/data/test.parquet": {"sha256": "2"}},
}


def run(arm: str = "baseline", recipe: Any = None, command: tuple[str, ...] = (), **found: Any) -> JudgedRun:
    paths = {"train": "/data/train.parquet", "val": "/data/test.parquet"}
    built = RunBuilder(
        arm=arm,
        series={0: 0.1, 116: 0.7},
        recipe={"data": paths, **(recipe or {})},
        command=command,
        provenance={**RECORD, **found},
    )
    return built.judged()


def keys(control: JudgedRun, treatment: JudgedRun) -> list[str]:
    return [item.key for item in differences(control, treatment)]


def test_what_can_move_the_result_most_comes_first() -> None:
    changed = run(
        "aqn",
        recipe={
            "train": {"lr": 2, "micro_batch_size": 8},
            "eval": {"n": 4},
            "layout": {"tp": 2},
            "model": {"path": "b"},
        },
        packages={"torch": "2.8.0", "rich": "14.0", "math-verify": "0.8", "verl": "0.9.1"},
        commits={"verl": "def"},
        machine="node-2",
        hardware={"accelerators": {"19e5:d802": 4}, "processor": "Kunpeng"},
        data={"/data/train.parquet": {"sha256": "9"}, "/data/test.parquet": {"sha256": "2"}},
    )
    recipe = {"train": {"lr": 1, "micro_batch_size": 4}, "eval": {"n": 1}, "layout": {"tp": 1}, "model": {"path": "a"}}
    assert keys(run(recipe=recipe), changed) == [
        "eval.n",
        "training data",
        "model.path",
        "package math-verify",
        "train.lr",
        "commit of verl",
        "package torch",
        "layout.tp",
        "train.micro_batch_size",
        "hardware accelerators",
        "machine",
        "package rich",
    ]


@pytest.mark.parametrize(
    ("key", "area"),
    [
        ("overrides.data.shuffle", DifferenceArea.DATA),
        ("overrides.actor_rollout_ref.actor.entropy_coeff", DifferenceArea.TRAINING),
        ("config actor_rollout_ref.rollout.val_kwargs.top_p", DifferenceArea.EVALUATION),
        ("config actor_rollout_ref.rollout.dtype", DifferenceArea.MODEL),
        ("config actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", DifferenceArea.LAYOUT),
        ("config trainer.logger", DifferenceArea.INCIDENTAL),
        ("config trainer.total_training_steps", DifferenceArea.TRAINING),
        ("config algorithm.norm_adv_by_std_in_grpo", DifferenceArea.TRAINING),
        ("file payload/reward.py", DifferenceArea.REWARD),
        ("file payload/rlx_aqn.py", DifferenceArea.CODE),
        ("uncommitted changes of verl", DifferenceArea.CODE),
        ("package torch-npu", DifferenceArea.VERSIONS),
        ("package verl", DifferenceArea.CODE),
        ("ascend cann", DifferenceArea.VERSIONS),
        ("code verl", DifferenceArea.INCIDENTAL),
        ("aqn", DifferenceArea.TRAINING),
        ("aqn.min_trained_share", DifferenceArea.INCIDENTAL),
        ("algorithm.correction.rejection", DifferenceArea.TRAINING),
        ("seed", DifferenceArea.TRAINING),
        ("reward", DifferenceArea.REWARD),
        ("backend.version", DifferenceArea.VERSIONS),
    ],
)
def test_areas(key: str, area: DifferenceArea) -> None:
    assert area_of(key) is area


def test_no_section_of_a_recipe_is_incidental() -> None:
    """A new section counts until somebody says that it does not."""
    names = set(Recipe.model_fields) - {"version", "name", "secrets"}
    assert {area_of(name) for name in names}.isdisjoint({DifferenceArea.INCIDENTAL})


def test_another_path_to_the_same_data_is_incidental() -> None:
    other = run(
        "aqn",
        recipe={"data": {"train": "/elsewhere/train.parquet", "val": "/data/test.parquet"}},
        data={"/elsewhere/train.parquet": {"sha256": "1"}, "/data/test.parquet": {"sha256": "2"}},
    )
    (found,) = differences(run(), other)
    assert (found.key, found.area) == ("data.train", DifferenceArea.INCIDENTAL)
    other = run("aqn", recipe={"data": {"train": "/elsewhere/train.parquet", "val": "/data/test.parquet"}})
    assert [(item.key, item.area) for item in differences(run(), other)] == [("data.train", DifferenceArea.DATA)]


def test_the_composed_configuration_counts_where_the_launches_do_not_differ() -> None:
    """A fork's own files may say what no recipe does; what the launches set in two ways follows from the recipes."""
    control = {"actor": {"lr": 1, "clip": 0.2, "fused": True}, "trainer": {"name": "a"}}
    treatment = {"actor": {"lr": 2, "clip": 0.3}, "trainer": {"name": "b"}}
    words = ("python3", "-m", "verl", "actor.lr=1", "+trainer.name=a", "'quoted")
    others = ("python3", "-m", "verl", "actor.lr=2", "+trainer.name=b", "'quoted")
    found = keys(run(command=words, config=control), run("aqn", command=others, config=treatment))
    assert found == ["config actor.clip", "config actor.fused"]
    alike = keys(run(command=words, config=control), run("aqn", command=words, config=treatment))
    assert sorted(alike) == ["config actor.clip", "config actor.fused", "config actor.lr", "config trainer.name"]


def test_a_name_that_another_key_repeats_is_no_other_difference() -> None:
    """Printed configurations have values where files have interpolations. Equal numbers may be equal by chance."""
    control = {"trainer": {"name": "a", "steps": 1}, "trace": {"name": "a", "steps": 1}}
    treatment = {"trainer": {"name": "b", "steps": 2}, "trace": {"name": "b", "steps": 2}}
    one = run(command=("trainer.name=a", "trainer.steps=1"), printed_config=control)
    other = run("aqn", command=("trainer.name=b", "trainer.steps=2"), printed_config=treatment)
    assert keys(one, other) == ["config trace.steps"]


@pytest.mark.parametrize("key", ["trainer.default_local_dir", "actor_config.save", "output_dir", "files"])
def test_the_folder_of_the_run_itself_is_no_difference(key: str) -> None:
    def composed(arm: str, folder: str) -> JudgedRun:
        path = f"/root/runs/{folder}/checkpoints"
        return replace(run(arm, config={key: [path, "b"] if key == "files" else path}), run_id=arm)

    assert keys(composed("one", "one"), composed("two", "two")) == []
    assert keys(composed("one", "one"), composed("two", "one")) == [f"config {key}"], "the folder of the other run"
    assert keys(composed("one", "one"), composed("two", "two-b")) == [f"config {key}"]
    assert keys(composed("one", "one/x"), composed("two", "two/y")) == [f"config {key}"]


RECORDED = ("trl-linear", "trl-kl-n4", "trl-warmup-n2", "trl-vllm-cosine", "trl-vllm-weighted-linear-n4")


@functools.cache
def recorded() -> dict[str, JudgedRun]:
    placed = {name: place_bundle(FOLDER / f"{name}.tar.gz") for name in RECORDED}
    return {name: rlx.judge(run_dir.name) for name, (run_dir,) in placed.items()}


@pytest.mark.parametrize("pair", list(itertools.pairwise(RECORDED)), ids="-and-".join)
def test_what_two_launches_of_trl_set_follows_from_their_recipes(pair: tuple[str, str]) -> None:
    one, other = (recorded()[name] for name in pair)
    assert one.provenance["config"]["output_dir"] != other.provenance["config"]["output_dir"]
    assert one.provenance["files"]["payload/trl.json"] != other.provenance["files"]["payload/trl.json"]
    found = keys(one, other)
    assert [key for key in found if key.startswith(("config ", "file "))] == []
    assert "rollout.n" in found or "overrides.lr_scheduler_type" in found


def launched_again(arm: str, arguments: dict[str, Any], seed: int = 1, **recipe: Any) -> JudgedRun:
    """Return the first of the runs as another launch of it with these arguments and keys would be."""
    run = recorded()[RECORDED[0]]
    id_ = f"{run.run_id}-{arm}"
    config = json.loads(json.dumps(run.provenance["config"]).replace(run.run_id, id_)) | arguments
    files = {**run.provenance["files"], "payload/trl.json": "of other arguments"}
    plan = replace(run.plan, recipe={**run.plan.recipe, "seed": seed, **recipe}, treatment=("train.lr",))
    provenance = {**run.provenance, "config": config, "files": files}
    return replace(run, run_id=id_, arm=arm, seed=seed, plan=plan, provenance=provenance)


def test_two_seeds_of_a_run_of_trl_differ_in_their_seed_alone() -> None:
    run = recorded()[RECORDED[0]]
    assert keys(run, launched_again("baseline", {"seed": 2}, seed=2)) == ["seed"]
    assert keys(run, launched_again("baseline", {"seed": 2, "beta": 0.5}, seed=2)) == ["seed", "config beta"]


def test_a_declared_learning_rate_of_trl_is_no_other_setting_as_well() -> None:
    run = recorded()[RECORDED[0]]
    treated = launched_again("fast", {"learning_rate": 0.5}, train={**run.plan.recipe["train"], "lr": 0.5})
    assert [(item.key, item.declared) for item in differences(run, treated)] == [("train.lr", True)]
    unlike = launched_again("fast", {"learning_rate": 0.5})
    assert keys(run, unlike) == ["config learning_rate"]
    assert "RLX932" in {finding.id for finding in only(one_run_each(run, [unlike])).findings}
    assert "RLX932" not in {finding.id for finding in only(one_run_each(run, [treated])).findings}


def test_a_package_that_only_one_has_and_a_file_that_belongs_to_its_arm() -> None:
    more = {**RECORD["packages"], "flash-attn": "2.8"}
    control, treatment = run(files={}), run("aqn", packages=more, files={"payload/rlx_aqn.py": "d"})
    (found,) = differences(control, treatment)
    assert (found.key, found.control, found.treatment) == ("package flash-attn", None, "2.8")


def test_a_control_that_is_watched_for_noise_differs_by_the_recipe_alone() -> None:
    hook = {"payload/rlx_aqn.py": "d"}
    treatment = run("aqn", files={**hook, "payload/aqn.json": "of noise"})
    assert keys(run(files={**hook, "payload/aqn.json": "of sigma 0"}), treatment) == []
    assert keys(run(files={}), treatment) == [], "launched before controls were watched"


def test_what_the_entry_of_a_host_adds() -> None:
    control, treatment = run(), run("aqn")
    site = replace(treatment.plan.site, env={"HCCL_OP_EXPANSION_MODE": "AIV"})
    other = replace(treatment, plan=replace(treatment.plan, site=site), submitted_by={"rlx": "0.2.0"})
    assert keys(replace(control, submitted_by={"rlx": "0.1.0"}), other) == ["rlx", "host.env.HCCL_OP_EXPANSION_MODE"]
    assert keys(control, other) == ["host.env.HCCL_OP_EXPANSION_MODE"]


def test_either_kind_of_configuration_is_held_against_its_own() -> None:
    written, printed = {"a": "${b}", "b": 1}, {"a": 1, "b": 1}
    launched = run(config=written, printed_config=printed)
    assert keys(launched, run("aqn", printed_config={"a": 1, "b": 2})) == ["config b"]
    assert keys(launched, run("aqn", config=printed)) == ["config a"]
    assert keys(launched, run("aqn")) == keys(run(), run("aqn", printed_config=printed)) == []


def test_one_run_without_a_record_is_a_difference_and_two_are_none() -> None:
    bare = RunBuilder(arm="aqn", series={116: 0.7}, provenance={"files": {}}).judged()
    (found,) = differences(RunBuilder(provenance=RECORD).judged(), bare)
    assert (found.control, found.treatment, found.area) == ("recorded", "not recorded", DifferenceArea.CODE)
    assert differences(RunBuilder().judged(), bare) == ()


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.STARTING])
def test_a_run_that_has_not_started_lacks_no_record(state: RunState) -> None:
    waiting = RunBuilder(arm="aqn", state=state).judged()
    assert differences(RunBuilder(provenance=RECORD).judged(), waiting) == ()


def test_host_names_alone_are_no_warning(control_builder: Build, treated: Build) -> None:
    comparison = one_run_each(control_builder(provenance={"machine": "a"}), [treated(provenance={"machine": "b"})])
    (finding,) = [each for each in only(comparison).findings if each.id == "RLX903"]
    assert finding.severity is Severity.NOTE and "machine: a → b" in finding.message


def test_the_same_arm_on_another_host_is_the_same_experiment(control_builder: Build, treated: Build) -> None:
    again = control_builder(seed=2, provenance={"machine": "b"}, run_id="other")
    (contrast,) = one_run_each(control_builder(provenance={"machine": "a"}), [again]).contrasts
    assert "RLX901" in {finding.id for finding in contrast.errors}


@pytest.mark.parametrize("declared", [(), ("model.dtype",)])
def test_another_precision_is_another_evaluation_even_if_declared(
    control_builder: Build, treated: Build, declared: tuple[str, ...]
) -> None:
    low = treated(recipe={"model": {"dtype": "float16"}}, treatment=declared)
    comparison = one_run_each(control_builder(recipe={"model": {"dtype": "bfloat16"}}), [low])
    (finding,) = only(comparison).errors
    assert finding.id == "RLX902" and "model.dtype" in finding.message and "bfloat16" in finding.message
