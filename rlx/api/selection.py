"""Choose runs: by name, id or reference, else those of the latest launch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.runs import Index, RunRef

Run: TypeAlias = Union["RunRef", str]
"""A run as `launch` and `find_runs` return it, or its name: an arm, a run name, a run id, a launch id."""
Runs: TypeAlias = Run | Iterable[Run]


def open_index() -> Index:
    """Open the index of this user on this machine."""
    from rlx.api.home import rlx_home
    from rlx.runs import Index

    return Index(rlx_home())


def names_of(runs: Runs) -> list[str]:
    """Name each of these runs, or several joined by commas; a reference by its run id, which is unique for ever."""
    each = [runs] if isinstance(runs, str) or not isinstance(runs, Iterable) else runs
    return [name for run in each for name in (run.split(",") if isinstance(run, str) else [run.run_id])]


def host_names(hosts: str) -> list[str]:
    """Return the hosts that a text names, as in `a3,a4`, none twice."""
    return list(dict.fromkeys(name.strip() for name in hosts.split(",")))


def find_runs(runs: Runs | None = None) -> tuple[RunRef, ...]:
    """Find the runs that names mean, in that order, none twice; without names, those of the latest launch.

    A name is a run id, an arm (all its runs in the newest launch that has it), a run name such as `recipe-arm-s1`, a
    launch id, or the beginning of exactly one run id. Raises NoSuchRun with the candidates.
    """
    return runs_or_latest(open_index(), runs)


def runs_or_latest(index: Index, runs: Runs | None) -> tuple[RunRef, ...]:
    """Find these runs in an index that is open already; None means the latest launch. Raises NoSuchRun."""
    from rlx.runs import latest_launch, resolve

    if runs is None:
        return latest_launch(index)
    names = names_of(runs)
    return resolve(index, names) if names else ()


def where_they_are(index: Index, refs: Sequence[RunRef]) -> tuple[RunRef, ...]:
    """These runs as they are known now: one of a sweep may have been moved to another host."""
    known = {ref.run_id: ref for ref in index.known_runs()}
    return tuple(known.get(ref.run_id, ref) for ref in refs)


def one_run(index: Index, run: Run) -> RunRef:
    """Find the run that is meant. Raises NoSuchRun, or UsageError where a name means several."""
    found = runs_or_latest(index, run)
    if len(found) > 1:
        ids = ", ".join(ref.run_id for ref in found)
        raise UsageError(f"{names_of(run)[0]} means {len(found)} runs: {ids}", "name one of them")
    return found[0]


def arm_name(arm: Run | Sequence[Run]) -> str:
    """Name an arm as a person types it: several runs joined by commas are one arm."""
    return ",".join(names_of(arm))
