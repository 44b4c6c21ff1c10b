"""rlx status: where the runs are, how fast, what they measured, and what may be believed of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.errors import UsageError
from rlx.runs.duration import duration

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.runs import Index, RunRef
    from rlx.runs.overview import Overview

_WATCH_SECONDS = 2.0

_STATE_STYLE = {"finished": "green", "running": "cyan", "starting": "cyan", "failed": "red", "lost": "red"} | {
    "unreachable": "yellow"
}
_VERDICT_STYLE = {"valid": "green", "unverified": "yellow", "incomplete": "yellow", "invalid": "red"}


def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Arm, run name or id. Default: what runs, and the latest launch."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every run there is.")] = False,
    host: Annotated[
        str | None, typer.Option(help="Every run on this host, whoever launched it, from whichever machine.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until all of them have ended.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also run ids, folders and findings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show progress, noise and verdict of runs.

    Also pace, time left and the last validation. Never writes anything where the runs are.
    A host that does not answer costs its own line only.
    """
    from rlx.cli.output import narrate, print_json
    from rlx.cli.selection import open_index

    if names and (host or everything):
        raise UsageError("names, --all and --host exclude each other", "rlx status --host H shows every run of H")
    index = open_index()
    _read_again(index, host, everything)
    look = _watcher(index, names or (), everything, host)
    if watch:
        _watch(look, verbose)
        return
    rows = look()
    if as_json:
        print_json({"runs": [row_document(row) for row in rows]})
    elif not rows:
        narrate(f"no runs on {host}" if host else "no runs yet; start one: rlx launch RECIPE --host local")
    else:
        _print(rows, verbose)


def _read_again(index: Index, host: str | None, everything: bool) -> None:
    """The index is a cache: what lies on the host is the truth, also about what others launched."""
    from rlx.cli.output import narrate
    from rlx.hosts import local_site, locate, site_of
    from rlx.hosts.errors import HostError

    if host is None and not everything:
        return
    try:
        index.rebuild(locate(site_of(host))[0] if host else local_site())
    except HostError as error:
        narrate(f"rlx: {error.message}; what was known of it before:")


def _watcher(index: Index, names: Sequence[str], everything: bool, host: str | None) -> Callable[[], list[Overview]]:
    """What looks at the runs that were asked for, one round trip a host each time."""
    from rlx.cli.outages import Outages
    from rlx.runs import resolve
    from rlx.runs.overview import overview
    from rlx.runs.resolve import candidates, still_current
    from rlx.runs.revisit import Revisit

    visits, outages = Revisit(index), Outages()

    def select() -> Sequence[RunRef]:
        if names:
            return resolve(index, names)
        if host:
            return [ref for ref in index.runs() if ref.host == host]
        return index.runs() if everything else candidates(index)

    def look() -> list[Overview]:
        refs = select()
        rows = overview(index, refs, visits)
        outages.tell([(row.ref, row.observation) for row in rows])
        if names or host or everything:
            return rows
        current = still_current(refs, {row.ref.run_id: row.observation for row in rows})
        return [row for row in rows if row.ref in current]

    return look


def _print(rows: Sequence[Overview], verbose: bool) -> None:
    from rlx.cli.output import console

    console().print(_tables(rows, verbose))


def _watch(look: Callable[[], Sequence[Overview]], verbose: bool) -> None:
    from rlx.cli.output import console

    def ended(rows: Sequence[Overview]) -> bool:
        return all(row.state.is_terminal for row in rows)

    if not sys.stdout.isatty():
        while not ended(rows := look()):
            _print(rows, verbose)
            time.sleep(_WATCH_SECONDS)
        _print(rows, verbose)
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        while True:
            rows = look()
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
    container = f":{rows[0].container}" if rows[0].container else ""
    title = Text(f"{first.name} · launch {first.launch_id} · {first.host}{container}")
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


def _details(rows: Sequence[Overview]) -> list[Any]:
    from rich.text import Text

    lines = []
    for row in rows:
        lines += [f"{row.ref.run_id}: {row.verdict.sentence}", f"  {row.ref.host}:{row.ref.shown_dir}"]
        lines += [f"  submitted by {_submitter(row)}"] if row.submitted_by else []
        lines += [f"  {row.observation.detail}"] if row.observation.detail else []
        lines += [f"  {finding.id} {finding.message}" for finding in row.verdict.findings]
    return [Text(line) for line in lines]


def _submitter(row: Overview) -> str:
    return f"{row.submitted_by.get('user', '?')}@{row.submitted_by.get('machine', '?')}"


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
        "destination": row.ref.place.destination,
        "container": row.container,
        "submitted_by": row.submitted_by,
        "run_dir": row.ref.shown_dir,
        "created": row.ref.created,
        "state": row.state,
        "detail": seen.detail,
        "last_known": seen.last_known,
        "last_seen_epoch": seen.last_seen_epoch,
        "unreachable_since": seen.unreachable_since,
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
