"""Name the runs and the related experiments that a comparison leaves out.

Excluding runs after seeing their results biases a comparison, and so does trying several experiments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from rlx.evidence.verdict import counted


class ExcludedBy(StrEnum):
    """The reason class: what excluded a run from the comparison."""

    COMMAND_LINE = "this command line"
    NEWEST_LAUNCH = "the rule that a name means its newest launch"
    ONE_LAUNCH = "the rule that all names mean runs of one launch"
    REGISTRATION = "the registration"
    REMOVAL = "its removal"


@dataclass(frozen=True, slots=True)
class ExcludedRun:
    """A run with the name of a compared experiment. `launched`: seconds since 1970; `state`: as last seen, "" if never.

    `why`: what `by` did, in words.
    """

    run_id: str
    name: str
    arm: str
    seed: int
    state: str
    launch_id: str
    launched: float
    by: ExcludedBy
    why: str

    @property
    def moment(self) -> str:
        """When it was launched, in UTC, for a comparison is read elsewhere."""
        import time

        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.launched))


def excluded_sentence(runs: Sequence[ExcludedRun]) -> str:
    """`3 runs of tiny-cpu are not in this comparison: …`; "" where none is."""
    if not runs:
        return ""
    names = " and ".join(sorted({run.name for run in runs}))
    count = f"{len(runs)} runs of {names} are" if len(runs) > 1 else f"1 run of {names} is"
    return f"{count} not in this comparison: excluding runs after seeing results biases the comparison"


def excluded_groups(runs: Sequence[ExcludedRun]) -> Iterator[str]:
    """One line for each launch, arm and reason: `aqn, seeds 1 (finished) and 3 (failed), launched …: why`."""

    def alike(run: ExcludedRun) -> tuple[str, str, str]:
        return run.launch_id, run.arm, run.why

    for _, group in groupby(sorted(runs, key=lambda run: (*alike(run), run.seed)), alike):
        found = [*group]
        seeds = ", ".join(f"{run.seed} ({run.state or 'never seen'})" for run in found)
        yield (
            f"{found[0].arm}, seed{'s' if len(found) > 1 else ''} {seeds}, launched {found[0].moment} as "
            f"{found[0].launch_id}: left out by {found[0].by}; {found[0].why}"
        )


@dataclass(frozen=True, slots=True)
class RelatedExperiment:
    """Runs of another name with the same model, the same data and a treatment of the same kind.

    `experiments`: the short digests of those that are registered. `launched`: the days of its launches, in UTC, the
    first and the last.
    """

    name: str
    runs: int
    arms: tuple[str, ...]
    experiments: tuple[str, ...]
    launched: tuple[str, str]


def related_experiments_lines(kind: str, others: Sequence[RelatedExperiment]) -> Iterator[str]:
    """Yield a heading, then a line each; nothing without any. `kind`: what the treatment changes."""
    if others:
        yield (
            f"{counted(len(others), 'other experiment')} with this model, this data and a treatment of {kind}: "
            "with more experiments, it is likelier that one shows a difference by chance"
        )
    for each in others:
        first, last = each.launched
        days = first if first == last else f"{first} to {last}"
        registered = f", registered as {' and '.join(each.experiments)}" if each.experiments else ""
        yield f"  {each.name}: {counted(each.runs, 'run')} of {', '.join(each.arms)}, launched {days}{registered}"
