"""Look at runs: where they are, how fast, what they measured, and what may be believed of it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from rlx.api.telling import unheard
from rlx.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlx.api.selection import Runs
    from rlx.api.telling import Tell
    from rlx.model import Site
    from rlx.runs import Index, Leases, RunRef
    from rlx.runs.status.snapshots import HostBackoff, Snapshot

_QUESTIONS = 3
"""What `rlx status --host` asks: which runs there are, how they are, and who has the devices."""


def status(
    runs: Runs | None = None, *, host: str | None = None, everything: bool = False, where: str | None = None
) -> list[Snapshot]:
    """Look once at these runs; without names at all that have not ended and the latest launch.

    `host` means every run there, whoever launched it, of several hosts as `a3,a4`; `everything` every run there is,
    also those that were removed; `where` those of all for which it holds, such as `arm=aqn,state=failed`. One row a
    run: `state`, `steps_done` of `steps_total`, `step_seconds`, `seconds_left` (both in seconds), `validation` (step,
    value) of `metric`, and `verdict`. A host that does not answer costs its own rows only, whose state is
    `unreachable`. Raises NoSuchRun for an unknown name, UsageError where names and `host` or `everything` are given
    together.
    """
    return StatusWatch(runs, host=host, everything=everything, where=where).look()


class StatusWatch:
    """Looks at the same choice of runs again and again, one round trip a host each time, and only reads.

    What waits of a sweep while another of its hosts is free is named with the command that moves it. A host that does
    not answer is left alone for a while, so that it does not hold up the others.
    """

    def __init__(
        self,
        runs: Runs | None = None,
        *,
        host: str | None = None,
        everything: bool = False,
        where: str | None = None,
        tell: Tell = unheard,
    ) -> None:
        """Raises UsageError for a choice that excludes itself, HostError if nothing is known of silent hosts."""
        from rlx.api.outages import Outages
        from rlx.api.rebalancing import Rebalancing
        from rlx.api.row_filter import row_filter
        from rlx.api.selection import host_names, names_of, open_index
        from rlx.runs.status.snapshots import HostBackoff

        self._names = None if runs is None else names_of(runs)
        if self._names is not None and (host or everything):
            raise UsageError("names, --all and --host exclude each other", "rlx status --host H shows every run of H")
        self._is_wanted = row_filter(where) if where is not None else None
        # A condition looks for runs, wherever they are.
        self._hosts = host_names(host) if host else []
        self._everything = everything or (where is not None and self._names is None and not host)
        self._tell, self._told = tell, set[str]()
        self._index = open_index()
        self._rebalancing = Rebalancing(self._index, tell)
        self._backoff, self._outages = HostBackoff(self._index), Outages(tell)
        asked: Sequence[str | None] = self._hosts or ([None] if everything else [])
        self._sites = _read_all_again(self._index, asked, self._backoff, tell)

    def look(self) -> list[Snapshot]:
        """A row for each run, in the order of the choice; of several nodes the head's."""
        rows = self._all()
        return rows if self._is_wanted is None else [row for row in rows if self._is_wanted(row)]

    def _all(self) -> list[Snapshot]:
        from rlx.runs.index.resolve import still_current
        from rlx.runs.status.judged_snapshots import judged_snapshots

        refs = self._chosen()
        rows = judged_snapshots(self._index, refs, self._backoff)
        self._rebalancing.suggest(rows)
        self._outages.tell([(row.ref, row.observation) for row in rows])
        if self._names is not None or self._hosts or self._everything:
            return rows
        current = still_current(refs, {row.ref.run_id: row.observation for row in rows})
        return [row for row in rows if row.ref in current]

    def _chosen(self) -> Sequence[RunRef]:
        from rlx.api.selection import runs_or_latest
        from rlx.runs.index.resolve import candidates
        from rlx.runs.run import one_a_job

        if self._names is not None:
            return runs_or_latest(self._index, self._names)
        if self._hosts:
            there = one_a_job(ref for ref in self._index.nodes() if ref.host in self._hosts)
            return there if self._everything else self._shown(there)
        if self._everything:
            return self._index.runs()
        current = candidates(self._index)
        return current or self._shown(self._index.runs())

    def _shown(self, refs: Sequence[RunRef]) -> Sequence[RunRef]:
        """Leave out what somebody removed, and say so."""
        removed = self._index.tombstones()
        shown = [ref for ref in refs if ref.head_id not in removed]
        if hidden := sum(1 for ref in refs if not ref.node and ref.head_id in removed):
            self._tell_once(f"rlx: {hidden} run{'s were' if hidden > 1 else ' was'} removed; -a shows what was")
        return shown

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def leases(self) -> dict[str, Leases]:
        """Ask each chosen host which runs have its devices; without one that does not answer any more."""
        from rlx.hosts.host_errors import HostError
        from rlx.runs import query_leases
        from rlx.runs.queries import in_time

        leases = {}
        for site in self._sites if self._hosts else ():
            # Those of a login node are its scheduler's to give: rlx queue shows its jobs.
            if site.batch is None:
                with suppress(HostError):
                    leases[site.host] = in_time(site.host, partial(query_leases, site.place, site.leases))
        return leases


