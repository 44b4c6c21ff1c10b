"""Check how samples are drawn: what leaves a group nothing to compare, and filters that do not run."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.batch import SAMPLES
from rlx.backends.verl.rules.facts import ROLLOUT, VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

COLD = 0.2
_TEMPERATURE = f"{ROLLOUT}.temperature"
_FILTER = "algorithm.filter_groups"


@rule("RLX116")
def greedy_training(facts: VerlFacts) -> Iterator[Flaw]:
    value = facts.setting(_TEMPERATURE)
    if isinstance(value, int | float) and value <= 0:
        message = f"{facts.named(_TEMPERATURE)}: the samples of a prompt are all the same"
        yield error(message, "rollout.temperature 1.0", facts.source(_TEMPERATURE))


@rule("RLX120")
def cold_sampling(facts: VerlFacts) -> Iterator[Flaw]:
    value, top_k = facts.setting(_TEMPERATURE), facts.whole(f"{ROLLOUT}.top_k")
    grouped = facts.setting("algorithm.adv_estimator") in ("grpo", "rloo") and (facts.count(SAMPLES) or 1) > 1
    if grouped and isinstance(value, int | float) and 0 < value <= COLD:
        message = f"{facts.named(_TEMPERATURE)}: the {facts.whole(SAMPLES)} answers to a prompt hardly differ"
        yield warning(message, "rollout.temperature 1.0", facts.source(_TEMPERATURE))
    if grouped and top_k == 1:
        message = f"{facts.named(f'{ROLLOUT}.top_k')}: the {facts.whole(SAMPLES)} answers to a prompt are all the same"
        yield warning(message, "rollout.top_k -1", facts.source(f"{ROLLOUT}.top_k"))


@rule("RLX121")
def filter_metric(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{_FILTER}.metric"
    asked = facts.is_dapo_recipe or facts.uses_v1
    if facts.filters_groups and asked and not facts.setting(key):
        metric = "acc" if facts.is_dapo_recipe else "reward"
        yield error(
            f"{facts.named(key)} with {facts.source(f'{_FILTER}.enable')}", f"{key}: {metric}", facts.source(key)
        )


@rule("RLX122")
def ignored_filter(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.filters_groups and not facts.uses_v1 and facts.starts_main_ppo:
        key = facts.source(f"{_FILTER}.enable")
        message = f"{key}: the trainer of verl {facts.settings.version} does not filter"
        yield warning(message, "backend.trainer dapo, or verl 0.9 with trainer.use_v1", key)
