"""Query many hosts at once. One that is slow, dead or changed affects its own answer only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, Queue
from threading import Thread
from typing import Generic, TypeVar

from rlx.errors import RlxError
from rlx.hosts.host_errors import TimedOut
from rlx.model import Place
from rlx.runs.run import RunRef

T = TypeVar("T")
Item = TypeVar("Item")

DEADLINE_S = 20.0
_MARGIN_S = 2.0
"""A query that keeps to the deadline itself has this much longer to report why it failed."""

Query = Callable[[Place, str, Sequence[str]], T]
"""Called with place, root and the ids of its runs, in a thread of its own."""


@dataclass(frozen=True, slots=True)
class QueryResult(Generic[T]):
    """The answers, in no order, and for each place without one the reason."""

    answers: Sequence[T]
    failures: Mapping[Place, RlxError]


def query_places(refs: Iterable[RunRef], question: Query[T], deadline_s: float = DEADLINE_S) -> QueryResult[T]:
    """Query every place of these runs at once, once per root, and wait no longer than the deadline."""
    roots = _by_root(refs)
    results: Queue[tuple[Place, T | BaseException]] = Queue()
    for (place, root), ids in roots.items():
        Thread(target=_query, args=(results, question, place, root, ids), daemon=True, name=place.host).start()
    return _collect(results, [place for place, _ in roots], deadline_s)


def in_time(host: str, work: Callable[[], T], deadline_s: float = DEADLINE_S) -> T:
    """Return or raise what the work does. Raises TimedOut at the deadline; the work then continues without effect.

    For queries of several commands: each of them may be slow for a reason, all together may not.
    """
    results: Queue[T | BaseException] = Queue()
    Thread(target=_work, args=(results, work), daemon=True, name=host).start()
    try:
        found = results.get(timeout=deadline_s)
    except Empty:
        raise _no_answer(host, deadline_s) from None
    if isinstance(found, BaseException):
        raise found
    return found


def in_parallel(items: Sequence[Item], work: Callable[[Item], T]) -> list[T | RlxError]:
    """Do the work for all items in parallel; return what each returned, or the RlxError that it raised.

    Daemon threads: a caller that stops waiting need not wait for the rest, even at exit.
    """
    queues: list[Queue[T | BaseException]] = [Queue() for _ in items]
    for item, results in zip(items, queues, strict=True):
        Thread(target=_work, args=(results, partial(work, item)), daemon=True).start()
    found = [results.get() for results in queues]
    for one in found:
        if isinstance(one, BaseException) and not isinstance(one, RlxError):
            raise one
    return [one for one in found if isinstance(one, RlxError) or not isinstance(one, BaseException)]


def _work(results: Queue[T | BaseException], work: Callable[[], T]) -> None:
    try:
        results.put(work())
    except BaseException as problem:  # noqa: BLE001 - goes on in the thread that asked
        results.put(problem)


def _by_root(refs: Iterable[RunRef]) -> dict[tuple[Place, str], list[str]]:
    """Group the run ids by place and root."""
    roots: dict[tuple[Place, str], list[str]] = {}
    for ref in refs:
        roots.setdefault((ref.place, ref.root), []).append(ref.run_id)
    return roots


def _query(
    results: Queue[tuple[Place, T | BaseException]], question: Query[T], place: Place, root: str, ids: Sequence[str]
) -> None:
    try:
        results.put((place, question(place, root, ids)))
    except BaseException as problem:  # noqa: BLE001 - goes on in the thread that asked
        results.put((place, problem))


def _collect(
    results: Queue[tuple[Place, T | BaseException]], waiting: list[Place], deadline_s: float
) -> QueryResult[T]:
    answers: list[T] = []
    failures: dict[Place, RlxError] = {}
    until = time.monotonic() + deadline_s + _MARGIN_S
    while waiting:
        try:
            place, found = results.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            return QueryResult(answers, {place: _no_answer(place.host, deadline_s) for place in waiting} | failures)
        waiting.remove(place)
        if isinstance(found, RlxError):
            failures[place] = found
        elif isinstance(found, BaseException):
            raise found
        else:
            answers.append(found)
    return QueryResult(answers, failures)


def _no_answer(host: str, deadline_s: float) -> TimedOut:
    return TimedOut(f"{host}: no answer after {deadline_s:g} s")