def _read_all_again(index: Index, hosts: Sequence[str | None], backoff: HostBackoff, tell: Tell) -> list[Site]:
    """Rebuild the index of each host, and return the sites of those that answer.

    Raises HostError if nothing is known of the only one, or of the last one where no other is known either.
    """
    from rlx.hosts.host_errors import HostError

    sites: list[Site | None] = []
    failures: list[HostError] = []
    for host in hosts:
        try:
            sites.append(_read_again(index, host, backoff, tell))
        except HostError as error:
            failures.append(error)
    if failures and len(failures) == len(hosts):
        raise failures[-1]
    for failure in failures:
        tell(f"rlx: {failure.message}")
    return [site for site in sites if site is not None]


def _read_again(index: Index, host: str | None, backoff: HostBackoff, tell: Tell) -> Site | None:
    """Rebuild the index, a cache: what lies on the host is the truth, also about what others launched.

    None where the host does not answer in time. Raises HostError if nothing is known of it either.
    """
    from rlx.hosts.host_errors import HostError, TimedOut
    from rlx.runs.queries import in_time

    try:
        return in_time(host or "local", lambda: rebuild(index, host, tell))
    except HostError as error:
        known = [ref for ref in index.nodes() if ref.host == host]
        if not known:
            raise
        tell(f"rlx: {error.message}; what was known of it before:")
        if isinstance(error, TimedOut):
            backoff.leave_alone(known, error)
        return None


def rebuild(index: Index, host: str | None, tell: Tell) -> Site:
    """Add the runs that this host shows, None for this machine, to the index. Raises HostError."""
    from rlx.hosts import local_site
    from rlx.model import finding_text

    site = _located(host, tell) if host else local_site()
    for found in index.rebuild(site):
        tell(f"rlx: {finding_text(found)}")
    return site


def _open_shells(site: Site) -> None:
    """Start the shells of all questions at once, so that a slow login script costs its time once."""
    from dataclasses import replace

    from rlx.hosts import connect, open_ahead

    if not site.place.is_local:
        connect(replace(site.place, inside=None))
        for place in (site.place,) * (_QUESTIONS + (site.container is not None)):
            open_ahead(place)


def _located(host: str, tell: Tell) -> Site:
    """The site of the host. Runs that host and container share can be read while the container is down."""
    from rlx.hosts import locate, site_of
    from rlx.hosts.host_errors import ContainerGone

    site = site_of(host)
    _open_shells(site)
    try:
        return locate(site, reading=True)[0]
    except ContainerGone as error:
        tell(f"rlx: {error.message}; runs below {site.root} of the host itself:")
        return site
