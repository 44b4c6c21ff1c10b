"""List what differs between two documents: those of resolved recipes, and of configurations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rlx.compare.difference_areas import CONFIG, TRAINING_DATA, Area, area_of
from rlx.yaml_reader.hydra import bare_key, bare_leaves

# Labels, reasons and trackers: they change nothing in the run.
COSMETIC = frozenset({"version", "name", "extends", "arms", "control", "waive", "track"})
_OVERRIDES = "overrides"
# What a recipe states of its data and of its launches, and where processes meet.
_NO_SETTINGS = (
    *("*seed", "data.train_rows", "data.val_rows", "retry", "retry.*"),
    *("*port", "*ports", "*_addr", "*_address", "*hostname", "*_ip"),
)
_SETTING_AREAS = frozenset({Area.DATA, Area.MODEL, Area.REWARD, Area.TRAINING})
RECIPE = "recipe"
"""The key of the one difference that there is where a run was taken in without a recipe: what differs is not known."""


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """One dotted key whose value differs; None where a run lacks it. `declared`: an arm is there to change this key.

    `area`: what it is about, which says how much it can move the result.
    """

    key: str
    control: Any
    treatment: Any
    declared: bool = False
    area: Area = Area.TRAINING


def recipe_differences(
    control: Mapping[str, Any], treatment: Mapping[str, Any], declared: Collection[str]
) -> tuple[ConfigDifference, ...]:
    """Differences of two resolved recipes, the declared ones marked. `declared` holds dotted keys of either arm."""
    if not (control and treatment):
        return (ConfigDifference(RECIPE, _known(control), _known(treatment)),)
    bare = [_without_prefix(key) for key in declared]
    return tuple(
        ConfigDifference(key, left, right, _is_declared(key, bare), area_of(key))
        for key, left, right in differing(_with_bare_overrides(control), _with_bare_overrides(treatment))
        if key.split(".")[0] not in COSMETIC
    )


def is_training_setting(item: ConfigDifference) -> bool:
    """Tell whether an undeclared difference is a setting that both trainings had, with another value each.

    A path is none, for its bytes decide; nor is a key of the engine that one of them lacks, as in another version of
    it; nor the seed, which the arms are sampled over.
    """
    if item.declared or item.area not in _SETTING_AREAS or any(fnmatchcase(item.key, each) for each in _NO_SETTINGS):
        return False
    if _is_path(item.control) or _is_path(item.treatment):
        return False
    if item.key.startswith(f"{CONFIG} "):
        return item.control is not None and item.treatment is not None
    return item.key == TRAINING_DATA or " " not in item.key


def _is_path(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(isinstance(each, str) and ("/" in each or "\\" in each) for each in values)


def _with_bare_overrides(recipe: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name each override by its bare key, because `+a.b: 1` and `a: {b: 1}` set the same key."""
    overrides = recipe.get(_OVERRIDES)
    return {**recipe, _OVERRIDES: bare_leaves(overrides)} if isinstance(overrides, Mapping) else recipe


def _without_prefix(key: str) -> str:
    section, dot, own = key.partition(".")
    return f"{section}{dot}{bare_key(own)}" if section == _OVERRIDES else key


def _known(recipe: Mapping[str, Any]) -> str:
    return "known" if recipe else "not known"


def differing(control: Any, treatment: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, control's value, treatment's value) wherever two documents differ.

    A section that only one of them has (`aqn: null` against `aqn: {…}`) is one difference, not one for each default.
    """
    if isinstance(control, Mapping) and isinstance(treatment, Mapping):
        for name in sorted(control.keys() | treatment.keys(), key=str):
            yield from differing(control.get(name), treatment.get(name), f"{key}.{name}" if key else str(name))
    elif control != treatment:
        yield key, control, treatment


def _is_declared(key: str, declared: Collection[str]) -> bool:
    """Declared `aqn` covers `aqn.stages`; declared `aqn.stages` covers `aqn` where control has no such section."""
    return any(f"{key}.".startswith(f"{name}.") or name.startswith(f"{key}.") for name in declared)
