"""Record in stock verl that its weights move and arrive in the engine (payload/rlx_verl_weights.py)."""

from __future__ import annotations

from collections.abc import Mapping

from rlx.backends.verl.overrides.base import with_module

HOOK = "rlx_verl_weights"


def environment(others: Mapping[str, str]) -> dict[str, str]:
    """Name what every process of the run must see beside `others`."""
    return with_module(others, HOOK)
