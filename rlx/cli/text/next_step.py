"""Suggest what to type next where a run did not go well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.runs.looking.overview import Overview

_MOST_NAMED = 4


def hint_at_diagnosis(rows: Sequence[Overview]) -> None:
    """One line on stderr, if a run of these failed, was lost or stands still."""
    from rlx.cli.frame.output import narrate
    from rlx.model import RunState

    unwell = {RunState.FAILED, RunState.LOST, RunState.STALLED}
    names = [row.ref.run_id for row in rows if row.state in unwell]
    if names:
        narrate(f"why: rlx diagnose {' '.join(names[:_MOST_NAMED])}")
