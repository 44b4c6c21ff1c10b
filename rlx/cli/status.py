"""rlx status: where the runs are, how fast, what they measured, and what may be believed of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.plan import Site
    from rlx.runs import Index, Leases, RunRef
    from rlx.runs.looking.overview import Overview
    from rlx.runs.looking.revisit import Revisit


def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Arm, run name or id. Default: what runs, and the latest launch."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Every run there is.")] = False,
    host: Annotated[
        str | None, typer.Option(help="Every run on this host, whoever launched it, and who has its devices.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until all of them have ended.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also run ids, folders and findings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show progress, noise and verdict of runs.

    Also pace, time left and the last validation. Never writes anything where the runs are.
    A host that does not answer costs its own line only.
    """
    from rlx.api.selection import open_index
    from rlx.cli.frame.output import console, narrate, patience, print_json
    from rlx.cli.text.next_step import hint_at_diagnosis
    from rlx.cli.text.status_watch import painter, watch_runs
    from rlx.runs.looking.revisit import Revisit

    if names and (host or everything):
        raise UsageError("names, --all and --host exclude each other", "rlx status --host H shows every run of H")
    index = open_index()
    visits = Revisit(index)
    site = _read_again(index, host, visits) if host or everything else None
    look = _watcher(index, names or (), everything, host, visits)
    if watch:
        watch_runs(look, painter(verbose))
        return
    with patience("waiting for the hosts …"):
        rows = look()
    leases = _leases(site) if host and site else None
    if as_json:
        print_json({"runs": [row_document(row) for row in rows], **({"devices": leases} if leases else {})})
        return
    if not rows:
        narrate(f"no runs on {host}" if host else "no runs yet; start one: rlx launch RECIPE --host local")
    else:
        console().print(painter(verbose)(rows))
    if leases:
        _print_leases(leases)
    hint_at_diagnosis(rows)


def _read_again(index: Index, host: str | None, visits: Revisit) -> Site | None:
    """The index is a cache: what lies on the host is the truth, also about what others launched.

    None where the host does not answer in time. Raises HostError if nothing is known of it either.
    """
    from rlx.cli.frame.output import narrate
    from rlx.hosts.host_errors import HostError, TimedOut
    from rlx.runs.looking.fan_out import in_time

    try:
        return in_time(host or "local", lambda: _rebuilt(index, host))
    except HostError as error:
        known = [ref for ref in index.nodes() if ref.host == host]
        if not known:
            raise
        narrate(f"rlx: {error.message}; what was known of it before:")
        if isinstance(error, TimedOut):
            visits.leave_alone(known, error)
        return None


def _rebuilt(index: Index, host: str | None) -> Site:
    from rlx.hosts import local_site

    site = _located(host) if host else local_site()
    index.rebuild(site)
    return site


def _located(host: str) -> Site:
    """Runs that host and container share can be read while the container is down."""
    from rlx.cli.frame.output import narrate
    from rlx.hosts import locate, site_of
    from rlx.hosts.host_errors import ContainerGone

    site = site_of(host)
    try:
        return locate(site, reading=True)[0]
    except ContainerGone as error:
        narrate(f"rlx: {error.message}; runs below {site.root} of the host itself:")
        return site


def _leases(site: Site) -> Leases | None:
    """Ask who has the devices of the host; None if it no longer answers."""
    from rlx.hosts.host_errors import HostError
    from rlx.runs import look_at_leases
    from rlx.runs.looking.fan_out import in_time

    try:
        return in_time(site.host, lambda: look_at_leases(site.place, site.leases))
    except HostError:
        return None


def _print_leases(leases: Leases) -> None:
    from rlx.cli.frame.output import print_text
    from rlx.cli.text.leases_text import lease_lines

    for line in lease_lines(leases, time.time()):
        print_text(line)


def _watcher(
    index: Index, names: Sequence[str], everything: bool, host: str | None, visits: Revisit
) -> Callable[[], list[Overview]]:
    """Make what looks at the runs that were asked for, one round trip a host each time."""
    from rlx.cli.text.outages import Outages
    from rlx.runs import resolve
    from rlx.runs.index.resolve import candidates, still_current
    from rlx.runs.looking.overview import overview

    outages = Outages()

    def select() -> Sequence[RunRef]:
        if names:
            return resolve(index, names)
        if host:
            return [ref for ref in index.nodes() if ref.host == host]
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
