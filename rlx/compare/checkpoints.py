"""Choose the runs whose scores per item a comparison could use, so that only those are fetched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rlx.compare.align import finite
from rlx.compare.assemble import Runs
from rlx.compare.compared_arms import same_seed
from rlx.compare.metric import choose_metric
from rlx.evidence import JudgedRun, VerdictStatus, series


def checkpoints_to_pair(
    control: Runs, treatments: Sequence[Runs], metric: str | None = None
) -> tuple[str, Mapping[int, frozenset[str]]]:
    """The metric, and the ids of the runs by the step at which they are compared as two checkpoints.

    Arms of several seeds each, and runs that get no test, are not among them. Raises what `compare` raises.
    """
    chosen = choose_metric([run for runs in (control, *treatments) for run in runs], metric)
    wanted: dict[int, frozenset[str]] = defaultdict(frozenset)
    for treatment in treatments:
        runs = (*control, *treatment)
        if min(len(control), len(treatment)) == 1 and all(map(_may_be_tested, runs)):
            common = set.intersection(*(set(finite(series(run.evidence, chosen))) for run in runs))
            if common:
                wanted[max(common)] |= {run.run_id for run in same_seed(control, treatment)}
    return chosen, wanted


def _may_be_tested(run: JudgedRun) -> bool:
    return run.state.is_terminal and run.verdict.status not in (VerdictStatus.INVALID, VerdictStatus.INCOMPLETE)
