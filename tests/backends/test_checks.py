"""A recipe's mistakes are found before anything starts, with the key that was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlx.backends.protocol import load_backend
from rlx.errors import UsageError
from rlx.model import Finding, Severity, Site
from rlx.planning.rules import check as preflight
from rlx.recipe import ResolvedRecipe
from tests.backends.conftest import AQN, CPU, VERSIONS, MakeRecipe, config_tree, resolved

# What the recipes of these tests do on purpose: a model of no known shapes, no word on FRACTAL_NZ, few steps, the noise
# of the forks uncorrected.
EXPECTED = {"RLX238", "RLX450", "RLX620", "RLX621", "RLX627", "RLX661", "RLX733"}


def check(resolved: ResolvedRecipe) -> tuple[Finding, ...]:
    return tuple(finding for finding in preflight(resolved) if finding.id not in EXPECTED)


def found(recipe: MakeRecipe, *changes: dict[str, Any]) -> dict[str, Finding]:
    return {finding.id: finding for finding in check(recipe(*changes))}


def with_override(key: str, value: Any = 1, version: str = "0.9.1") -> dict[str, Any]:
    return {"backend": {"version": version}, "overrides": {key: value}}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sound_recipe_has_no_findings(version: str, recipe: MakeRecipe) -> None:
    assert check(recipe({"backend": {"version": version}})) == ()


def test_a_misspelt_key_names_the_right_one(recipe: MakeRecipe) -> None:
    finding = found(recipe, with_override("trainer.tset_freq"))["RLX010"]
    assert finding.severity is Severity.ERROR
    assert "trainer.test_freq" in finding.fix
    assert "+trainer.tset_freq" in finding.fix


def test_a_key_in_the_wrong_section_names_the_right_one(recipe: MakeRecipe) -> None:
    finding = found(recipe, with_override("actor_rollout_ref.calculate_log_probs"))["RLX010"]
    assert "actor_rollout_ref.rollout.calculate_log_probs" in finding.fix


@pytest.mark.parametrize("key", ["+trainer.mine", "++trainer.mine"])
def test_a_key_added_on_purpose_is_noted(key: str, recipe: MakeRecipe) -> None:
    assert found(recipe, with_override(key))["RLX010"].severity is Severity.NOTE


@pytest.mark.parametrize("key", ["+trainer.test_freq", "~trainer.mine"])
def test_prefixes_that_hydra_would_refuse_are_errors(key: str, recipe: MakeRecipe) -> None:
    assert found(recipe, with_override(key))["RLX010"].severity is Severity.ERROR


@pytest.mark.parametrize(
    "key", ["trainer.log_val_generations", "actor_rollout_ref.actor.optim", "hydra.verbose", "critic@critic"]
)
def test_known_keys_sections_and_groups_pass(key: str, recipe: MakeRecipe) -> None:
    assert "RLX010" not in found(recipe, with_override(key))


@pytest.mark.parametrize(
    ("version", "key", "new", "severity"),
    [
        ("0.6.1", "reward.custom_reward_function.path", "custom_reward_function.path", Severity.ERROR),
        ("0.7.1", "custom_reward_function.path", "reward.custom_reward_function.path", Severity.WARNING),
        ("0.8.0", "custom_reward_function.name", "reward.custom_reward_function.name", Severity.WARNING),
        ("0.9.1", "custom_reward_function.path", "reward.custom_reward_function.path", Severity.ERROR),
        ("0.9.0", "reward_model.reward_manager", "reward.reward_manager.name", Severity.ERROR),
        ("0.9.1", "reward_model.sandbox_fusion.url", "reward.sandbox_fusion.url", Severity.ERROR),
        ("0.8.0", "actor_rollout_ref.rollout.skip_rollout", "actor_rollout_ref.rollout.skip.enable", Severity.ERROR),
        ("0.9.1", "actor_rollout_ref.rollout.skip_rollout", "skip.rollout.enable", Severity.ERROR),
        ("0.8.0", "critic.model.fsdp_config.dtype", "critic.fsdp.dtype", Severity.ERROR),
        (
            "0.7.1",
            "actor_rollout_ref.rollout.update_weights_bucket_megabytes",
            "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes",
            Severity.ERROR,
        ),
    ],
)
def test_renamed_keys(version: str, key: str, new: str, severity: Severity, recipe: MakeRecipe) -> None:
    finding = found(recipe, with_override(key, version=version))["RLX011"]
    assert finding.severity is severity
    assert new in finding.fix


@pytest.mark.parametrize(("version", "refused"), [("0.6.1", False), ("0.7.1", False), ("0.8.0", True), ("0.9.1", True)])
def test_a_value_that_a_version_dropped(version: str, refused: bool, recipe: MakeRecipe) -> None:
    change = with_override("actor_rollout_ref.rollout.mode", "sync", version)
    assert ("RLX011" in found(recipe, change)) is refused


def test_an_override_in_place_of_a_recipe_key_is_noted(recipe: MakeRecipe) -> None:
    finding = found(recipe, with_override("data.max_prompt_length", 5))["RLX013"]
    assert finding.severity is Severity.NOTE
    assert "data.max_prompt_tokens" in finding.message


def test_silencing_the_evidence_is_a_warning(recipe: MakeRecipe) -> None:
    assert found(recipe, with_override("trainer.logger", ["console"]))["RLX013"].severity is Severity.WARNING
    assert (
        found(recipe, with_override("trainer.logger", ["console", "file", "wandb"]))["RLX013"].severity is Severity.NOTE
    )


@pytest.mark.parametrize("loggers", [["console", "wandb"], ["console", "file", "wandb"], "wandb"])
def test_a_tracker_of_the_recipe_stands_beside_what_rlx_reads_and_cannot_end_the_run(
    loggers: object, recipe: MakeRecipe
) -> None:
    planned = load_backend("verl").plan(recipe(with_override("trainer.logger", loggers)), Site())
    assert [word for word in planned.command if word.startswith("trainer.logger=")] == [
        "trainer.logger=[console, file, wandb]"
    ]
    assert "rlx_verl_track" in planned.env["VERL_USE_EXTERNAL_MODULES"]
    assert {"payload/rlx_verl_track.py", "payload/rlx_aqn_hook.py"} <= {file.path for file in planned.files}
    assert "rlx_verl_track" not in load_backend("verl").plan(recipe({}), Site()).env.get(
        "VERL_USE_EXTERNAL_MODULES", ""
    )


def test_a_patch_release_borrows_the_table_of_its_minor_release(recipe: MakeRecipe) -> None:
    finding = found(recipe, {"backend": {"version": "0.9.0"}})["RLX012"]
    assert finding.severity is Severity.NOTE
    assert "0.9.1" in finding.message


@pytest.mark.parametrize("version", ["0.5.0", "1.0", "main"])
def test_an_unknown_version_lists_the_known_ones(version: str, tmp_path: Path) -> None:
    (finding,) = check(resolved(tmp_path, {"backend": {"version": version}}))
    assert (finding.id, finding.severity) == ("RLX012", Severity.ERROR)
    assert all(known in finding.fix for known in VERSIONS)


LAYOUTS = [
    ({"tp": 2}, "RLX201"),
    ({"pools": {"critic": 4}}, "RLX202"),
]


@pytest.mark.parametrize(("layout", "name"), LAYOUTS)
def test_layouts_that_verl_cannot_have(layout: dict[str, Any], name: str, recipe: MakeRecipe) -> None:
    assert found(recipe, {"layout": layout})[name].severity is Severity.ERROR


@pytest.mark.parametrize(
    ("tp", "ep", "fits"), [(4, 4, True), (2, 8, True), (1, 1, True), (4, 1, True), (4, 6, False), (4, 2, False)]
)
def test_experts_are_split_over_whole_groups(tp: int, ep: int, fits: bool, recipe: MakeRecipe) -> None:
    assert ("RLX204" not in found(recipe, {"rollout": {"tp": tp, "ep": ep}})) is fits


def test_verifiers_are_not_verls(recipe: MakeRecipe) -> None:
    assert found(recipe, {"reward": {"verifiers": ["acc"]}})["RLX014"].severity is Severity.ERROR


def test_the_cpu_rollout_needs_a_verl_that_can_be_steered(recipe: MakeRecipe) -> None:
    assert "RLX401" not in found(recipe, CPU)
    assert "RLX401" in found(recipe, CPU, {"backend": {"version": "0.8.0"}})


def test_noise_that_nothing_would_apply_is_an_error(recipe: MakeRecipe) -> None:
    assert found(recipe, {"aqn": AQN}, {"rollout": {"engine": "sglang"}})["RLX610"].severity is Severity.ERROR
    assert "RLX610" not in found(recipe, {"aqn": AQN})
    assert found(recipe, {"aqn": AQN}, CPU) == {}


def test_noise_over_a_run_of_unknown_length_is_an_error(recipe: MakeRecipe) -> None:
    unknown = {"aqn": AQN, "data": {"train_rows": None}}
    assert found(recipe, CPU, unknown)["RLX611"].severity is Severity.ERROR
    assert found(recipe, CPU, unknown, {"train": {"steps": 5}}) == {}
    builtin = {"aqn": {**AQN, "provider": "builtin"}, "train": {"steps": 5}, "eval": {"noise": True}}
    assert "RLX611" in found(recipe, unknown, builtin)


def test_the_forks_noise_in_validation_must_be_declared(recipe: MakeRecipe) -> None:
    builtin = {"aqn": {**AQN, "provider": "builtin"}}
    assert found(recipe, builtin)["RLX612"].severity is Severity.WARNING
    assert "RLX612" not in found(recipe, builtin, {"eval": {"noise": True}})


def test_data_that_fills_no_batch_is_an_error(recipe: MakeRecipe) -> None:
    assert found(recipe, {"data": {"train_rows": 100}})["RLX101"].severity is Severity.ERROR


def test_data_that_ends_before_the_last_step_is_a_warning(recipe: MakeRecipe) -> None:
    change = {"train": {"steps": 100}, "overrides": {"trainer.total_epochs": 1}}
    assert "step 58 of 100" in found(recipe, change)["RLX102"].message


def test_an_override_that_cannot_be_counted_with_is_an_error(recipe: MakeRecipe) -> None:
    finding = found(recipe, with_override("trainer.total_epochs", "${data.seed}"))["RLX015"]
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.train_batch_size", 0),
        ("data.train_batch_size", -3),
        ("trainer.total_epochs", 0),
        ("trainer.total_epochs", 10**11),
        ("trainer.total_training_steps", -1),
        ("trainer.total_training_steps", 10**9),
        ("actor_rollout_ref.rollout.val_kwargs.n", 0),
    ],
)
def test_a_run_of_no_length_or_without_end_is_an_error(key: str, value: int, recipe: MakeRecipe) -> None:
    change = with_override(key, value)
    assert found(recipe, change)["RLX015"].severity is Severity.ERROR
    with pytest.raises(UsageError):
        load_backend("verl").plan(recipe(change), Site())


def test_a_forks_own_tree_replaces_the_table(recipe: MakeRecipe, tmp_path: Path) -> None:
    fork = tmp_path / "fork.yaml"
    tree = (config_tree("0.9.1") / "_generated_ppo_trainer.yaml").read_text(encoding="utf-8")
    fork.write_text(tree + "fork_only:\n  key: 1\n", encoding="utf-8")
    change = with_override("fork_only.key", version="0.1-fork") | {}
    change["backend"]["key_source"] = str(fork)
    assert check(recipe(change)) == ()


def test_a_key_source_may_be_flat(recipe: MakeRecipe, tmp_path: Path) -> None:
    (tmp_path / "flat.yaml").write_text("trainer.only_this: 1\n", encoding="utf-8")
    change = with_override("trainer.only_this")
    change["backend"]["key_source"] = str(tmp_path / "flat.yaml")
    messages = [finding.message for finding in check(recipe(change))]
    assert any("trainer.test_freq" in message for message in messages)
    assert not any("only_this" in message for message in messages)


@pytest.mark.parametrize("content", [None, "- a\n", "a: [\n"])
def test_a_key_source_that_is_none(content: str | None, recipe: MakeRecipe, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "keys.yaml").write_text(content, encoding="utf-8")
    finding = found(recipe, {"backend": {"key_source": str(tmp_path / "keys.yaml")}})["RLX012"]
    assert str(tmp_path / "keys.yaml") in finding.message


def test_an_unknown_back_end_is_refused() -> None:
    with pytest.raises(UsageError, match="unheard"):
        load_backend("unheard")
