"""Find the arms that a person's words name: each name is one arm, with a run for each of its seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from rlx.errors import NoSuchRun, UsageError

if TYPE_CHECKING:
    from rlx.runs import Index, RunRef

    Arm = tuple[RunRef, ...]


def select_arms(index: Index, names: Sequence[str], seeds: Collection[int]) -> list[Arm]:
    """The runs of each name: those of the newest launch that has it, with one of `seeds` if any are given.

    A name is an arm, a run name or id, or several of them with commas, which then are one arm. Raises NoSuchRun and
    UsageError where a name means no run, several arms, or a run that another name means, too.
    """
    from rlx.runs.index.resolve import resolve

    arms = [_arm(resolve(index, name.split(",")), name, seeds) for name in names]
    chosen = list(chain.from_iterable(arms))
    for ref in chosen:
        if chosen.count(ref) > 1:
            raise UsageError(f"{ref.run_id} is named twice", "name runs that can differ")
    return arms


def selection_notes(names: Sequence[str], arms: Sequence[Arm]) -> Iterator[str]:
    """Say what a person should know about the runs taken: arms launched apart."""
    launches = [dict.fromkeys(ref.launch_id for ref in arm) for arm in arms]
    if len(set(chain.from_iterable(launches))) > 1:
        yield "launched apart: " + ", ".join(
            f"{name} in {' and '.join(ids)}" for name, ids in zip(names, launches, strict=True)
        )


def _arm(found: Sequence[RunRef], name: str, seeds: Collection[int]) -> Arm:
    fitting = tuple(sorted((ref for ref in found if not seeds or ref.seed in seeds), key=lambda ref: ref.seed))
    if missing := [str(seed) for seed in seeds if all(ref.seed != seed for ref in found)]:
        raise NoSuchRun(f"{name} has no run with seed {' or '.join(missing)}", f"there is: {_listed(found)}")
    if len({ref.arm for ref in fitting}) > 1:
        raise UsageError(f"{name} means runs of several arms: {_listed(fitting)}", "name one arm, or runs of one")
    return fitting


def _listed(refs: Sequence[RunRef], most: int = 8) -> str:
    more = f" and {len(refs) - most} more" if len(refs) > most else ""
    return ", ".join(ref.run_id for ref in refs[:most]) + more
