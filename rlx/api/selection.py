"""Select the runs that a command means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.runs import Index, RunRef


def open_index() -> Index:
    """The index of this user on this machine."""
    from rlx.api.home import rlx_home
    from rlx.runs import Index

    return Index(rlx_home())


def runs_or_latest(index: Index, names: Sequence[str] | None) -> tuple[RunRef, ...]:
    """The named runs; without names, those of the latest launch. Raises NoSuchRun."""
    from rlx.runs import latest_launch, resolve

    return resolve(index, names) if names else latest_launch(index)
