"""Find what some run did not record of its evaluation: what is not known to be the same is not taken for the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rlx.compare.comparison_values import Pair
from rlx.compare.difference_areas import CHAT_TEMPLATE, HELD_OUT_DATA, MODEL_WEIGHTS, REWARD_CODE, VALIDATION_DATA
from rlx.compare.evaluation_conditions import Condition, Measure
from rlx.compare.run_differences import known_facts
from rlx.evidence import JudgedRun
from rlx.model import Finding, RunState, Severity
from rlx.model.post_metric import is_post

_BEFORE_RECORDING = (RunState.QUEUED, RunState.STARTING)


def unrecorded(runs: Sequence[JudgedRun], labels: Sequence[str], measure: Measure) -> dict[Condition, tuple[str, ...]]:
    """Condition -> the labels of the runs that recorded nothing to hold it against; without those all recorded.

    Empty where a run has no recipe, for then nothing is known (RLX718), where none recorded anything, or one has not
    begun to.
    """
    if not any("packages" in run.provenance for run in runs):
        return {}
    if any(not run.plan.recipe or run.state in _BEFORE_RECORDING for run in runs):
        return {}
    known = [_recorded(run, is_post(measure.metric)) for run in runs]
    lacking = {
        condition: tuple(label for label, each in zip(labels, known, strict=True) if not each[condition])
        for condition in known[0]
        if condition in measure.conditions
    }
    return {condition: names for condition, names in lacking.items() if names}


def unknown_evaluation(pair: Pair) -> Iterator[Finding]:
    """Warn of what only some of the runs recorded; where none did, nothing was lost between them: a note."""
    some = {condition: names for condition, names in pair.unrecorded.items() if len(names) < len(pair.runs)}
    for found, severity in ((some, Severity.WARNING), (pair.unrecorded.keys() - some.keys(), Severity.NOTE)):
        if found:
            words = "; ".join(
                _words(condition, some.get(condition, ())) for condition in Condition if condition in found
            )
            yield Finding(
                "RLX922",
                severity,
                f"not known to be the same in {pair.control.label} and {pair.treatment.label}: {words}",
                "launch both arms with this version of rlx, which records it when a run begins",
            )


def _words(condition: Condition, lacking: Sequence[str]) -> str:
    return f"{condition} (no record of it in {', '.join(lacking)})" if lacking else f"{condition} (nobody recorded it)"


def _recorded(run: JudgedRun, after_training: bool) -> Mapping[Condition, bool]:
    facts, reward = known_facts(run), run.plan.recipe.get("reward")
    brought = isinstance(reward, Mapping) and "path" in reward and not after_training
    return {
        Condition.ROWS: (HELD_OUT_DATA if after_training else VALIDATION_DATA) in facts,
        Condition.REWARD: not brought or REWARD_CODE in facts,
        Condition.TEMPLATE: CHAT_TEMPLATE in facts,
        Condition.WEIGHTS: any(name.startswith(MODEL_WEIGHTS) for name in facts),
    }
