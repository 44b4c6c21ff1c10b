"""rlx status: where the runs are, how fast, what they measured, and what may be believed of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.runs import RunRef
    from rlx.runs.overview import Overview

_WATCH_SECONDS = 2.0

_STATE_STYLE = {"finished": "green", "running": "cyan", "starting": "cyan", "failed": "red", "lost": "red"}
_VERDICT_STYLE = {"valid": "green", "unverified": "yellow", "incomplete": "yellow", "invalid": "red"}


def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Arm, run name or id. Default: what runs, and the latest launch."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every run there is.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until all of them have ended.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also run ids, folders and findings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show progress, noise and verdict of runs.

    Also pace, time left and the last validation. Never writes anything where the runs are.
    """
    from rlx.cli.output import narrate, print_json

    refs = _select(names, everything)
    if as_json:
        print_json({"runs": [row_document(row) for row in _look(refs)]})
    elif not refs:
        narrate("no runs yet; start one: rlx launch RECIPE --host local")
    elif watch:
        _watch(names, everything, verbose)
    else:
        _print(_look(refs), verbose)


def _look(refs: Sequence[RunRef]) -> Sequence[Overview]:
    # Imported late: which runs there are is known, and asked of their hosts, before anything is judged.
    from rlx.cli.home import rlx_home
    from rlx.runs import Index
    from rlx.runs.overview import overview

    return overview(Index(rlx_home()), refs)


def _select(names: Sequence[str] | None, everything: bool) -> tuple[RunRef, ...]:
    from rlx.cli.home import rlx_home
    from rlx.hosts import local_site
    from rlx.runs import Index, current_runs, resolve

    index = Index(rlx_home())
    if names:
        return resolve(index, names)
    if not everything:
        return current_runs(index)
    index.rebuild(local_site())
    return index.runs()


def _print(rows: Sequence[Overview], verbose: bool) -> None:
    from rlx.cli.output import console

    console().print(_tables(rows, verbose))


def _watch(names: Sequence[str] | None, everything: bool, verbose: bool) -> None:
    from rlx.cli.output import console

    def ended(rows: Sequence[Overview]) -> bool:
        return all(row.state.is_terminal for row in rows)

    if not sys.stdout.isatty():
        while not ended(rows := _look(_select(names, everything))):
            _print(rows, verbose)
            time.sleep(_WATCH_SECONDS)
        _print(rows, verbose)
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        while True:
            rows = _look(_select(names, everything))
            live.update(_tables(rows, verbose), refresh=True)
            if ended(rows):
                return
            time.sleep(_WATCH_SECONDS)


def _tables(rows: Sequence[Overview], verbose: bool) -> Group:
    """A table for each launch: its runs are the ones that belong side by side."""
    from rich.console import Group

    parts: list[Any] = []
    for _, group in groupby(rows, key=lambda row: row.ref.launch_id):
        launched = list(group)
        parts.append(_table(launched))
        parts.extend(_details(launched) if verbose else [])
    return Group(*parts)


def _table(rows: Sequence[Overview]) -> Any:
    from rich.table import Table
    from rich.text import Text

    first = rows[0].ref
    title = Text(f"{first.name} · launch {first.launch_id} · {first.host}")
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("ARM", "STATE", "PROGRESS", "S/STEP", "LEFT", "VAL-CORE", "NOISE", "VERDICT"):
        table.add_column(heading, no_wrap=heading != "NOISE", overflow="fold")
    several_seeds = len({row.ref.seed for row in rows}) > 1
    for row in rows:
        state, verdict = row.state.value, row.verdict.status.value
        table.add_row(
            Text(f"{row.ref.arm}-s{row.ref.seed}" if several_seeds else row.ref.arm),
            Text(state, style=_STATE_STYLE.get(state, "")),
            progress_cell(row),
            f"{row.step_seconds:.1f}" if row.step_seconds is not None else "–",
            duration(row.seconds_left) if row.seconds_left is not None else "–",
            f"{row.validation[1]:.4f} @{row.validation[0]}" if row.validation else "–",
            Text(row.verdict.noise),
            Text(verdict, style=_VERDICT_STYLE[verdict]),
        )
    return table


def progress_cell(row: Overview) -> str:
    """`step 12/20`, or what a run without a step is doing."""
    if row.observation.queued_behind and not row.steps_done:
        return f"behind {row.observation.queued_behind}"
    return f"step {row.steps_done}/{row.steps_total if row.steps_total is not None else '?'}"


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def _details(rows: Sequence[Overview]) -> list[Any]:
    from rich.text import Text

    lines = []
    for row in rows:
        lines += [f"{row.ref.run_id}: {row.verdict.sentence}", f"  {row.ref.run_dir}"]
        lines += [f"  {row.observation.detail}"] if row.observation.detail else []
        lines += [f"  {finding.id} {finding.message}" for finding in row.verdict.findings]
    return [Text(line) for line in lines]


def row_document(row: Overview) -> Mapping[str, Any]:
    """A run as the JSON of `status` and `wait` shows it; seconds and UTC epochs."""
    seen, verdict = row.observation, row.verdict
    return {
        "run_id": row.ref.run_id,
        "launch_id": row.ref.launch_id,
        "name": row.ref.name,
        "arm": row.ref.arm,
        "seed": row.ref.seed,
        "host": row.ref.host,
        "run_dir": str(row.ref.run_dir),
        "created": row.ref.created,
        "state": row.state,
        "detail": seen.detail,
        "exit_code": seen.exit_code,
        "queued_behind": seen.queued_behind,
        "attempt": seen.attempt,
        "processes": seen.members,
        "started_epoch": seen.started_epoch,
        "ended_epoch": seen.ended_epoch,
        "log_bytes": seen.log_bytes,
        "steps_done": row.steps_done,
        "steps_total": row.steps_total,
        "step_seconds": row.step_seconds,
        "seconds_left": row.seconds_left,
        "metric": row.metric,
        "last_validation": {"step": row.validation[0], "value": row.validation[1]} if row.validation else None,
        "noise": verdict.noise,
        "verdict": {"status": verdict.status, "sentence": verdict.sentence, "findings": verdict.findings},
    }
