"""Read logs and judge them: line grammars, metric series, witnesses of noise, the verdict. Imports only `plan`.
and, when a log is read, the part `log` of each back-end in the registry.

    evidence = read_evidence([attempt_1, attempt_2])       # or read_log(path) for a log rlx never launched
    verdict = judge(evidence, plan.expectations, state, arm=plan.arm)

Log text is parsed here and nowhere else. Nothing here writes, prints, or asks a host.
"""

from rlx.evidence.charges.conflicting_records import conflicts, overlaps
from rlx.evidence.charges.gap_test import gap_metric
from rlx.evidence.charges.promised_noise import training_steps
from rlx.evidence.charges.trained_on import removed
from rlx.evidence.first_edition import with_settings_of
from rlx.evidence.judge import judge
from rlx.evidence.judged_run import JudgedRun
from rlx.evidence.metrics import core_metric, series
from rlx.evidence.read_expectations import with_configuration
from rlx.evidence.reading.backend_settings import seeds_of_config, settings_of, settings_of_config
from rlx.evidence.reading.console import needles
from rlx.evidence.reading.item_scores import ItemScores, ItemTexts, read_items, read_texts
from rlx.evidence.reading.other_nodes import with_nodes
from rlx.evidence.reading.read import read_evidence, read_log
from rlx.evidence.reading.scan import MAX_LINE_BYTES
from rlx.evidence.run_evidence import Announcement, Disagreement, Evidence, NoiseEvent, Progress, Restart, Totals
from rlx.evidence.unplanned import judge_unplanned
from rlx.evidence.verdict import Verdict, VerdictStatus

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
    "Totals",
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
]
