"""The records of a run's weights (payload/rlx_weights.py): whether a run carries them, and what travels with it."""

from __future__ import annotations

from collections.abc import Mapping

from rlx.backends.shared.payload_files import modules, program
from rlx.model import PlannedFile

SWITCH = "RLX_WEIGHT_RECORDS"
_OFF = "off"
_PAYLOAD, _WRITER = "rlx_weights", "rlx_aqn_events.py"


def is_recorded(env: Mapping[str, str]) -> bool:
    """Tell whether a run with these variables records its weights: unless it is switched off."""
    return env.get(SWITCH) != _OFF


def weight_files() -> tuple[PlannedFile, ...]:
    return *modules(_PAYLOAD), program(_WRITER)
