"""Name the changes of a recipe file that a migration to another engine makes."""

from __future__ import annotations

from dataclasses import dataclass

Keys = tuple[str, ...]
REMOVED = None
"""As the new value of a key: it goes."""


@dataclass(frozen=True, slots=True)
class MigrationSizes:
    """Devices over which the model is split; `micro_batch_size`: samples a device and pass. None: to be chosen."""

    tp: int | None = None
    pp: int = 1
    ep: int = 1
    micro_batch_size: int | None = None
