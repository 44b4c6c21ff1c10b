"""The log of a run of TRL, as the payload's program writes it: TRL's own lines name no step.

Sources: payload/rlx_trl_records.py for the lines; trl 1.16.0, trainer/grpo_trainer.py, for the names of metrics, which
are TRL's own but for `rollout/*` and those of validations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlx.backends.trl.setting_traces import TRACES, modes, planned_settings
from rlx.evidence.log_grammar import (
    DataRows,
    LineForm,
    LineSays,
    LogGrammar,
    Resumed,
    Role,
    StepMetrics,
    TotalSteps,
)
from rlx.evidence.reading.pairs import read_pairs
from rlx.evidence.run_evidence import Progress

_STEP = re.compile(r"rlx: TRL step (\d{1,12}) of (\d{1,12}) \| ")
_TOTAL = re.compile(r"rlx: TRL trains (\d{1,12}) steps")
_ROWS = re.compile(r"rlx: TRL reads (\d{1,12}) rows to train on, (\d{1,12}) to validate on")
_RESUMED = re.compile(r"rlx: TRL goes on from the checkpoint of step (\d{1,12})")


def _read_line(line: str) -> Iterator[LineSays]:
    """A step, or what the program says before the first one."""
    if match := _STEP.search(line):
        step, total = int(match[1]), int(match[2])
        yield Progress(step, total)
        if values := read_pairs(line[match.end() :], " | "):
            yield StepMetrics(step, values)
    elif match := _TOTAL.search(line):
        yield TotalSteps(int(match[1]))
    elif match := _ROWS.search(line):
        yield DataRows(int(match[1]), int(match[2]))
    elif match := _RESUMED.search(line):
        yield Resumed(int(match[1]))


GRAMMAR = LogGrammar(
    title="TRL",
    rules="trl 1",
    lines=(LineForm((b"rlx: TRL ",), _read_line),),
    core=("val-core/",),
    validation=("val-core/", "val-aux/"),
    metrics={
        Role.STEP_SECONDS: ("step_time",),
        Role.VALIDATION_SECONDS: ("eval_runtime",),
        Role.SCORE: ("reward",),
        Role.REWARD: ("reward",),
        Role.ENTROPY: ("entropy",),
        Role.RESPONSE_LENGTH: ("completions/mean_length",),
        Role.CLIP_RATIO: ("completions/clipped_ratio",),
        Role.GRAD_NORM: ("grad_norm",),
        Role.LEARNING_RATE: ("learning_rate",),
        Role.POLICY_LOSS: ("loss",),
        Role.PROBABILITY_GAP: ("rollout/probs_diff_mean",),
        Role.REFERENCE_KL: ("kl",),
        Role.ZERO_ADVANTAGE_GROUPS: ("frac_reward_zero_std",),
    },
    planned_settings=planned_settings,
    modes=modes,
    traces=TRACES,
)
