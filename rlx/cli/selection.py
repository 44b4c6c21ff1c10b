"""Which runs a command means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.runs import RunRef


def runs_or_latest(names: Sequence[str] | None) -> tuple[RunRef, ...]:
    """The named runs; without names, those of the latest launch. Raises NoSuchRun."""
    from rlx.cli.home import rlx_home
    from rlx.runs import Index, latest_launch, resolve

    index = Index(rlx_home())
    return resolve(index, names) if names else latest_launch(index)
