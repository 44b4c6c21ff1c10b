"""Give plans of rlx 0.1 and 0.2, which promised no links, the settings that their recipe asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlx.model import Expectations, NoisePromise

_PAYLOAD = "payload"
_OPTIONS = (
    "sigma_start",
    "sigma_end",
    "stages",
    "schedule",
    "layer_types",
    "targets",
    "exclude",
    "multipliers",
)
_ELSEWHERE = {"seed": ("seed",), "validation_noise": ("eval", "noise"), "tp_size": ("rollout", "tp")}


def with_settings_of(recipe: Mapping[str, Any], expectations: Expectations) -> Expectations:
    """Promise the settings that the recipe names, where the plan itself promises none; the rest stays unpromised.

    `recipe`: resolved, with every default. Unchanged for an arm without the payload's noise.
    """
    noise, aqn = expectations.noise, recipe.get("aqn")
    if noise is None or noise.promise is not None or noise.provider != _PAYLOAD or not isinstance(aqn, Mapping):
        return expectations
    settings = {name: aqn[name] for name in _OPTIONS if name in aqn}
    for name, path in _ELSEWHERE.items():
        if (value := _at(recipe, path)) is not None:
            settings[name] = value
    settings["total_steps"] = len(noise.sigmas)
    return replace(expectations, noise=replace(noise, promise=NoisePromise(settings=settings)))


def _at(document: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = document
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
