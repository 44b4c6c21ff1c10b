"""Name the experiments beside a comparison that ask the like: who tries several finds something in one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlx.evidence.verdict import counted


@dataclass(frozen=True, slots=True)
class OtherExperiment:
    """Runs of another name with the same model, the same data and a treatment of the same kind.

    `experiments`: the short digests of those that are registered. `launched`: the days of its launches, in UTC, the
    first and the last.
    """

    name: str
    runs: int
    arms: tuple[str, ...]
    experiments: tuple[str, ...]
    launched: tuple[str, str]


def other_experiments_lines(kind: str, others: Sequence[OtherExperiment]) -> Iterator[str]:
    """A heading, then a line each; nothing without any. `kind`: what the treatment changes."""
    if others:
        yield (
            f"{counted(len(others), 'other experiment')} with this model, this data and a treatment of {kind}: who "
            "tries several finds something in one of them"
        )
    for each in others:
        first, last = each.launched
        days = first if first == last else f"{first} to {last}"
        registered = f", registered as {' and '.join(each.experiments)}" if each.experiments else ""
        yield f"  {each.name}: {counted(each.runs, 'run')} of {', '.join(each.arms)}, launched {days}{registered}"
