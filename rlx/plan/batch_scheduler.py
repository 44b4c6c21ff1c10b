"""Name the batch scheduler of a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Batch:
    """The scheduler that decides when and on which node a run starts, and what the host's entry says of it.

    `scheduler` is its name in rlx/schedulers/registry.py, and the key of the entry; `settings` are its own, as JSON.
    """

    scheduler: str
    settings: Mapping[str, Any]
