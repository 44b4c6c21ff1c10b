"""Query runs: their states, progress, metrics and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rlx.api.runs import unheard
from rlx.errors import UsageError
from rlx.model import RunState

if TYPE_CHECKING:
    from pathlib import Path

    from rlx.api.runs import Runs, Tell
    from rlx.model import Site
    from rlx.runs import Index, Leases, Observation, RunRef
    from rlx.runs.status.snapshots import HostBackoff, Snapshot

_QUESTIONS = 3
"""What `rlx status --host` asks: which runs there are, how they are, and who has the devices."""
_TAG = "tag"
"""The one fact of which a run may have several."""


def status(
    runs: Runs | None = None, *, host: str | None = None, everything: bool = False, where: str | None = None
) -> list[Snapshot]:
    """Query these runs once; without names at all that have not ended and the latest launch.

    `host` means every run there, of all users, of several hosts as `a3,a4`; `everything` every run there is,
    also those that were removed; `where` those of all for which it holds, such as `arm=aqn,state=failed`. One row a
    run: `state`, `steps_done` of `steps_total`, `step_seconds`, `seconds_left` (both in seconds), `validation` (step,
    value) of `metric`, and `verdict`. A host that does not answer costs its own rows only, whose state is
    `unreachable`. Raises NoSuchRun for an unknown name, UsageError where names and `host` or `everything` are given
    together.
    """
    return StatusWatch(runs, host=host, everything=everything, where=where).look()


class StatusWatch:
    """Query the same selection of runs repeatedly, with one round trip per host; nothing is changed.

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
        """Read the choice. Raises UsageError for options that exclude each other, HostError if a silent host is
        unknown.
        """
        from rlx.api.rebalancing import Rebalancing
        from rlx.api.runs import host_names, names_of, open_index
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
        """Return a row for each selected run, in the order of the selection; of several nodes the head's."""
        from rlx.runs.index.resolve import still_current
        from rlx.runs.status.judged_snapshots import judged_snapshots

        refs = self._chosen()
        rows = judged_snapshots(self._index, refs, self._backoff)
        self._rebalancing.suggest(rows)
        self._outages.tell([(row.ref, row.observation) for row in rows])
        if self._names is None and not self._hosts and not self._everything:
            current = still_current(refs, {row.ref.run_id: row.observation for row in rows})
            rows = [row for row in rows if row.ref in current]
        return rows if self._is_wanted is None else [row for row in rows if self._is_wanted(row)]

    def _chosen(self) -> Sequence[RunRef]:
        from rlx.api.runs import runs_or_latest
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
        """Leave out removed runs, and tell how many."""
        removed = self._index.hidden_runs()
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
    """Rebuild the index of a host: the host's files decide, also about what others launched.

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
    """Return the site of the host. Runs that host and container share can be read while the container is down."""
    from rlx.hosts import locate, site_of
    from rlx.hosts.host_errors import ContainerGone

    site = site_of(host)
    _open_shells(site)
    try:
        return locate(site, reading=True)[0]
    except ContainerGone as error:
        tell(f"rlx: {error.message}; runs below {site.root} of the host itself:")
        return site


_ONE: dict[str, Callable[[Snapshot], str]] = {
    "arm": lambda row: row.ref.arm,
    "seed": lambda row: str(row.ref.seed),
    "name": lambda row: row.ref.name,
    "host": lambda row: row.ref.host,
    "launch": lambda row: row.ref.launch_id,
    "state": lambda row: row.state.value,
    "verdict": lambda row: row.verdict.word,
}


def row_filter(text: str) -> Callable[[Snapshot], bool]:
    """Read `KEY=VALUE[,KEY=VALUE]…`, of which all must hold. Raises UsageError for anything else."""
    wanted: dict[str, str] = {}
    tags: set[str] = set()
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or key not in (*_ONE, _TAG):
            known = ", ".join((*_ONE, _TAG))
            raise UsageError(f"--where {text}: {part!r} is no condition", f"KEY=VALUE, with {known} as KEY")
        if key in wanted:
            raise UsageError(f"--where {text}: {key} is named twice, and a run has one", "name it once")
        if key == _TAG:
            tags.add(value)
        else:
            wanted[key] = value
    return lambda row: tags <= {*row.label.tags} and all(_ONE[key](row) == value for key, value in wanted.items())


class Outages:
    """Hosts that are known not to answer."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._silent: set[str] = set()

    def tell(self, looked: Sequence[tuple[RunRef, Observation]]) -> None:
        """Tell what has changed since the last call."""
        silent = {ref.host: seen.detail for ref, seen in looked if seen.state is RunState.UNREACHABLE}
        for host in silent.keys() - self._silent:
            self._tell(f"rlx: {host}: {silent[host]}")
        for host in self._silent - silent.keys():
            self._tell(f"rlx: {host} answers again")
        self._silent = set(silent)


@dataclass(frozen=True, slots=True)
class Reindexed:
    """A new index. `copy`: where the one before is, None if there was none. `found`: by host, how many runs it shows.

    `silent`: by host, why it did not answer. `missing`: the runs that the copy or a mirror names and no host has shown,
    with the host as the copy has it, "" where that cannot be read.
    """

    copy: Path | None
    found: Mapping[str, int]
    silent: Mapping[str, str]
    missing: Mapping[str, str]


def reindex(tell: Tell = unheard) -> Reindexed:
    """Build the index anew from this machine, the known hosts, and what was adopted or imported here.

    The index before is renamed, never deleted. What only that has: digests of manifests and containers as they were
    launched, and launches and moves that are under way. Raises RlxError where it cannot be renamed.
    """
    from rlx.api.runs import rlx_home
    from rlx.errors import RlxError
    from rlx.hosts import known_hosts
    from rlx.runs import Index
    from rlx.runs.copies.mirror import folder_of
    from rlx.runs.copies.mirror_store import mirror_folders
    from rlx.runs.index.run_index import runs_in, set_aside
    from rlx.runs.queries import in_parallel, in_time

    home = rlx_home()
    copy = set_aside(home)
    index = Index(home)
    hosts = [name for name, host in known_hosts().items() if host.ssh]
    answers = in_parallel(hosts, lambda host: in_time(host, lambda: rebuild(index, host, tell)))
    silent = {host: answer.message for host, answer in zip(hosts, answers, strict=True) if isinstance(answer, RlxError)}
    refs, before = index.nodes(), {each.run_id: "" for each in mirror_folders(folder_of(index))}
    before |= runs_in(copy) if copy else {}
    known = {ref.run_id for ref in refs}
    return Reindexed(
        copy=copy,
        found={host: sum(ref.host == host and not ref.node for ref in refs) for host in ("local", *hosts)},
        silent=silent,
        missing={run_id: host for run_id, host in before.items() if run_id not in known},
    )
