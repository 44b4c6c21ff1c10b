"""Choose the runs whose scores per item a comparison uses, so that only those are fetched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rlx.compare.align import finite
from rlx.compare.assemble import Runs
from rlx.compare.before_training import BEFORE
from rlx.compare.metric import choose_metric
from rlx.evidence import JudgedRun, series


def outputs_to_read(
    control: Runs, treatments: Sequence[Runs], metric: str | None = None
) -> tuple[str, Mapping[int, frozenset[str]]]:
    """The metric, and by step the ids of the runs whose outputs must bear the comparison out.

    The steps are those at which they are compared, and that before the training, where the arms must agree.

    Runs that get no test are not among them. Raises what `compare` raises.
    """
    chosen = choose_metric([run for runs in (control, *treatments) for run in runs], metric)
    wanted: dict[int, frozenset[str]] = defaultdict(frozenset)
    for treatment in treatments:
        runs = (*control, *treatment)
        if all(map(_may_be_tested, runs)):
            common = set.intersection(*(set(finite(series(run.evidence, chosen))) for run in runs))
            for step in {max(common)} | ({BEFORE} & common) if common else ():
                wanted[step] |= {run.run_id for run in runs}
    return chosen, wanted


def _may_be_tested(run: JudgedRun) -> bool:
    return run.state.is_terminal and run.verdict.is_result(ended=True)
