"""Tend runs while somebody waits for them: begin what their recipes ask for. Merely looking begins nothing."""

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
        from rlx.api.retrying_by_recipe import RetryingByRecipe

        self._retrying = RetryingByRecipe(index, tell)

    def tend(self, rows: Sequence[Overview]) -> frozenset[str]:
        """Act on what a look has just found. The ids of the runs that are no longer as they were found then."""
        return self._retrying.tend(rows)
