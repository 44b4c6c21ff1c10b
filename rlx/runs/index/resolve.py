"""Find runs by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

from rlx.errors import NoSuchRun
from rlx.model import LOCAL
from rlx.runs.index.run_index import Index
from rlx.runs.run import RunRef
from rlx.runs.status.observation import Observation
from rlx.runs.status.snapshots import take_snapshots

_MOST_CANDIDATES = 8


def latest_launch(index: Index) -> tuple[RunRef, ...]:
    """Return the runs of the newest launch, in the order of its recipe. Raises NoSuchRun if there is none.

    All launches of a script's name are one.
    """
    refs = some_runs(index)
    return together(refs, refs[0])


def together(refs: Sequence[RunRef], first: RunRef) -> tuple[RunRef, ...]:
    """Return those of these runs that belong with the first: of its launch, or of all launches of a script's name.

    Of those, the newest run of each arm and seed counts, and arms stand in the order in which they first came.
    """
    own = [ref for ref in refs if ref.group_id == first.group_id]
    if not first.group:
        return tuple(own)
    newest = {(ref.arm, ref.seed, ref.node): ref for ref in sorted(own, key=lambda ref: ref.created)}
    return tuple(newest.values())


def without_superseded(refs: Sequence[RunRef]) -> tuple[RunRef, ...]:
    """Leave out the runs of scripts of which there is a newer one with the same name, arm and seed."""
    newest: dict[tuple[str, str, int, int], RunRef] = {}
    for ref in sorted((ref for ref in refs if ref.group), key=lambda ref: ref.created):
        newest[ref.group, ref.arm, ref.seed, ref.node] = ref
    current = {ref.run_id for ref in newest.values()}
    return tuple(ref for ref in refs if not ref.group or ref.run_id in current)


def current_runs(index: Index) -> tuple[RunRef, ...]:
    """Return the current runs: those of the newest launch, and every run that has not ended. Empty without runs."""
    refs = candidates(index)
    return still_current(
        refs, {run_id: snapshot.observation for run_id, snapshot in take_snapshots(index, refs).items()}
    )


def candidates(index: Index) -> tuple[RunRef, ...]:
    """Return the runs that may be current: all but those of older launches that are known to have ended."""
    refs, ended = shown_runs(index), index.ended()
    newest = together(refs, refs[0]) if refs else ()
    return (*newest, *(ref for ref in refs if ref not in newest and ref.run_id not in ended))


def still_current(refs: Sequence[RunRef], seen: Mapping[str, Observation]) -> tuple[RunRef, ...]:
    """Return those of `candidates` that are current by these observations."""
    newest = together(refs, refs[0]) if refs else ()
    return tuple(ref for ref in refs if ref in newest or not seen[ref.run_id].state.is_terminal)


def resolve(index: Index, names: Sequence[str]) -> tuple[RunRef, ...]:
    """Return the runs that the names refer to, in that order, none twice.

    A name is a run id, an arm (all its runs in the newest launch that has it), a run name as in `recipe-arm-s1` (the
    newest of that name), a launch id, an experiment's own name (the newest launch of that name), or else a prefix of
    exactly one run id; of a run of several nodes also the id of a worker. Launches from this machine precede those that
    only a host reports, and a hidden run has only its id. Raises NoSuchRun with the candidates.
    """
    removed = removed_runs(index)
    refs = some_runs(index) if set(names) - removed.keys() else ()
    workers = [ref for ref in index.workers(refs) if ref.run_id in names]
    return meant_by(names, [*refs, *workers], removed)


def meant_by(
    names: Sequence[str], refs: Sequence[RunRef], removed: Mapping[str, RunRef] | None = None
) -> tuple[RunRef, ...]:
    """Resolve names among these runs, as the index has them; the `removed` ones by their ids only."""
    by_id = removed or {}
    chosen = {ref.run_id: ref for name in names for ref in ([by_id[name]] if name in by_id else _match(refs, name))}
    return tuple(chosen.values())


def shown_runs(index: Index) -> tuple[RunRef, ...]:
    """Return all runs but the hidden ones."""
    removed = index.hidden_runs()
    return tuple(ref for ref in index.runs() if ref.run_id not in removed)


def removed_runs(index: Index) -> Mapping[str, RunRef]:
    """Return the hidden runs by id."""
    removed = index.hidden_runs()
    return {ref.run_id: ref for ref in index.runs() if ref.run_id in removed} if removed else {}


def some_runs(index: Index) -> tuple[RunRef, ...]:
    """Return the runs that names may refer to, as in `named_runs`. Raises NoSuchRun if there is none."""
    refs = named_runs(index)
    if not refs and index.hidden_runs():
        raise NoSuchRun("every run was removed", "rlx status -a shows them; rlx rm --undo ID restores one")
    if not refs:
        raise NoSuchRun("no runs yet", "start one: rlx launch RECIPE")
    return refs


def named_runs(index: Index) -> tuple[RunRef, ...]:
    """Return the runs that names may refer to, newest launch first, launches from this machine before others.

    So a run that a host reports never takes the name of a run from here.
    """
    own = index.own_launches()
    return tuple(sorted(shown_runs(index), key=lambda ref: not (ref.host == LOCAL.host or ref.launch_id in own)))


_EXACT: Sequence[Callable[[RunRef], Collection[str]]] = (
    lambda ref: (ref.arm, ref.run_name),
    lambda ref: (ref.short_name,),
    lambda ref: (ref.name,),
)
"""The names of a run, by precedence: `arm-s1` may really be the name of an arm."""


def _match(refs: Sequence[RunRef], name: str) -> Sequence[RunRef]:
    """Prefer exact names to prefixes: a prefix may be the whole name of another run."""
    if exact := [ref for ref in refs if name in (ref.run_id, ref.launch_id)]:
        return exact
    if found := called(refs, name):
        return together(found, found[0])
    return _by_prefix(refs, name)


def called(refs: Sequence[RunRef], name: str) -> Sequence[RunRef]:
    """Return the runs of all launches with this name, of which `resolve` takes the newest; none for ids."""
    if any(name in (ref.run_id, ref.launch_id) for ref in refs):
        return ()
    found = ([ref for ref in refs if name in names(ref)] for names in _EXACT)
    return next((each for each in found if each), ())


def _by_prefix(refs: Sequence[RunRef], prefix: str) -> Sequence[RunRef]:
    found = [ref for ref in refs if prefix and ref.run_id.startswith(prefix)]
    if len(found) > 1:
        listed = ", ".join(ref.run_id for ref in found[:_MOST_CANDIDATES])
        more = f" and {len(found) - _MOST_CANDIDATES} more" if len(found) > _MOST_CANDIDATES else ""
        raise NoSuchRun(f"{prefix!r} is the beginning of {len(found)} runs", f"did you mean: {listed}{more}")
    if not found:
        raise NoSuchRun(f"no run is called {prefix!r}", _nearest(refs, prefix))
    return found


def _nearest(refs: Sequence[RunRef], name: str) -> str:
    labels = ((ref.arm, ref.short_name, ref.run_name, ref.name, ref.run_id) for ref in refs)
    known = list(dict.fromkeys(chain.from_iterable(labels)))
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean: {', '.join(close or known[:3])}"
