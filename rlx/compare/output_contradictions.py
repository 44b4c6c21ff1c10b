"""Hold the values that are compared to the outputs that the runs kept of that validation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from rlx.compare.compared_arms import ComparedArm, ComparedRun
from rlx.compare.item_counts import printed_decimals
from rlx.compare.matching import Items, belongs
from rlx.evidence import ItemScores, Verdict, VerdictStatus
from rlx.model import Finding, Severity

# verl 0.4 and older print three decimals, later ones all.
_FEWEST_DECIMALS = 3
_SLACK = 1e-6


def held_to_outputs(arm: ComparedArm, items: Mapping[int, Items], data_sources: int) -> ComparedArm:
    """The arm, where a run's verdict says so if its kept outputs contradict a value of its log (RLX713)."""
    return replace(arm, runs=tuple(_held(run, items, data_sources) for run in arm.runs))


def _held(run: ComparedRun, items: Mapping[int, Items], data_sources: int) -> ComparedRun:
    kept = (at_step[run.run_id] for at_step in items.values() if run.run_id in at_step)
    odd = [_finding(scores, run) for scores in kept if belongs(scores, data_sources) and not _fits(scores, run)]
    return replace(run, verdict=_contradicted(run.verdict, odd[0])) if odd else run


def _fits(scores: ItemScores, run: ComparedRun) -> bool:
    """Tell whether the scores are of that step, and the logged value is their mean, up to how it was printed.

    Without a value they fit anything.
    """
    if scores.told_step is not None:
        return False
    logged = run.series.get(scores.step)
    if logged is None:
        return True
    decimals = max(_FEWEST_DECIMALS, printed_decimals(run.series.values()))
    return math.isclose(scores.mean, logged, rel_tol=_SLACK, abs_tol=max(_SLACK, 0.501 * 10.0**-decimals))


def _finding(scores: ItemScores, run: ComparedRun) -> Finding:
    if scores.told_step is not None:
        words = f"are none of it: their lines say step {scores.told_step}"
    else:
        words = (
            f"contradict the log: their {scores.rows} items have the mean {scores.mean:.6g}, the log says "
            f"{run.series[scores.step]:.6g}"
        )
    return Finding(
        "RLX713",
        Severity.ERROR,
        f"the outputs kept of step {scores.step} {words}",
        "did answers get lost, or were the outputs or the log written by another run?",
        step=scores.step,
    )


def _contradicted(verdict: Verdict, finding: Finding) -> Verdict:
    findings = (finding, *verdict.findings)
    if verdict.status not in (VerdictStatus.VALID, VerdictStatus.UNVERIFIED):
        return replace(verdict, findings=findings, dissent=True)
    sentence = f"{VerdictStatus.UNVERIFIED}: {finding.message} ({finding.id})"
    return replace(verdict, status=VerdictStatus.UNVERIFIED, findings=findings, sentence=sentence, dissent=True)
