"""What is known of the back-end's settings, from a recipe and from a configuration that was composed."""

from __future__ import annotations

import pytest

from rlx.backends.verl.log.setting_traces import trained_in, validated_in
from rlx.evidence import settings_of, settings_of_config

ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"


def test_overrides_lose_their_plus_and_open_their_sections() -> None:
    overrides = {"++a.b": {"c": 1, "d": {"e": [2]}}, "+f": 3, "~gone": None, "g.h": "x"}
    recipe = {"model": {"dtype": "bfloat16"}, "overrides": overrides}
    assert settings_of(recipe) == {"model.dtype": "bfloat16", "a.b.c": 1, "a.b.d.e": [2], "f": 3, "g.h": "x"}


@pytest.mark.parametrize("recipe", [{}, {"model": "x", "overrides": [1]}])
def test_a_recipe_that_says_nothing(recipe: dict[str, object]) -> None:
    assert settings_of(recipe) == {}


def test_of_a_composed_configuration_only_precision_counts_and_no_interpolation() -> None:
    rollout = {"dtype": "${oc.select:x}", "quantization": "fp8", "n": 5}
    config = {"actor_rollout_ref": {"rollout": rollout, "actor": {"fsdp_config": {"dtype": "bf16"}}}}
    assert settings_of_config(config) == {f"{ROLLOUT}.quantization": "fp8", f"{ACTOR}.fsdp_config.dtype": "bf16"}


@pytest.mark.parametrize(
    ("settings", "trained", "validated"),
    [
        ({}, "", ""),
        ({"model.dtype": "bfloat16"}, "bfloat16", "bfloat16"),
        ({"model.dtype": "bfloat16", f"{ROLLOUT}.dtype": "fp32"}, "bfloat16", "float32"),
        ({f"{ACTOR}.fsdp_config.dtype": "bf16", f"{ROLLOUT}.dtype": "bfloat16"}, "bfloat16", "bfloat16"),
        (
            {"model.dtype": "bfloat16", f"{ROLLOUT}.quantization": "fp8"},
            "bfloat16",
            "bfloat16 with quantised weights",
        ),
        (
            {"model.dtype": "bfloat16", "trainer.hw_error_injection.enabled": True},
            "bfloat16",
            "bfloat16 with imitated errors",
        ),
    ],
)
def test_precision_in_words(settings: dict[str, object], trained: str, validated: str) -> None:
    assert (trained_in(settings), validated_in(settings)) == (trained, validated)
