"""Read the logs and records of a run, check them against its plan, and judge it.

    evidence = read_evidence([attempt_1, attempt_2])       # or read_log(path) for a log that rlx did not launch
    verdict = judge(evidence, plan.expectations, state, arm=plan.arm)

Log text is parsed in this package only, with the grammars in the part `log` of each back-end. Nothing in this package
writes, prints or queries a host.
"""

from rlx.evidence.checks.gap_test import gap_metric
from rlx.evidence.checks.noise_by_step import training_steps
from rlx.evidence.checks.record_conflicts import conflicts, overlaps
from rlx.evidence.checks.training_on_noise import removed
from rlx.evidence.judge import judge, judge_unplanned
from rlx.evidence.metrics import core_metric, series
from rlx.evidence.reading.console import needles
from rlx.evidence.reading.read import read_evidence, read_log, with_nodes
from rlx.evidence.reading.scan import MAX_LINE_BYTES
from rlx.evidence.reading.validation_outputs import ItemScores, ItemTexts, read_items, read_texts
from rlx.evidence.run_configuration import (
    seeds_of_config,
    settings_of,
    settings_of_config,
    with_configuration,
    with_settings_of,
    with_stated,
)
from rlx.evidence.run_evidence import Announcement, Disagreement, Evidence, NoiseEvent, Progress, Restart, RunTotals
from rlx.evidence.verdict import JudgedRun, Verdict, VerdictStatus

__all__ = [
    "MAX_LINE_BYTES",
    "Announcement",
    "Disagreement",
    "Evidence",
    "ItemScores",
    "ItemTexts",
    "JudgedRun",
    "NoiseEvent",
    "Progress",
    "Restart",
    "RunTotals",
    "Verdict",
    "VerdictStatus",
    "conflicts",
    "core_metric",
    "gap_metric",
    "judge",
    "judge_unplanned",
    "needles",
    "overlaps",
    "read_evidence",
    "read_items",
    "read_log",
    "read_texts",
    "removed",
    "seeds_of_config",
    "series",
    "settings_of",
    "settings_of_config",
    "training_steps",
    "with_configuration",
    "with_nodes",
    "with_settings_of",
    "with_stated",
]
