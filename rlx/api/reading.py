"""Read what a run or a log shows, and judge it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.selection import Run
    from rlx.evidence import Evidence, JudgedRun


def judge(run: Run) -> JudgedRun:
    """Hold what a run logged against what its plan promised; `.verdict` has status, sentence and findings.

    All that its host knows of it is fetched first. Raises NoSuchRun for an unknown run, UsageError where a name means
    several, HostError where the host cannot be asked and the run's end is not here.
    """
    from rlx.api.selection import one_run, open_index
    from rlx.runs.judging.judge_runs import judge_runs

    index = open_index()
    (judged,) = judge_runs(index, [one_run(index, run)])
    return judged


def read_log(path: str | Path, *, finished: bool = True) -> Evidence:
    """Read a console log that no run of rlx need know: metrics by step, noise, restarts, and the totals it names.

    `finished`: nothing writes to the file any more, so a last line without a line end counts. Raises RlxError where
    the file cannot be read.
    """
    from rlx.evidence import read_log as read

    return read(Path(path), finished=finished)
