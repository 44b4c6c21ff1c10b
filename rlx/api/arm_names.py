"""Find the arms that a person's words name: each name is one arm, with a run for each of its seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from rlx.errors import NoSuchRun, UsageError

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.runs import Index, RunRef

    Arm = tuple[RunRef, ...]


def select_arms(index: Index, names: Sequence[str], seeds: Collection[int], tell: Tell) -> list[Arm]:
    """The runs of each name, with one of `seeds` if any are given; tells from which launch they are.

    A name is an arm, a run name or id, or several of them with commas, which then are one arm. Names that are no ids
    mean runs of one launch (`from_one_group`). Raises NoSuchRun and UsageError where a name means no run, several arms,
    a run that another name means, too, or runs of several launches between which nothing decides.
    """
    from rlx.api.arm_groups import from_one_group
    from rlx.runs.index.resolve import resolve

    found = [resolve(index, name.split(",")) for name in names]
    arms = [_arm(*each, seeds) for each in zip(from_one_group(index, names, found, seeds, tell), names, strict=True)]
    for note in _notes(names, arms):
        tell(note)
    chosen = list(chain.from_iterable(arms))
    for ref in chosen:
        if chosen.count(ref) > 1:
            raise UsageError(f"{ref.run_id} is named twice", "name runs that can differ")
    return arms


def _notes(names: Sequence[str], arms: Sequence[Arm]) -> Iterator[str]:
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
