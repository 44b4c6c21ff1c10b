"""Find answers that both arms gave alike and that were graded differently: the arms do not share one reward."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlx.compare.compared_arms import ComparedRun
from rlx.compare.comparison_values import Pair
from rlx.compare.matching import Items
from rlx.evidence import ItemScores
from rlx.model import Finding, Severity

# A reward model that runs in bfloat16 repeats itself to two or three digits.
_ALIKE = 0.02
_FEW, _FEW_SHARE = 2, 0.01
_ENOUGH = 30
"""Answers in common that show that two rewards grade alike."""


@dataclass(frozen=True, slots=True)
class _Graded:
    """One answer as an arm graded it: the scores it got, in which run and at which step first, and its prompt."""

    scores: frozenset[float]
    label: str
    step: int
    prompt: str


def graded_otherwise(pair: Pair, items: Mapping[int, Items]) -> Iterator[Finding]:
    """Object to equal answers with unequal scores. One or two in hundreds are a judge that hesitates: a warning.

    An answer that one arm itself graded in both ways accuses nobody.
    """
    control, treatment = (_graded(arm.runs, items) for arm in pair.arms)
    shared = control.keys() & treatment.keys()
    unlike = [key for key in sorted(shared) if not _agree(control[key].scores, treatment[key].scores)]
    if not unlike:
        return
    few = len(unlike) <= _FEW or len(unlike) < _FEW_SHARE * len(shared)
    yield Finding(
        "RLX921",
        Severity.WARNING if few else Severity.ERROR,
        f"{len(unlike)} of {len(shared)} answers that {pair.control.label} and {pair.treatment.label} have in common "
        f"were graded differently: {_example(control[unlike[0]], treatment[unlike[0]])}",
        "one reward for both arms: did its file, its packages or its judge change between the runs?",
    )


def graded_alike(pair: Pair, items: Mapping[int, Items]) -> bool:
    """Tell whether right and wrong answers that both arms gave show that they are graded by one rule, however named."""
    control, treatment = (_graded(arm.runs, items) for arm in pair.arms)
    shared = control.keys() & treatment.keys()
    scores = {score for key in shared for score in control[key].scores}
    alike = all(_agree(control[key].scores, treatment[key].scores) for key in shared)
    return len(shared) >= _ENOUGH and len(scores) > 1 and alike


def _graded(runs: Sequence[ComparedRun], items: Mapping[int, Items]) -> dict[tuple[str, str], _Graded]:
    """(item, digest of the answer) -> how this arm graded it, over all validations whose outputs are here."""
    found: dict[tuple[str, str], _Graded] = {}
    for step, kept in sorted(items.items()):
        for run in runs:
            for key, scores in _scores(kept[run.run_id]).items() if run.run_id in kept else ():
                before = found.get(key)
                if before is None:
                    found[key] = _Graded(frozenset(scores), run.label, step, kept[run.run_id].prompt(key[0]))
                else:
                    found[key] = _Graded(before.scores | scores, before.label, before.step, before.prompt)
    return found


def _scores(kept: ItemScores) -> Mapping[tuple[str, str], set[float]]:
    found: dict[tuple[str, str], set[float]] = defaultdict(set)
    for item, answers in kept.answers.items():
        for answer, score in zip(answers, kept.scores[item], strict=True):
            found[item, answer].add(score)
    return found


def _agree(control: frozenset[float], treatment: frozenset[float]) -> bool:
    return any(math.isclose(a, b, rel_tol=_ALIKE, abs_tol=_ALIKE) for a in control for b in treatment)


def _example(control: _Graded, treatment: _Graded) -> str:
    """`to "3+4=?" one answer got 1 in baseline (step 20) and 0 in aqn (step 20)`."""
    told = [f"{min(each.scores):g} in {each.label} (step {each.step})" for each in (control, treatment)]
    prompt = f'to "{control.prompt}" ' if control.prompt else ""
    return f"{prompt}the same answer got {' and '.join(told)}"
