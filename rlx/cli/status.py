"""rlx status: show the progress, noise and verdict of runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import HOST_LIST, HOSTS, RUNS
from rlx.cli.frame.output import console, narrate, patience, print_json, print_text
from rlx.cli.frame.run_progress import hint_at_diagnosis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Group

    from rlx.evidence.diagnosis import Hit
    from rlx.runs import Leases
    from rlx.runs.status.snapshots import Snapshot

_Runs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN]...", help="Arm, run name or id. Default: what runs, and the latest launch.", autocompletion=RUNS
    ),
]
_Host = Annotated[
    str | None,
    typer.Option(
        metavar=HOST_LIST,
        help="Every run on these hosts, of all users, and which runs have their devices.",
        autocompletion=HOSTS,
    ),
]
_Where = Annotated[
    str | None,
    typer.Option(metavar="KEY=VALUE,...", help="Only runs with these values, of all runs: arm=aqn,tag=keep."),
]
_WATCH_SECONDS = 2.0


def status(
    names: _Runs = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All runs.")] = False,
    host: _Host = None,
    where: _Where = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until all of them have ended.")] = False,
    grid: Annotated[
        bool, typer.Option("--grid/--no-grid", help="Show several arms with several seeds as a grid, if there is room.")
    ] = True,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also ids, folders, devices, findings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show the progress, noise and verdict of runs.

    Also pace, time left and the last validation. Only reads: where a block of a sweep waits while another host of the
    sweep is free, it names the command that moves it. A host that does not answer is shown as unreachable; others are
    unaffected.
    """
    from rlx.api.status import StatusWatch
    from rlx.cli.text.run_document import row_document
    from rlx.runs.status.forecast import sweeps

    with patience():
        chosen = StatusWatch(names or None, host=host, everything=everything, where=where, tell=narrate)
        rows, leases = ([], {}) if watch else (chosen.look(), chosen.leases())
    if watch:
        watch_runs(chosen.look, painter(verbose, grid))
        return
    if as_json:
        document = {"runs": [row_document(row) for row in rows], "launches": sweeps(rows)}
        devices = {"devices": next(iter(leases.values()))} if len(leases) == 1 else {}
        print_json({**document, **devices, **({"devices_of": leases} if leases else {})})
        return
    console().print(painter(verbose, grid)(rows)) if rows else narrate(_none_found(host, where))
    _print_leases(leases)
    hint_at_diagnosis(rows)


def _none_found(host: str | None, where: str | None) -> str:
    if where:
        return f"no run{f' on {host}' if host else ''} with {where}"
    return f"no runs on {host}" if host else "no runs yet; start one: rlx launch RECIPE --host local"


def _print_leases(leases: Mapping[str, Leases]) -> None:
    from rlx.cli.text.queue_text import lease_lines

    for host, of_host in leases.items():
        for line in lease_lines(of_host):
            print_text(f"{host}: {line}" if len(leases) > 1 else line)


def painter(verbose: bool, as_grid: bool = True) -> Callable[[Sequence[Snapshot]], Group]:
    """Return a function that draws the rows of a query. Causes of failures are searched once, if `verbose`."""
    from rlx.cli.text.run_text import tables

    causes: dict[str, Hit | None] = {}

    def paint(rows: Sequence[Snapshot]) -> Group:
        if verbose:
            from rlx.runs.judging.diagnose_runs import causes_of

            causes.update(causes_of([row for row in rows if row.ref.run_id not in causes]))
        return tables(rows, verbose, causes, console().width, as_grid)

    return paint


def watch_runs(query: Callable[[], Sequence[Snapshot]], paint: Callable[[Sequence[Snapshot]], Group]) -> None:
    """Draw again until all runs have ended; without a terminal one drawing follows the other."""

    def ended(rows: Sequence[Snapshot]) -> bool:
        return all(row.state.is_terminal for row in rows)

    if not sys.stdout.isatty():
        while not ended(rows := query()):
            console().print(paint(rows))
            time.sleep(_WATCH_SECONDS)
        console().print(paint(rows))
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        while True:
            rows = query()
            live.update(paint(rows), refresh=True)
            if ended(rows):
                return
            time.sleep(_WATCH_SECONDS)
