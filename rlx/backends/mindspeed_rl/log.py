"""MindSpeed-RL's log, as its source has it: no real log was seen yet.

Source: mindspeed_rl/utils/loggers.py (`iteration: {i} / {n} | key : value | …`); its iteration lines name `timing/all`
and `e2e_tps`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlx.evidence.log_grammar import KnownHangs, LineForm, LineSays, LogGrammar, Role, StepMetrics, read_pairs
from rlx.evidence.run_evidence import Progress
from rlx.evidence.traces import RECORDED
from rlx.yaml_reader.hydra import REMOVED, bare_leaves

_ITERATION_HEAD = re.compile(r"iteration:\s+(\d{1,12})\s*/\s*(\d{1,12})\s*\|\s")


def _read_iteration(line: str) -> Iterator[LineSays]:
    if match := _ITERATION_HEAD.search(line):
        step, total = int(match[1]), int(match[2])
        yield Progress(step, total)
        yield StepMetrics(step, read_pairs(line[match.end() :], " | "))


def _planned(command: Sequence[str], recipe: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the recipe's overrides, which rlx writes into the file that Hydra composes, without removed keys."""
    for key, value in bare_leaves(recipe.get("overrides") or {}).items():
        if value is not REMOVED:
            yield key.replace("-", "_"), value


GRAMMAR = LogGrammar(
    title="MindSpeed-RL",
    rules="mindspeed-rl 1",
    lines=(LineForm((b"iteration: ",), _read_iteration),),
    unproven="metrics from iteration lines of MindSpeed-RL, a grammar read from its source: no real log was seen yet",
    unproven_grep="iteration:",
    metrics={
        Role.STEP_SECONDS: ("timing/all",),
        Role.TOKENS_A_SECOND: ("e2e_tps",),
        Role.SCORE: ("grpo/score/mean",),
        Role.HIGHEST_REWARD: ("grpo/score/max",),
        Role.LOWEST_REWARD: ("grpo/score/min",),
        Role.GRAD_NORM: ("grad_norm",),
    },
    seed_keys=("megatron_training.seed",),
    hangs=KnownHangs(
        at_start="MindSpeed-RL does with fewer than 8 CPUs for each NPU (ray.get(pg.ready())): lower "
        "num_cpus_for_placement_group"
    ),
    planned_settings=_planned,
    # No real log has shown yet how its other metrics read.
    traces=RECORDED,
)
