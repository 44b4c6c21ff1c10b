"""Compare the runs of some arms: judge them, bring them together, fetch their outputs per item where kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.compare import Comparison
    from rlx.evidence import ItemScores, JudgedRun
    from rlx.runs import Index, RunRef


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison with what it was made of. `items`: scores per item by step and run id."""

    comparison: Comparison
    runs: Sequence[JudgedRun]
    items: Mapping[int, Mapping[str, ItemScores]]


@dataclass(frozen=True, slots=True)
class Uncompared:
    """Runs that cannot be compared, and why."""

    runs: Sequence[JudgedRun]
    problem: str


def compare_refs(index: Index, refs: Sequence[Sequence[RunRef]], metric: str | None) -> Compared:
    """The comparison of these arms, control first. Raises what `compare` raises."""
    judged = judged_arms(index, refs)
    _say_swapped(judged)
    return compare_judged(index, refs, beside_control(index, judged), metric)


def _say_swapped(judged: Sequence[Sequence[JudgedRun]]) -> None:
    from rlx.cli.frame.output import narrate

    control, treatments = judged[0][0], [runs[0].arm for runs in judged[1:]]
    if control.plan.control != control.arm and control.plan.control in treatments:
        narrate(f"{control.arm} stands as the control here; by its recipe {control.plan.control} is")


def judged_arms(index: Index, refs: Sequence[Sequence[RunRef]]) -> list[list[JudgedRun]]:
    """The runs of each arm, judged each for itself; says on stderr of which the host could not be asked."""
    from rlx.cli.frame.output import narrate
    from rlx.runs.judging.judged import judge_runs

    judged = judge_runs(index, [*chain(*refs)])
    for run in judged:
        if run.as_of is not None:
            end = ", made after its end" if run.state.is_terminal else ""
            narrate(f"{run.run_id}: its host cannot be asked; from the copy of {moment(run.as_of)}{end}")
    runs = iter(judged)
    return [[next(runs) for _ in arm] for arm in refs]


def beside_control(index: Index, judged: Sequence[Sequence[JudgedRun]]) -> list[Sequence[JudgedRun]]:
    """The same arms, control first, the runs of treatments judged again beside the control run with their seed."""
    from rlx.compare import same_seed
    from rlx.runs.judging.judged import judge_beside

    control, *treatments = judged
    beside = ([judge_beside(index, same_seed(control, [run])[0], run) for run in arm] for arm in treatments)
    return [control, *beside]


def compare_judged(
    index: Index, refs: Sequence[Sequence[RunRef]], judged: Sequence[Sequence[JudgedRun]], metric: str | None
) -> Compared:
    """The comparison of judged arms, for which outputs per item are read, and fetched where they are remote."""
    from rlx.cli.frame.output import narrate
    from rlx.compare import checkpoints_to_pair, other_sources
    from rlx.compare import compare as compare_arms
    from rlx.runs import items_of

    control, *treatments = judged
    chosen, wanted = checkpoints_to_pair(control, treatments, metric)
    if others := other_sources(chain(*judged), chosen):
        narrate(f"{chosen} is of one data source; --metric names the others: {', '.join(others)}")
    items = {
        step: items_of(
            index,
            [ref for ref in chain(*refs) if ref.run_id in ids],
            step,
            chosen,
            lambda problem: narrate(f"not compared item by item: {problem}"),
        )
        for step, ids in wanted.items()
    }
    return Compared(compare_arms(control, treatments, chosen, items), [*chain(*judged)], items)


def moment(epoch: float) -> str:
    """A point in time for a person, in the time zone of this machine."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch))
