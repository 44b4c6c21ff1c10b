"""Judge the runs of some arms and hold them against each other; fetch their outputs per item where kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.compare import Comparison
    from rlx.compare.left_out import LeftOut
    from rlx.compare.other_experiments import OtherExperiment
    from rlx.errors import ExitCode
    from rlx.evidence import ItemScores, JudgedRun
    from rlx.runs import Index, RunRef


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison with what it was made of. `items`: scores per item by step and run id.

    `notes`: what a person should know about which runs were taken, and from when.
    """

    comparison: Comparison
    runs: Sequence[JudgedRun]
    items: Mapping[int, Mapping[str, ItemScores]]
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say what may be said of each treatment against the control, in their order."""
        return tuple(sentence for contrast in self.comparison.contrasts for sentence in contrast.sentences)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Every run of the same experiment that is not compared, with who left it out and when it was launched."""
        return self.comparison.left_out

    @property
    def others(self) -> tuple[OtherExperiment, ...]:
        """The experiments of the like beside it."""
        return self.comparison.others

    @property
    def reportable(self) -> bool:
        """Tell whether the claim may be reported: all runs finished, all are valid, and they are comparable."""
        return self.comparison.reportable

    def outcome(self, *, allow_unverified: bool = False) -> ExitCode:
        """The exit code of `rlx compare`, with or without its option `--allow-unverified`."""
        return self.comparison.outcome(allow_unverified=allow_unverified)


@dataclass(frozen=True, slots=True)
class Uncompared:
    """Runs that cannot be compared, and why. `exit_code`: that of the problem."""

    runs: Sequence[JudgedRun]
    problem: str
    exit_code: ExitCode
    left_out: tuple[LeftOut, ...] = ()
    others: tuple[OtherExperiment, ...] = ()

    def outcome(self, *, allow_unverified: bool = False) -> ExitCode:
        """The exit code of `rlx report`: nothing can be reported, whatever is allowed."""
        return self.exit_code


def judged_arms(index: Index, refs: Sequence[Sequence[RunRef]], tell: Tell) -> list[list[JudgedRun]]:
    """Judge the runs of each arm, each for itself; tells of which the host could not be asked."""
    from rlx.runs.judging.judge_runs import judge_runs

    judged = judge_runs(index, [*chain(*refs)])
    for run in judged:
        if run.as_of is not None:
            end = ", made after its end" if run.state.is_terminal else ""
            tell(f"{run.run_id}: its host cannot be asked; from the copy of {moment(run.as_of)}{end}")
    runs = iter(judged)
    return [[next(runs) for _ in arm] for arm in refs]


def beside_control(index: Index, judged: Sequence[Sequence[JudgedRun]]) -> list[Sequence[JudgedRun]]:
    """Judge the runs of treatments again beside the control run with their seed; the same arms, control first."""
    from rlx.compare import same_seed
    from rlx.runs.judging.judge_runs import judge_beside

    control, *treatments = judged
    judged_again = iter(judge_beside(index, [(same_seed(control, [run])[0], run) for run in chain(*treatments)]))
    return [control, *([next(judged_again) for _ in arm] for arm in treatments)]


def compare_judged(
    index: Index,
    refs: Sequence[Sequence[RunRef]],
    judged: Sequence[Sequence[JudgedRun]],
    metric: str | None,
    tell: Tell,
    withheld: str = "",
    systems: bool = False,
) -> Compared:
    """Compare judged arms, for which outputs per item are read, and fetched where they are remote.

    `withheld`: why no test of them is shown yet. `systems`: compare whole systems.
    """
    from rlx.compare import compare as compare_arms
    from rlx.compare import other_sources, outputs_to_read
    from rlx.runs import items_of

    control, *treatments = judged
    chosen, wanted = outputs_to_read(control, treatments, metric)
    if others := other_sources(chain(*judged), chosen):
        tell(f"{chosen} is of one data source; --metric names the others: {', '.join(others)}")
    items = {
        step: items_of(
            index,
            [ref for ref in chain(*refs) if ref.run_id in ids],
            step,
            chosen,
            lambda problem: tell(f"not compared item by item: {problem}"),
        )
        for step, ids in wanted.items()
    }
    comparison = compare_arms(control, treatments, chosen, items, withheld, systems)
    # The outputs may have contradicted a run's log: what is shown of it must say so, too.
    verdicts = {run.run_id: run.verdict for run in comparison.runs}
    return Compared(comparison, [replace(run, verdict=verdicts[run.run_id]) for run in chain(*judged)], items)


def moment(epoch: float) -> str:
    """A point in time for a person, in the time zone of this machine."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch))
