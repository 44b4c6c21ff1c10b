"""The correction of off-policy samples: its keys in each version, and what the plan promises of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from rlx.backends.verl.backend import check, plan
from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.overrides import chosen
from rlx.model import Expectations, ExpectedCorrection, Severity, Site
from rlx.planning.rules import check as rules
from tests.backends.conftest import AQN, VERSIONS, MakeRecipe
from tests.backends.test_key_contract import composed

SECTION = "algorithm.rollout_correction"
BOTH = {"weights": "sequence", "weights_threshold": 3.0, "rejection_threshold": "0.5_2.0"}


def corrected(version: str, correction: dict[str, Any]) -> dict[str, Any]:
    return {"backend": {"version": version}, "algorithm": {"correction": correction}}


def promised(recipe: MakeRecipe, *changes: dict[str, Any]) -> Expectations:
    return plan(recipe(*changes), Site()).expectations


@pytest.mark.parametrize(
    ("version", "kind", "thresholds"),
    [
        ("0.6.1", "geometric", {"rollout_rs_threshold": 2.0, "rollout_rs_threshold_lower": 0.5}),
        *((version, "seq_mean_k1", {"rollout_rs_threshold": "0.5_2.0"}) for version in VERSIONS[1:]),
    ],
)
def test_each_version_gets_its_own_keys(
    version: str, kind: str, thresholds: dict[str, Any], recipe: MakeRecipe
) -> None:
    resolved = recipe(corrected(version, BOTH | {"rejection": kind}))
    rendering = rendering_of(resolved)
    config = composed(version, rendering.config_name, chosen(rendering)).algorithm.rollout_correction
    asked = {"rollout_is": "sequence", "rollout_is_threshold": 3.0, "rollout_rs": kind, "bypass_mode": False}
    assert {key: config[key] for key in (*asked, *thresholds)} == asked | thresholds
    assert [finding for finding in check(resolved) if finding.severity is Severity.ERROR] == []


def test_without_the_section_nothing_is_written(recipe: MakeRecipe) -> None:
    command = plan(recipe(), Site()).command
    assert not [word for word in command if "rollout_correction" in word]


@pytest.mark.parametrize(
    "overrides",
    [
        {f"{SECTION}.rollout_is": "token", f"{SECTION}.rollout_rs": "token_k1", f"{SECTION}.rollout_rs_threshold": 2},
        {SECTION: {"rollout_is": "token", "rollout_rs": "token_k1", "rollout_rs_threshold": 2}},
        {f"++{SECTION}": {"rollout_is": "token", "rollout_rs": "token_k1", "rollout_rs_threshold": 2}},
    ],
    ids=["keys", "map", "added"],
)
def test_overrides_count_like_the_recipe(overrides: dict[str, Any], recipe: MakeRecipe) -> None:
    assert promised(recipe, {"overrides": overrides}).correction == ExpectedCorrection("token 2.0", "token_k1 2")


def test_the_veto_of_0_6_is_a_rejection(recipe: MakeRecipe) -> None:
    key = f"{SECTION}.rollout_token_veto_threshold"
    changes = {"backend": {"version": "0.6.1"}, "overrides": {key: 1.0e-4}}
    assert promised(recipe, changes).correction == ExpectedCorrection(rejection="veto 0.0001")


@pytest.mark.parametrize("version", VERSIONS)
def test_with_bypass_another_witness_is_promised(version: str, recipe: MakeRecipe) -> None:
    expected = promised(recipe, corrected(version, {"bypass": True}), {"aqn": AQN})
    assert (expected.witness, expected.reports_probability_gap) == ("policy_kl", False)
    assert expected.correction == ExpectedCorrection(bypass=True)


def test_without_bypass_the_witness_is_the_gap(recipe: MakeRecipe) -> None:
    expected = promised(recipe, corrected("0.9.1", {"weights": "token"}))
    assert (expected.witness, expected.reports_probability_gap) == ("", True)


def test_the_share_that_must_be_trained_on_is_part_of_the_plan(recipe: MakeRecipe) -> None:
    shares = [
        noise.min_trained_share
        for more in ({}, {"min_trained_share": 0.5})
        if (noise := promised(recipe, {"aqn": AQN | more}).noise)
    ]
    assert shares == [0.8, 0.5]


def presets() -> dict[str, dict[str, Any]]:
    """Every correction that verl 0.9.1 itself offers by a name, as its settings."""
    from verl.trainer.config.algorithm import RolloutCorrectionConfig as Config

    named = [name for name, one in vars(Config).items() if isinstance(one, classmethod)]
    return {name: asdict(getattr(Config, name)()) for name in named}


def test_each_preset_of_verl_has_its_witness(recipe: MakeRecipe) -> None:
    found = {
        name: promised(recipe, {"overrides": {SECTION: preset}, "aqn": AQN}).witness
        for name, preset in presets().items()
    }
    assert len(found) > 12
    assert found == {name: "policy_kl" if name.startswith("bypass") else "" for name in found}


def test_each_preset_of_verl_that_it_applies_is_taken(recipe: MakeRecipe) -> None:
    refused = {
        name
        for name, preset in presets().items()
        if any(finding.severity is Severity.ERROR for finding in rules(recipe({"overrides": {SECTION: preset}})))
    }
    assert refused == {name for name in presets() if name.startswith("bypass")} - {"bypass_ppo_clip"}
