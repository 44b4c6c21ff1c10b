"""Find the differences of two runs that are of their evaluation: with one of them, their values measure two things."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import TypeAlias

from rlx.backends.registry import packages, parts
from rlx.compare.config_diff import ConfigDifference
from rlx.compare.difference_areas import (
    CHAT_TEMPLATE,
    CONFIG,
    HELD_OUT_DATA,
    MODEL_WEIGHTS,
    REWARD_CODE,
    VALIDATION_DATA,
    Area,
)
from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import is_validation
from rlx.model.post_metric import is_post


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


Conditions: TypeAlias = "Mapping[Condition, tuple[str, ...]]"
"""Patterns of keys by the condition that they are of."""
Broken: TypeAlias = "Mapping[Condition, tuple[ConfigDifference, ...]]"

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
_GIVEN_BY_REWARD = (Role.SCORE, Role.REWARD, Role.HIGHEST_REWARD, Role.LOWEST_REWARD)


@dataclass(frozen=True, slots=True)
class Measure:
    """What is compared, and so which differences are of the measurement.

    `is_result`: a run names this metric as its result. `graded_apart`: `eval.post` has a reward of its own in all runs.
    `systems`: whole systems are compared, which may begin with other weights. `graded_alike`: the answers that they
    have in common show that their rewards grade alike.
    """

    metric: str
    is_result: bool = False
    graded_apart: bool = False
    systems: bool = False
    graded_alike: bool = False

    @property
    def conditions(self) -> frozenset[Condition]:
        """What must be alike: all of an evaluation; of a score in the training its reward; of anything else nothing."""
        if is_validation(self.metric) or self.is_result:
            waived = {Condition.WEIGHTS, *([Condition.REWARD] if self.graded_alike else [])} if self.systems else set()
            return frozenset(Condition) - waived
        scores = {name for role in _GIVEN_BY_REWARD for name in names_of(role)}
        return frozenset({Condition.REWARD} if self.metric in scores else ())

    def condition_of(self, item: ConfigDifference) -> Condition | None:
        """Name the condition that a difference breaks, declared or not; None where it is none of the evaluation."""
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
                (item.declared or self.systems) and item.area is not Area.INCIDENTAL and self._is_of_this(item.key)
            )
            return _DECLARED_PATHS[item.key] if is_other else None
        if own := _backend_key(item.key):
            table = _of_backends(tuple(packages().items()))
            return None if after else _match(table, own) or _match(table, item.key)
        if not after:
            return _match(_IN_TRAINING, item.key)
        return _match(_AFTER_TRAINING, item.key) or (None if self.graded_apart else _reward(item.key))

    def _is_of_this(self, path: str) -> bool:
        """Tell whether a path of the recipe is one that this metric is measured with."""
        if path == "model.path":
            return True
        if path == "reward.path":
            return not (is_post(self.metric) and self.graded_apart)
        return path.startswith("eval.post.") == is_post(self.metric)


def _reward(key: str) -> Condition | None:
    return Condition.REWARD if _match(_IN_TRAINING, key) is Condition.REWARD else None


def _backend_key(key: str) -> str:
    """The key of the training program in `overrides.KEY` or `config KEY`; "" for any other."""
    return next((key.removeprefix(start) for start in ("overrides.", f"{CONFIG} ") if key.startswith(start)), "")


@cache
def _of_backends(rows: tuple[tuple[str, str], ...]) -> Conditions:
    """The patterns for keys of training programs, of all back-ends together."""
    tables = [module.CONDITIONS for _, module in parts("differences")]
    return {each: tuple(name for table in tables for name in table.get(each, ())) for each in Condition}


def _match(table: Conditions, key: str) -> Condition | None:
    return next((each for each, patterns in table.items() if any(fnmatchcase(key, name) for name in patterns)), None)
