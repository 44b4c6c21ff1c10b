"""Show that something goes on while nothing changes: training frameworks are silent for a minute at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rlx.model import RunState

if TYPE_CHECKING:
    from rlx.runs.looking.overview import Overview

_QUIET_SECONDS = 15.0


def each_of(*hearers: Callable[[Sequence[Overview]], None]) -> Callable[[Sequence[Overview]], None]:
    """Let several hear of each look."""

    def hear(rows: Sequence[Overview]) -> None:
        for hearer in hearers:
            hearer(rows)

    return hear


@contextmanager
def sign_of_life() -> Iterator[Callable[[Sequence[Overview]], None]]:
    """Give what is to hear of each look: it moves a line on a terminal, and prints a rare one elsewhere."""
    from rich.console import Console

    from rlx.cli.frame.output import is_quiet, narrate

    if sys.stderr.isatty() and not is_quiet():
        with Console(stderr=True, highlight=False).status("") as spinner:
            yield lambda rows: spinner.update(" · ".join(_waiting(rows)), spinner_style="dim")
        return
    spoke = time.monotonic()

    def speak(rows: Sequence[Overview]) -> None:
        nonlocal spoke
        if time.monotonic() - spoke > _QUIET_SECONDS:
            spoke = time.monotonic()
            for line in _waiting(rows):
                narrate(f"{time.strftime('%H:%M:%S')}  {line}")

    yield speak


def _waiting(rows: Sequence[Overview]) -> list[str]:
    return [_waiting_line(row) for row in rows if not row.state.is_terminal]


def _waiting_line(row: Overview) -> str:
    from rlx.runs.duration import duration

    seen = row.observation
    if seen.state in (RunState.QUEUED, RunState.UNREACHABLE):
        return f"{row.ref.arm:<10} {f'queued, {seen.detail}' if seen.state is RunState.QUEUED else seen.detail}"
    text = f"{seen.state.value}; {seen.members} processes, log {seen.log_bytes} bytes"
    if row.steps_done:
        text = f"{seen.state.value}, step {row.steps_done}/{row.steps_total if row.steps_total is not None else '?'}"
        text += f", about {duration(row.seconds_left)} left" if row.seconds_left is not None else ""
    if seen.seconds_since_log is not None:
        text += f", last written {seen.seconds_since_log:.0f} s ago"
    return f"{row.ref.arm:<10} {text}"
