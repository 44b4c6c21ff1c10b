"""Its log: `round 3 of 10 | reward=0.5 | seconds=2.0`, and `held out after round 3 | …` of a validation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlx.evidence.log_grammar import KnownHangs, LineForm, LineSays, LogGrammar, Role, StepMetrics, TotalSteps

_ROUND = re.compile(r"^(?:round|held out after round) (\d{1,9}) of (\d{1,9}) \| (.*)$")


def _read_round(line: str) -> Iterator[LineSays]:
    if match := _ROUND.search(line):
        pairs = (pair.partition("=") for pair in match[3].split(" | "))
        yield TotalSteps(int(match[2]))
        yield StepMetrics(int(match[1]), {name: float(value) for name, _, value in pairs})


GRAMMAR = LogGrammar(
    title="Toy",
    rules="toy 1",
    lines=(LineForm((b"round ",), _read_round),),
    core=("heldout/",),
    validation=("heldout/",),
    metrics={
        Role.STEP_SECONDS: ("seconds",),
        Role.TOKENS: ("tokens",),
        Role.SCORE: ("reward",),
        Role.PROBABILITY_GAP: ("drift",),
    },
    hangs=KnownHangs(near_end="Toy is known to count its last round twice"),
)
