"""The modes of training that differ from plain synchronous training on one model, so that some checks do not apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """A mode, in words. A check lists those in which it applies, besides plain synchronous training."""

    OFF_POLICY = "one step off policy"
    ASYNCHRONOUS = "asynchronous training"
    PARTIAL_ROLLOUTS = "partial rollouts"
    DYNAMIC_BATCHES = "dynamic batches"
    FILTERED_GROUPS = "filtered groups"
    MULTI_TURN = "several turns or tools"
    LORA = "LoRA"
    QUANTISED_ROLLOUT = "a quantised rollout"
    MOE = "a mixture of experts"
    RESUMED = "a resumed run"


ALL_MODES = frozenset(Mode)


def setting(configuration: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key in a tree; None where it is absent, missing or an interpolation."""
    found: Any = configuration
    for name in key.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return None if isinstance(found, str) and ("${" in found or found == "???") else found


def is_set(configuration: Mapping[str, Any], key: str) -> bool:
    """Tell whether a setting is there and neither false, nor zero, nor empty."""
    return bool(setting(configuration, key))


def named(modes: Iterable[Mode]) -> str:
    """Join modes in words, in the order of their definition."""
    wanted = frozenset(modes)
    return ", ".join(mode for mode in Mode if mode in wanted)
