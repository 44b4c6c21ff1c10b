"""What differs between two runs: the resolved recipes, and what each found on its host when it started."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Labels and reasons: they change nothing in the run.
COSMETIC = frozenset({"version", "name", "extends", "arms", "control", "waive"})


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """One dotted key whose value differs; None where a run lacks it. `declared`: an arm is there to change this key."""

    key: str
    control: Any
    treatment: Any
    declared: bool = False


def recipe_differences(
    control: Mapping[str, Any], treatment: Mapping[str, Any], declared: Collection[str]
) -> tuple[ConfigDifference, ...]:
    """Differences of two resolved recipes, the declared ones marked. `declared` holds dotted keys of either arm."""
    return tuple(
        ConfigDifference(key, left, right, _is_declared(key, declared))
        for key, left, right in differing(control, treatment)
        if key.split(".")[0] not in COSMETIC
    )


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
