"""Read the log lines of runs on their hosts, once or until the runs end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rlx.api.runs import unheard
from rlx.errors import RlxError, UsageError
from rlx.model import RunState

if TYPE_CHECKING:
    from queue import Queue

    from rlx.api.rebalancing import Rebalancing
    from rlx.api.runs import Runs, Tell
    from rlx.model import Place
    from rlx.runs import Index, RunRef
    from rlx.runs.logs import LogQuery

LogLine: TypeAlias = "tuple[RunRef, bytes]"
"""A run and one line of its log as it was written, without the line end: it may hold control sequences."""
_Came: TypeAlias = "tuple[RunRef, bytes | _Moved | Exception | None]"
"""A run with a line of its log, with what went wrong, or with None: no more lines will come."""

_LINES_AHEAD = 1000
_QUIET_SECONDS = 2.0
_LONG_QUIET_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Logs:
    """The lines of some runs, to be read once."""

    runs: tuple[RunRef, ...]
    _lines: Iterator[LogLine]

    def __iter__(self) -> Iterator[LogLine]:
        return self._lines


@dataclass(frozen=True, slots=True)
class _Moved:
    """The run continues under this reference, on another host."""

    ref: RunRef


def logs(
    runs: Runs | None = None,
    *,
    follow: bool = False,
    lines: int | None = None,
    grep: str | None = None,
    fixed: bool = False,
    since_s: int | None = None,
    tell: Tell = unheard,
) -> Logs:
    """Read the lines of these runs' logs, run by run; with `follow` as they come, until the runs end.

    Iterating yields (run, line as bytes without its end); `.runs` are those that are meant, without names those of the
    latest launch. `lines`: only the last so many of each run; `grep`: only those that
    match this extended regular expression, or hold the very text if it is `fixed`; `since_s`: only what was written in
    the last seconds. The lines are chosen on the host. Raises UsageError for options that exclude each other and for
    a pattern that grep cannot read, NoSuchRun, and at the end one RlxError for all logs that could not be read.
    """
    from rlx.api.runs import open_index, removal_notes, runs_or_latest
    from rlx.runs.logs import LogQuery

    if follow and since_s is not None:
        raise UsageError("--since and --follow do not go together", "use -n N to say how far back a follow begins")
    if fixed and grep is None:
        raise UsageError("-F says how --grep looks, and there is none", "rlx logs -F --grep TEXT")
    query = LogQuery(lines, grep, since_s, fixed)
    query.check()
    index = open_index()
    refs = runs_or_latest(index, runs)
    for note in removal_notes(index, refs):
        tell(f"rlx: {note}")
    return Logs(refs, _lines(index, refs, query, follow, tell))


def _lines(index: Index, refs: Sequence[RunRef], query: LogQuery, follow: bool, tell: Tell) -> Iterator[LogLine]:
    from rlx.api.diagnosing import joined

    _copy_adopted(refs, tell)
    failures: list[RlxError] = []
    yield from _follow_attempts(index, refs, query, failures, tell) if follow else _read_all(refs, query, failures)
    if failures:
        raise joined(failures)


def _copy_adopted(refs: Sequence[RunRef], tell: Tell) -> None:
    """Copy the logs of adopted runs, which are read here; a follow repeats it whenever it is quiet."""
    from rlx.runs.importing.log_copy import refresh_all

    for _, problem in refresh_all(refs).values():
        if problem is not None:
            tell(f"rlx: {problem.message}; from the copy made before")


def _read_all(refs: Sequence[RunRef], query: LogQuery, failures: list[RlxError]) -> Iterator[LogLine]:
    """One run that cannot be read keeps no other from being shown. A host that could not be reached is asked once."""
    from rlx.hosts.host_errors import HostError
    from rlx.runs.logs import read_log

    silent: set[Place] = set()
    for ref in refs:
        if ref.place in silent:
            continue
        try:
            for line in read_log(ref, query):
                yield ref, line
        except RlxError as error:
            failures.append(error)
            if isinstance(error, HostError) and not error.arrived:
                silent.add(ref.place)


def _follow_attempts(
    index: Index, refs: Sequence[RunRef], query: LogQuery, failures: list[RlxError], tell: Tell
) -> Iterator[LogLine]:
    """Follow them to their ends, and then the attempts that are begun where a recipe asks for it."""
    from rlx.api.retrying import RetryingByRecipe
    from rlx.api.runs import where_they_are
    from rlx.runs import take_snapshots
    from rlx.runs.status.judged_snapshots import judged_snapshots

    retrying = RetryingByRecipe(index, tell)
    while refs:
        yield from _follow_all(index, refs, query, failures, tell)
        refs = where_they_are(index, refs)
        ends = {RunState.FAILED, RunState.LOST}
        broken = [ref for ref in refs if take_snapshots(index, [ref])[ref.run_id].state in ends]
        begun = retrying.run_once(judged_snapshots(index, broken)) if broken else frozenset()
        refs = [ref for ref in broken if ref.run_id in begun]


def _follow_all(
    index: Index, refs: Sequence[RunRef], query: LogQuery, failures: list[RlxError], tell: Tell
) -> Iterator[LogLine]:
    """One thread a run reads, this one passes the lines on, each of them whole."""
    from queue import Queue

    from rlx.api.rebalancing import Rebalancing

    came: Queue[_Came] = Queue(_LINES_AHEAD)
    tell_once = _once(tell)
    by_id = {ref.run_id: ref for ref in refs}
    for ref in refs:
        _in_background(_read_into, came, index, ref, query, tell_once)
    rebalancing, going = Rebalancing(index, tell), set(by_id)
    # Beside the reading: a host that does not answer must not hold up the lines of the others.
    check = lambda: _in_background(_check, came, index, [by_id[run_id] for run_id in going], rebalancing)  # noqa: E731
    arrivals = _arrivals(came, check)
    while going:
        ref, found = next(arrivals)
        # A line from the host that the run has left does not count.
        if ref != by_id[ref.run_id]:
            continue
        if isinstance(found, bytes):
            yield ref, found
        elif isinstance(found, _Moved):
            by_id[ref.run_id] = found.ref
            _in_background(_read_into, came, index, found.ref, query, tell_once)
        else:
            going.discard(ref.run_id)
            if isinstance(found, RlxError):
                failures.append(found)
            elif found is not None:
                raise found


def _arrivals(came: Queue[_Came], check: Callable[[], None]) -> Iterator[_Came]:
    """Yield what arrives; call `check` when nothing arrives for a while, and regularly otherwise."""
    from queue import Empty
    from time import monotonic

    quiet_s, due = _QUIET_SECONDS, monotonic() + _LONG_QUIET_SECONDS
    while True:
        try:
            one = came.get(timeout=quiet_s)
        except Empty:
            quiet_s, one = min(_LONG_QUIET_SECONDS, 2 * quiet_s), None
        if one is None or monotonic() > due:
            check()
            due = monotonic() + _LONG_QUIET_SECONDS
        if one is not None:
            quiet_s = _QUIET_SECONDS if isinstance(one[1], bytes) else quiet_s
            yield one


def _once(tell: Tell) -> Callable[[Place, str], None]:
    """Tell what several runs of a place say of it once, until one of them says something else."""
    from threading import Lock

    lock = Lock()
    last: dict[Place, str] = {}

    def tell_once(place: Place, text: str) -> None:
        with lock:
            before, last[place] = last.get(place), text
        if text != before:
            tell(text)

    return tell_once


def _in_background(work: Callable[..., None], *arguments: object) -> None:
    from threading import Thread

    Thread(target=work, args=arguments, daemon=True).start()


def _read_into(
    came: Queue[_Came], index: Index, ref: RunRef, query: LogQuery, tell: Callable[[Place, str], None]
) -> None:
    """Put the lines of one run into the queue, then None at the end, `_Moved` if it was moved, or the error."""
    from rlx.runs.logs import follow_log

    try:
        for line in follow_log(ref, query, lambda text: tell(ref.place, f"rlx: {text}")):
            came.put((ref, line))
    except RlxError as problem:
        came.put((ref, _moved_or(problem, index, ref)))
    except Exception as problem:  # noqa: BLE001 - is raised again in the thread that shows it
        came.put((ref, problem))
    else:
        came.put((ref, None))


def _moved_or(problem: RlxError, index: Index, ref: RunRef) -> _Moved | Exception:
    """Return where the run was moved to, which explains that its log is gone; else the problem."""
    try:
        moved = _where_it_went(index, ref)
    except Exception as other:  # noqa: BLE001 - is raised again in the thread that shows it
        return other
    return _Moved(moved) if moved else problem


def _where_it_went(index: Index, ref: RunRef) -> RunRef | None:
    """Return the run on the host that it was moved to before it had begun; None for one that was not moved."""
    from time import sleep

    from rlx.api.runs import where_they_are

    while True:
        (now,) = where_they_are(index, [ref])
        if now != ref:
            return now
        if not index.open_moves([ref.run_id]):
            return None
        sleep(_QUIET_SECONDS)


def _check(came: Queue[_Came], index: Index, refs: Sequence[RunRef], rebalancing: Rebalancing) -> None:
    """Put into the queue the runs that were moved, and the end of those whose logs have no end mark.

    The log of a lost run, and of a run that rlx did not start, has no end mark: following it would never stop.
    """
    from rlx.api.runs import where_they_are
    from rlx.runs.importing.log_source import is_adopted
    from rlx.runs.status.judged_snapshots import judged_snapshots

    moved = rebalancing.run_once(judged_snapshots(index, where_they_are(index, refs)))
    now = where_they_are(index, refs)
    for ref, there in zip(refs, now, strict=True):
        if there != ref:
            came.put((ref, _Moved(there)))
    stayed = [ref for ref, there in zip(refs, now, strict=True) if there == ref and ref.run_id not in moved]
    for row in judged_snapshots(index, stayed):
        if row.state is RunState.LOST or (row.state.is_terminal and is_adopted(row.ref)):
            came.put((row.ref, None))
