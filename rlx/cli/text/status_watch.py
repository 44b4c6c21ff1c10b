"""Draw `rlx status`, once or again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.evidence.diagnosis import Hit
    from rlx.runs.looking.overview import Overview

_WATCH_SECONDS = 2.0


def painter(verbose: bool, as_grid: bool = True) -> Callable[[Sequence[Overview]], Group]:
    """Draws what a look has found. Why a run failed is searched once, and only where it is shown."""
    from rlx.cli.frame.output import console
    from rlx.cli.text.status_text import tables

    causes: dict[str, Hit | None] = {}

    def paint(rows: Sequence[Overview]) -> Group:
        if verbose:
            from rlx.runs.judging.diagnosed import causes_of

            causes.update(causes_of([row for row in rows if row.ref.run_id not in causes]))
        return tables(rows, verbose, causes, console().width, as_grid)

    return paint


def watch_runs(look: Callable[[], Sequence[Overview]], paint: Callable[[Sequence[Overview]], Group]) -> None:
    """Draw again and again until all have ended; off a terminal one below the other."""
    from rlx.cli.frame.output import console

    def ended(rows: Sequence[Overview]) -> bool:
        return all(row.state.is_terminal for row in rows)

    if not sys.stdout.isatty():
        while not ended(rows := look()):
            console().print(paint(rows))
            time.sleep(_WATCH_SECONDS)
        console().print(paint(rows))
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        while True:
            rows = look()
            live.update(paint(rows), refresh=True)
            if ended(rows):
                return
            time.sleep(_WATCH_SECONDS)
