"""Read what the recipe, or the configuration that was found, says of the back-end: dotted key -> value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.evidence.grammars import grammars
from rlx.yaml_reader.hydra import REMOVED, bare_leaves

MODEL_DTYPE = "model.dtype"
_OWN_REWARD = "reward.path"
"""Whose scores may be anything; the rewards that a back-end knows by name are right or wrong."""


def settings_of(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Collect what a resolved recipe passes on verbatim, its model's precision, and whether it has a reward of its own.

    Empty for a run without a recipe.
    """
    overrides, model = recipe.get("overrides"), recipe.get("model")
    passed_on = bare_leaves(overrides) if isinstance(overrides, Mapping) else {}
    own = {MODEL_DTYPE: model.get("dtype")} if isinstance(model, Mapping) else {}
    if isinstance(reward := recipe.get("reward"), Mapping):
        own[_OWN_REWARD] = reward.get("path", "verifiers")
    return {**own, **{key: value for key, value in passed_on.items() if value is not REMOVED}}


def has_own_reward(settings: Mapping[str, Any]) -> bool:
    """Tell whether the recipe, or what it passes on, replaces the back-end's rewards."""
    keys = (key for grammar in grammars() for key in grammar.own_reward)
    return _OWN_REWARD in settings or any(key in settings for key in keys)


def settings_of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys about precision in a composed configuration. What is interpolated is not known there."""
    keys = frozenset().union(*(grammar.precision.keys for grammar in grammars()))
    leaves = ((key, value) for key, value in bare_leaves(config).items() if key in keys and value is not None)
    return {key: value for key, value in leaves if not (isinstance(value, str) and "${" in value)}


def seeds_of_config(config: Mapping[str, Any]) -> dict[str, int]:
    """The keys of the training's seeds in a composed or printed configuration, with their numbers."""
    keys = frozenset().union(*(grammar.seed_keys for grammar in grammars()))
    return {key: value for key, value in bare_leaves(config).items() if key in keys and type(value) is int}
