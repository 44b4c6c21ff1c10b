"""Two lines: `toy step 1 of 3: loss=0.8`, and `toy score after 3: 0.5`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlx.evidence.log_grammar import LineForm, LineSays, LogGrammar, Role, StepMetrics
from rlx.evidence.run_evidence import Progress

_STEP = re.compile(r"toy step (\d+) of (\d+): loss=([\d.]+)")
_SCORE = re.compile(r"toy score after (\d+): ([\d.]+)")


def _read_step(line: str) -> Iterator[LineSays]:
    if match := _STEP.search(line):
        yield Progress(int(match[1]), int(match[2]))
        yield StepMetrics(int(match[1]), {"toy/loss": float(match[3])})


def _read_score(line: str) -> Iterator[LineSays]:
    if match := _SCORE.search(line):
        yield StepMetrics(int(match[1]), {"toy-score/sums/acc/mean@1": float(match[2])})


GRAMMAR = LogGrammar(
    title="Toy",
    rules="toy 1",
    lines=(LineForm((b"toy step ",), _read_step), LineForm((b"toy score after ",), _read_score)),
    core=("toy-score/",),
    validation=("toy-score/",),
    metrics={Role.POLICY_LOSS: ("toy/loss",)},
)
