"""Tend runs while somebody looks at them or waits for them: bring them forward where a launch left that to rlx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlx.api.telling import unheard

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.runs import Index
    from rlx.runs.looking.overview import Overview


class Tending:
    """Tends the same runs look after look. What failed once is told, and left alone."""

    def __init__(self, index: Index, tell: Tell = unheard) -> None:
        from rlx.api.rebalancing import Rebalancing

        self._rebalancing = Rebalancing(index, tell)

    def tend(self, rows: Sequence[Overview]) -> frozenset[str]:
        """Act on what a look has just found. Returns the ids of the runs that are no longer as they were found."""
        return self._rebalancing.tend(rows)
