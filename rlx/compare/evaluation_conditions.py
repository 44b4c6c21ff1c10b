"""Find the differences of two runs that are of their evaluation: with one of them, their values measure two things."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import TypeAlias

from rlx.backends.registry import packages, parts
from rlx.compare.difference_areas import (
    CHAT_TEMPLATE,
    CONFIG,
    HELD_OUT_DATA,
    MODEL_WEIGHTS,
    REWARD_CODE,
    VALIDATION_DATA,
    ConfigDifference,
    DifferenceArea,
)
from rlx.compare.run_differences import known_facts
from rlx.evidence import JudgedRun
from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import is_validation
from rlx.model import RunState
from rlx.model.post_metric import is_post

_BEFORE_RECORDING = (RunState.QUEUED, RunState.STARTING)
Conditions: TypeAlias = "Mapping[Condition, tuple[str, ...]]"
"""Patterns of keys by the condition that they are of."""
Broken: TypeAlias = "Mapping[Condition, tuple[ConfigDifference, ...]]"
_OF_PROGRAM = ("overrides.", f"{CONFIG} ")
_GIVEN_BY_REWARD = (Role.SCORE, Role.REWARD, Role.HIGHEST_REWARD, Role.LOWEST_REWARD)


class Condition(StrEnum):
    """What two evaluations must have in common. The first that differs is said first; its value names it."""

    ROWS = "the validation data"
    REWARD = "the reward that grades the answers"
    SAMPLING = "the sampling of the answers"
    NOISE = "noise in the validation"
    LENGTH = "the longest prompt or answer"
    PROMPT = "the key of the prompts"
    TEMPLATE = "the chat template"
    PRECISION = "the precision of the weights that generate"
    WEIGHTS = "the weights that the training began with"

    @property
    def rank(self) -> int:
        return list(Condition).index(self)


_COMMON: Conditions = {
    Condition.LENGTH: ("data.max_prompt_tokens", "data.max_response_tokens"),
    Condition.PROMPT: ("data.prompt_key",),
    Condition.TEMPLATE: (CHAT_TEMPLATE,),
    Condition.PRECISION: ("model.dtype",),
    Condition.WEIGHTS: (f"{MODEL_WEIGHTS}*",),
}
_IN_TRAINING: Conditions = {
    Condition.ROWS: (VALIDATION_DATA,),
    Condition.REWARD: ("reward", "reward.*", REWARD_CODE),
    Condition.SAMPLING: ("eval.n", "eval.temperature"),
    Condition.NOISE: ("eval.noise",),
    **_COMMON,
}
_AFTER_TRAINING: Conditions = {
    Condition.ROWS: (HELD_OUT_DATA, "eval.post"),
    Condition.REWARD: ("eval.post.reward", "eval.post.reward.*", f"{REWARD_CODE} of eval.post"),
    Condition.SAMPLING: ("eval.post.n", "eval.post.temperature", "eval.post.engine"),
    **_COMMON,
}
# Two paths may lead to the same bytes. Where nothing shows that, an arm that declares another path means other ones.
_DECLARED_PATHS = {
    "data.val": Condition.ROWS,
    "eval.post.rows": Condition.ROWS,
    "model.path": Condition.WEIGHTS,
    "reward.path": Condition.REWARD,
    "eval.post.reward.path": Condition.REWARD,
}


@dataclass(frozen=True, slots=True)
class Measure:
    """What is compared, and so which differences are of the measurement.

    `is_result`: a run names this metric as its result. `graded_apart`: `eval.post` has a reward of its own in all runs.
    `systems`: whole systems are compared, which may begin with other weights. `graded_alike`: their rewards gave equal
    scores to all answers that they have in common.
    """

    metric: str
    is_result: bool = False
    graded_apart: bool = False
    systems: bool = False
    graded_alike: bool = False

    @property
    def conditions(self) -> frozenset[Condition]:
        """Conditions that must be alike: all for a validation metric, the reward for a training score, else none."""
        if is_validation(self.metric) or self.is_result:
            waived = {Condition.WEIGHTS, *([Condition.REWARD] if self.graded_alike else [])} if self.systems else set()
            return frozenset(Condition) - waived
        scores = {name for role in _GIVEN_BY_REWARD for name in names_of(role)}
        return frozenset({Condition.REWARD} if self.metric in scores else ())

    def condition_of(self, item: ConfigDifference) -> Condition | None:
        """Name the condition that a difference breaks, declared or not; None where it is not about the evaluation."""
        found = self._condition_of(item)
        return found if found in self.conditions else None

    def broken(self, differences: Iterable[ConfigDifference]) -> Broken:
        """Sort the differences that are of the evaluation by condition, in the order in which they are said."""
        found: dict[Condition, tuple[ConfigDifference, ...]] = {}
        for item in differences:
            if condition := self.condition_of(item):
                found[condition] = (*found.get(condition, ()), item)
        return dict(sorted(found.items(), key=lambda each: each[0].rank))

    def _condition_of(self, item: ConfigDifference) -> Condition | None:
        after = is_post(self.metric)
        if item.key in _DECLARED_PATHS:
            is_other = (
                (item.declared or self.systems)
                and item.area is not DifferenceArea.INCIDENTAL
                and self._is_of_this(item.key)
            )
            return _DECLARED_PATHS[item.key] if is_other else None
        # A key of the training program stands in `overrides.KEY` or `config KEY`.
        own = next((item.key.removeprefix(start) for start in _OF_PROGRAM if item.key.startswith(start)), "")
        if own:
            table = _of_backends(tuple(packages().items()))
            return None if after else _match(table, own) or _match(table, item.key)
        if not after:
            return _match(_IN_TRAINING, item.key)
        found = _match(_AFTER_TRAINING, item.key)
        is_reward = not self.graded_apart and _match(_IN_TRAINING, item.key) is Condition.REWARD
        return found or (Condition.REWARD if is_reward else None)

    def _is_of_this(self, path: str) -> bool:
        """Tell whether a path of the recipe is one that this metric is measured with."""
        if path == "model.path":
            return True
        if path == "reward.path":
            return not (is_post(self.metric) and self.graded_apart)
        return path.startswith("eval.post.") == is_post(self.metric)


@cache
def _of_backends(rows: tuple[tuple[str, str], ...]) -> Conditions:
    """Return the patterns for keys of training programs, of all back-ends. `rows` is only the key of the cache."""
    tables = [module.CONDITIONS for _, module in parts("differences")]
    return {each: tuple(name for table in tables for name in table.get(each, ())) for each in Condition}


def _match(table: Conditions, key: str) -> Condition | None:
    return next((each for each, patterns in table.items() if any(fnmatchcase(key, name) for name in patterns)), None)


def unrecorded(runs: Sequence[JudgedRun], labels: Sequence[str], measure: Measure) -> dict[Condition, tuple[str, ...]]:
    """Condition -> the labels of the runs that did not record it; conditions that all runs recorded are left out.

    What is not known to be the same does not count as the same. Empty where a run has no recipe, for then nothing is
    known (RLX718), where none recorded anything, or one has not begun to.
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


def _recorded(run: JudgedRun, after_training: bool) -> Mapping[Condition, bool]:
    facts, reward = known_facts(run), run.plan.recipe.get("reward")
    brought = isinstance(reward, Mapping) and "path" in reward and not after_training
    return {
        Condition.ROWS: (HELD_OUT_DATA if after_training else VALIDATION_DATA) in facts,
        Condition.REWARD: not brought or REWARD_CODE in facts,
        Condition.TEMPLATE: CHAT_TEMPLATE in facts,
        Condition.WEIGHTS: any(name.startswith(MODEL_WEIGHTS) for name in facts),
    }
