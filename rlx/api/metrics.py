"""Read the metrics that runs have logged, by step, with what may be believed of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.api.telling import unheard
from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.selection import Runs
    from rlx.api.telling import Tell
    from rlx.evidence import JudgedRun
    from rlx.runs import RunRef


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The chosen metrics of one run: name -> step -> value, steps ascending; NaN where the run logged NaN."""

    ref: RunRef
    judged: JudgedRun
    series: Mapping[str, Mapping[int, float]]

    @property
    def exclusion(self) -> str:
        """The word that excludes its numbers by the run's own evidence so far; "" where they may stand."""
        return self.judged.verdict.exclusion(ended=self.judged.state.is_terminal)

    @property
    def is_result(self) -> bool:
        """Tell whether its numbers may stand."""
        return not self.exclusion


def metrics(runs: Runs | None = None, names: Sequence[str] = (), *, tell: Tell = unheard) -> list[RunMetrics]:
    """Read the metrics of these runs by name; of the latest launch where no run is named, all metrics without names.

    A name is one with `*`, `?` or `[…]` as in a shell, or a part of one. `tell` hears of runs that cannot be asked now.
    Raises NoSuchRun, RlxError where no run has a metric of such a name, and the error of a host of which nothing is
    known yet.
    """
    from itertools import chain

    from rlx.api.judged_comparison import judged_arms
    from rlx.api.selection import open_index, runs_or_latest

    index = open_index()
    refs = runs_or_latest(index, runs)
    judged = chain.from_iterable(judged_arms(index, [refs], tell))
    found = [RunMetrics(ref, run, _series(run, names)) for ref, run in zip(refs, judged, strict=True)]
    if not any(each.series for each in found):
        raise _none_found([each.judged for each in found], names)
    return found


def _series(run: JudgedRun, names: Sequence[str]) -> dict[str, dict[int, float]]:
    from rlx.evidence import series
    from rlx.evidence.metrics import is_named, metric_names

    chosen = sorted(name for name in metric_names(run.evidence) if is_named(name, names))
    return {name: series(run.evidence, name) for name in chosen}


def _none_found(judged: Sequence[JudgedRun], names: Sequence[str]) -> RlxError:
    from difflib import get_close_matches

    from rlx.evidence.metrics import metric_names

    known = sorted({name for run in judged for name in metric_names(run.evidence)})
    if not known:
        return RlxError("no metric was logged yet", "rlx logs shows what was printed")
    near = list(dict.fromkeys(each for name in names for each in get_close_matches(name, known, n=2, cutoff=0.4)))
    hint = f"did you mean {', '.join(near)}? " if near else ""
    return RlxError(f"no metric is called {' or '.join(names)}", f"{hint}rlx metrics RUN lists all {len(known)}")
