"""What a recipe becomes in MindSpeed-RL's YAML: sections, units, and the keys that are checked before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rlx.backends.mindspeed_rl.keys import find_table, is_known, shipped_versions
from rlx.backends.mindspeed_rl.log import GRAMMAR
from rlx.backends.protocol import load_backend
from rlx.errors import UsageError
from rlx.evidence.checks.recipe_settings import setting_mismatches
from rlx.model import Finding, Severity
from rlx.planning.rules import check
from rlx.yaml_reader.hydra import read_hydra
from tests.backends.mindspeed_rl.conftest import MakeRecipe, config_of, file_of, planned

BACKEND = load_backend("mindspeed-rl")


def errors(recipe: MakeRecipe, *changes: dict[str, Any]) -> dict[str, Finding]:
    return {one.id: one for one in BACKEND.check(recipe(*changes)) if one.severity is Severity.ERROR}


def test_the_sample_of_the_project_is_written_as_it_ships_it(recipe: MakeRecipe) -> None:
    """configs/grpo_qwen25_7b_A3.yaml, whose numbers the base recipe has."""
    config = config_of(recipe())
    assert config["defaults"] == [{"model": ["qwen25_7b"]}, "_self_"]
    shared, actor = config["megatron_training"], config["actor_config"]
    assert (shared["global_batch_size"], shared["train_iters"], shared["stage"]) == (32, 500, "ray_grpo")
    assert (actor["tensor_model_parallel_size"], actor["pipeline_model_parallel_size"]) == (2, 2)
    assert (actor["micro_batch_size"], actor["load"]) == (4, "/data/mcore/qwen2.5-7b-tp2-pp2")
    assert config["rl_config"]["actor_resource"] == {"num_npus": 16}
    assert config["rl_config"]["adv_estimator"] == "group_norm"
    assert not {"ref_config", "reward_config", "critic_config"} & config.keys()


def test_what_hydra_composes_of_the_overrides_is_as_planned(recipe: MakeRecipe, tmp_path: Path) -> None:
    """The plan in a manifest has the overrides, and not the file that was written of them."""
    overrides = {
        "actor_config.weight-decay": 1e-2,
        "+rl_config": {"note": "1e-3", "integrated_mode_config": {"ref_model_load_path": "${oc.env:HOME}/w"}},
        "rl_config.clip_ratio": 0.3,
        "~rl_config.kl_ctrl_type": None,
        "generate_config.sampling_config.top_k": 50,
    }
    launch = planned(recipe({"overrides": overrides}))
    (tmp_path / "configs/model").mkdir(parents=True)
    (tmp_path / "configs/model/qwen25_7b.yaml").write_text("qwen25_7b: {num_layers: 28}\n", encoding="utf-8")
    (tmp_path / "mindspeed_rl.yaml").write_text(file_of(launch, "config/mindspeed_rl.yaml"), encoding="utf-8")
    with initialize_config_dir(str(tmp_path), version_base=None):
        config = compose("mindspeed_rl", [f"hydra.searchpath=[file://{tmp_path}/configs]"])
    settings = list(GRAMMAR.planned_settings(launch.command, launch.recipe))
    assert ("actor_config.weight_decay", 1e-2) in settings
    text = OmegaConf.to_yaml(config)
    assert list(setting_mismatches(settings, read_hydra(text))) == []
    other = read_hydra(text.replace("clip_ratio: 0.3", "clip_ratio: 0.2"))
    assert list(setting_mismatches(settings, other)) == ["rl_config.clip_ratio planned 0.3, composed 0.2"]


def test_mini_batches_are_in_prompts_on_both_sides(recipe: MakeRecipe) -> None:
    """RLConfig multiplies by n itself."""
    config = config_of(recipe({"train": {"mini_batch_size": 16}, "rollout": {"n": 8}}))
    assert config["rl_config"]["mini_batch_size"] == 16
    assert config["rl_config"]["n_samples_per_prompt"] == 8


def test_sampling_is_written_in_full(recipe: MakeRecipe) -> None:
    sampling = config_of(recipe({"rollout": {"temperature": 0.9, "top_p": 0.95}}))["generate_config"]["sampling_config"]
    defaults = {key for key in find_table("master").defaults if key.startswith("generate_config.sampling_config.")}
    assert {f"generate_config.sampling_config.{name}" for name in sampling} == defaults
    assert (sampling["temperature"], sampling["top_p"], sampling["top_k"], sampling["seed"]) == (0.9, 0.95, -1, None)
    assert sampling["max_tokens"] == 2048


def test_adapters_are_configured_where_they_are_read(recipe: MakeRecipe) -> None:
    config = config_of(recipe({"model": {"lora": {"rank": 32, "alpha": 64}}}))
    shared = config["megatron_training"]
    assert (shared["lora_r"], shared["lora_alpha"], shared["lora_fusion"]) == (32, 64, True)
    assert shared["lora_target_modules"] == ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"]
    assert config["rl_config"]["share_backbone"] is True
    assert "megatron_config" not in config and "lora_r" not in config["actor_config"]


@pytest.mark.parametrize(
    ("reward", "functions", "weights"),
    [
        ("base_acc", ["base_acc"], [1.0]),
        ({"verifiers": ["base_acc", "format"]}, ["base_acc", "format"], [1.0, 1.0]),
        ({"verifiers": ["base_acc", "format"], "weights": [1.0, 0.2]}, ["base_acc", "format"], [1.0, 0.2]),
    ],
)
def test_verifiers_and_weights(recipe: MakeRecipe, reward: Any, functions: list[str], weights: list[float]) -> None:
    rl = config_of(recipe({"reward": reward}))["rl_config"]
    assert (rl["verifier_function"], rl["verifier_weight"]) == (functions, weights)


def test_dapo_filters_clips_and_shortens(recipe: MakeRecipe) -> None:
    launch = planned(recipe({"algorithm": {"kind": "dapo"}, "reward": "acc_for_dapo"}))
    assert launch.command[2] == "cli/train_dapo.py"
    rl = config_of(recipe({"algorithm": {"kind": "dapo"}, "reward": "acc_for_dapo"}))["rl_config"]
    assert (rl["filter_groups_metric"], rl["filter_groups_train_batch_size"]) == ("acc_for_dapo", 32)
    assert (rl["rollout_max_tokens"], rl["overlong_buffer"]) == (2048, 512)


def test_the_critic_of_ppo_is_split_and_started_like_the_actor(recipe: MakeRecipe) -> None:
    config = config_of(recipe({"algorithm": {"kind": "ppo", "kl": {"place": "reward", "coef": 0.01}}}))
    actor, critic = config["actor_config"], config["critic_config"]
    assert {key for key in actor if actor[key] != critic[key]} == {"save"}
    assert config["rl_config"]["critic_resource"] == {"num_npus": 16}
    assert (config["rl_config"]["adv_estimator"], config["rl_config"]["use_kl_in_reward"]) == ("gae", True)


@pytest.mark.parametrize(
    ("train", "rows", "steps"),
    [({"steps": 7}, None, 7), ({"steps": None, "epochs": 2}, 100, 6), ({"steps": 7, "epochs": 2}, 100, 7)],
)
def test_length(recipe: MakeRecipe, train: dict[str, Any], rows: int | None, steps: int) -> None:
    launch = planned(recipe({"train": train, "data": {"train_rows": rows}}))
    assert launch.expectations.total_steps == steps


def test_a_length_that_nobody_knows_is_refused(recipe: MakeRecipe) -> None:
    unknown = {"train": {"steps": None}}
    assert "train.steps" in errors(recipe, unknown)["RLX015"].message
    with pytest.raises(UsageError, match=r"train\.steps"):
        planned(recipe(unknown))


def test_what_the_log_must_show(recipe: MakeRecipe) -> None:
    expected = planned(recipe()).expectations
    assert (expected.metric, expected.validation_steps) == ("math_17k_acc_rewards/mean", ())
    assert not expected.last_step_validated and not expected.reports_probability_gap
    two = planned(recipe({"reward": {"verifiers": ["base_acc", "format"]}})).expectations
    assert two.metric == "grpo/score/mean"
    post = {"rows": "/d/test.parquet", "row_count": 1319, "reward": "gsm8k", "convert": "/d/mcore2hf.sh"}
    held_out = planned(recipe({"train": {"steps": 30}, "eval": {"post": post}})).expectations
    assert (held_out.metric, held_out.validation_steps) == ("val-core/post/acc/mean@1", (30,))
    assert (held_out.validation_items, held_out.last_step_validated) == (1319, True)


def test_more_iterations_than_can_be_listed_are_refused(recipe: MakeRecipe) -> None:
    assert "1,000,001 iterations" in errors(recipe, {"train": {"steps": 1_000_001}})["RLX015"].message


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("rl_config.n_sample_per_prompt", "rl_config.n_samples_per_prompt"),
        ("generate_config.sampling_config.max_token", "generate_config.sampling_config.max_tokens"),
        ("megatron_config.lora_r", "megatron_training.lora_r"),
        ("megatron_training.lora_filter", "megatron_training.lora_ckpt_filter"),
        ("+actor_config.learning_rate", None),
        ("rl_config.critic_resource.num_gpus", None),
        ("model.mine.num_layer", "model.mine.num_layers"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_one(recipe: MakeRecipe, key: str, nearest: str | None) -> None:
    finding = errors(recipe, {"overrides": {"actor_config.load": "/w", key: 1}})["RLX010"]
    assert key in finding.message
    assert nearest is None or nearest in finding.fix


@pytest.mark.parametrize("key", ["rl_config.clip-ratio", "rl_config.critic_resource.num_npus", "hydra.job.name"])
def test_keys_that_are_taken(recipe: MakeRecipe, key: str) -> None:
    assert errors(recipe, {"overrides": {"actor_config.load": "/w", key: 1}}) == {}


def test_a_release_without_adapters_says_so(recipe: MakeRecipe) -> None:
    finding = errors(recipe, {"backend": {"version": "2.3.0"}, "model": {"lora": {"rank": 8, "alpha": 16}}})["RLX010"]
    assert "2.3.0" in finding.message and "model.lora" in finding.message


def test_an_override_takes_the_place_of_what_rlx_writes(recipe: MakeRecipe) -> None:
    change = {"overrides": {"actor_config.load": "/w", "actor_config.clip_grad": 0.5, "~actor_config.min_lr": None}}
    config = config_of(recipe(change))
    assert config["actor_config"]["clip_grad"] == 0.5
    assert "min_lr" not in config["actor_config"]


def test_weights_and_the_model_have_to_be_named(recipe: MakeRecipe) -> None:
    assert "Megatron" in errors(recipe, {"overrides": None})["RLX025"].message
    assert "model.arch" in errors(recipe, {"model": {"arch": "smollm2-135m"}})["RLX025"].message


def test_a_model_of_ones_own(recipe: MakeRecipe) -> None:
    own = {"actor_config.load": "/w", "megatron_training.model": "mine", "model.mine.num_layers": 30}
    change = {"model": {"arch": "smollm2-135m"}, "overrides": own}
    config = config_of(recipe(change))
    assert errors(recipe, change) == {}
    assert "defaults" not in config
    assert config["model"] == {"mine": {"num_layers": 30}} and config["actor_config"]["model"] == "mine"


def test_text_that_omegaconf_would_replace_is_refused(recipe: MakeRecipe) -> None:
    with pytest.raises(UsageError, match=r"model\.path"):
        planned(recipe({"model": {"path": "/models/${oc.env:SECRET}"}}))


def test_a_checkout_is_needed(recipe: MakeRecipe) -> None:
    with pytest.raises(UsageError, match=r"backend\.workdir"):
        planned(recipe({"backend": {"workdir": None}}))


def test_devices_are_those_that_its_workers_count(recipe: MakeRecipe) -> None:
    assert planned(recipe({"layout": {"devices_per_node": 8}})).device_list == tuple(range(8))


@pytest.mark.parametrize("version", shipped_versions())
def test_each_release_takes_what_is_written_for_grpo(recipe: MakeRecipe, version: str) -> None:
    assert errors(recipe, {"backend": {"version": version}}) == {}


def test_an_unknown_release_is_refused(recipe: MakeRecipe) -> None:
    assert "1.0.0" in errors(recipe, {"backend": {"version": "1.0.0"}})["RLX012"].message


KEYS = [
    key for key in find_table("master").defaults if key.startswith(("actor_config.", "rl_config.", "generate_config."))
]
VALUES = st.one_of(
    st.integers(-3, 40),
    st.none(),
    st.booleans(),
    st.text("ab0.", max_size=3),
    st.lists(st.integers(0, 9), max_size=2),
    st.floats(-1, 1),
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_no_value_makes_a_rule_raise(recipe: MakeRecipe, overrides: dict[str, Any]) -> None:
    kinds = {"algorithm": {"kind": "dapo"}, "overrides": {"actor_config.load": "/w", **overrides}}
    assert all(finding.message for finding in check(recipe(kinds)))


@given(st.text(max_size=30))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_no_key_makes_the_check_raise(text: str) -> None:
    assert is_known(text, find_table("master")) in (True, False)
