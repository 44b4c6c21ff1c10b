"""Breaks the weight sync of the rollout as an engine with a mistake would: the first sync arrives, no later one does.

The engine answers as if it had loaded the weights. A run loads this in each of its processes by verl's own
`actor_rollout_ref.model.external_lib`.
"""

from __future__ import annotations

import sys
from typing import Any


def _once(rollout: Any) -> None:
    load, loaded = rollout.load_checked, []

    def load_once(model: Any, state: Any) -> None:
        if not loaded:
            load(model, state)
            loaded.append(True)

    rollout.load_checked = load_once


if "ray" in sys.modules:
    import rlx_verl_cpu_rollout

    _once(rlx_verl_cpu_rollout)
