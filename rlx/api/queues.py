"""Query which runs wait for which devices of the hosts, behind which others, and about when they start."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, Union, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlx.errors import RlxError
    from rlx.model import Place, Site
    from rlx.runs import Index, Leases, RunRef
    from rlx.runs.status.host_queue import HostQueue
    from rlx.runs.status.snapshots import Snapshot
    from rlx.schedulers.protocol import JobQueue, QueuedJob

HostAnswer: TypeAlias = Union["Leases", "JobQueue", tuple["QueuedJob", ...], "RlxError"]


def queue(hosts: str | Iterable[str] | None = None) -> list[HostQueue]:
    """Query who holds and who waits for the devices of these hosts; without names, of all that have runs of this user.

    The runs of all users are included that lease devices through rlx; of other processes the pid. Estimates go by the
    pace of runs known here. Of a login node, all jobs of its partition and its scheduler's own estimates. A silent host
    has a `problem` alone. Raises UsageError, HostError if no host answers.
    """
    from rlx.api.runs import open_index
    from rlx.runs.importing.log_source import is_adopted

    index = open_index()
    # A tracked run has no devices of a queue.
    refs = [ref for ref in index.nodes() if not is_adopted(ref)]
    places = _places(refs, hosts)
    with ThreadPoolExecutor(1) as pool:
        # Both queries at once: each costs a round trip.
        rows = pool.submit(_rows, index, _going_on(index, refs, places))
        with ThreadPoolExecutor(max(1, len(places))) as queries:
            answers = dict(zip(places, queries.map(_look, places, places.values()), strict=True))
        far = rows.result()
    near = _rows(index, _at_work_here(refs, answers))
    return _queues(answers, [*far, *near])


def _places(refs: Sequence[RunRef], hosts: str | Iterable[str] | None) -> dict[Place, Site]:
    """Return the places of these hosts. Raises UsageError for an unknown host."""
    named = [hosts] if isinstance(hosts, str) else hosts
    places: dict[Place, Site] = {}
    for name in dict.fromkeys(ref.host for ref in refs) if named is None else dict.fromkeys(named):
        # Runs and their locks may be inside a container.
        known = [ref.place for ref in refs if ref.host == name]
        places |= _places_of(name, known)
    return places


def _places_of(name: str, known: Sequence[Place]) -> dict[Place, Site]:
    """Return the places where runs are `known` to be, also of a host whose entry is gone."""
    from rlx.hosts import known_hosts, site_of
    from rlx.model import Site

    if known and name not in known_hosts():
        return dict.fromkeys(known, Site())
    site = site_of(name)
    return dict.fromkeys(known or [site.place], site)


def _look(place: Place, site: Site) -> HostAnswer:
    from rlx.errors import RlxError
    from rlx.runs.queries import in_time
    from rlx.schedulers.protocol import capacity_of

    try:
        return cast("HostAnswer", in_time(place.host, partial(capacity_of(site.batch).capacity, place, site)))
    except RlxError as problem:
        return problem


def _going_on(index: Index, refs: Sequence[RunRef], places: Mapping[Place, Site]) -> list[RunRef]:
    """Return the runs on these other machines whose launches go on: what has ended of them tells how long the rest
    takes.
    """
    ended = index.ended()
    there = [ref for ref in refs if ref.place in places and not ref.place.is_local]
    launches = {ref.launch_id for ref in there if ref.run_id not in ended}
    return [ref for ref in there if ref.launch_id in launches]


def _at_work_here(refs: Sequence[RunRef], answers: Mapping[Place, HostAnswer]) -> list[RunRef]:
    """Return the runs of this machine whose launches are at work by its leases, since it has all that ever ran here."""
    from rlx.runs import Leases

    local = [answer for place, answer in answers.items() if place.is_local and isinstance(answer, Leases)]
    at_work = {lease.run_id for leases in local for lease in leases.held}
    at_work |= {ticket.run_id for leases in local for ticket in leases.waiting}
    launches = {ref.launch_id for ref in refs if ref.run_id in at_work}
    return [ref for ref in refs if ref.place.is_local and ref.launch_id in launches]


def _rows(index: Index, refs: Sequence[RunRef]) -> list[Snapshot]:
    from rlx.runs.status.judged_snapshots import judged_snapshots

    return judged_snapshots(index, [ref for ref in refs if not ref.node]) if refs else []


def _queues(answers: Mapping[Place, HostAnswer], rows: Sequence[Snapshot]) -> list[HostQueue]:
    """Return the queues of the hosts that answered. Raises the problem of the first host if none has."""
    from rlx.errors import RlxError
    from rlx.runs.status.forecast import Paces
    from rlx.runs.status.host_queue import HostQueue, host_queue
    from rlx.schedulers.protocol import JobQueue

    problems = [answer for answer in answers.values() if isinstance(answer, RlxError)]
    if problems and len(problems) == len(answers):
        raise problems[0]
    by_id, paces = {row.ref.run_id: row for row in rows}, Paces(rows)

    def queue_of(place: Place, answer: HostAnswer) -> HostQueue:
        if isinstance(answer, RlxError):
            return HostQueue(place.host, place.inside, problem=answer.message)
        if isinstance(answer, JobQueue):
            return HostQueue(place.host, place.inside, jobs=answer.jobs, resources=answer.resources)
        if isinstance(answer, tuple):
            return HostQueue(place.host, place.inside, jobs=answer)
        return host_queue(place, answer, by_id, paces)

    return [queue_of(place, answer) for place, answer in answers.items()]
