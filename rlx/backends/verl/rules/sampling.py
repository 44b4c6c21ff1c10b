"""Check how samples are drawn: what leaves a group nothing to compare, and filters that do not run."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.batch import SAMPLES
from rlx.backends.verl.rules.facts import ROLLOUT, VerlFacts
from rlx.preflight.rules.rule_table import Flaw, error, rule, warning

COLD = 0.2
_TEMPERATURE = f"{ROLLOUT}.temperature"
_FILTER = "algorithm.filter_groups"


@rule(
    "RLX116",
    title="a temperature of 0 in training",
    why="all samples of a prompt are the same, so nothing is learnt; verl refuses it where validation samples",
    fix="`rollout.temperature: 1.0`",
    source="verl/utils/config.py, validate_config: validation gen temperature should be greater than 0 when enabling "
    "do_sample, asserted on rollout.temperature",
)
def greedy_training(facts: VerlFacts) -> Iterator[Flaw]:
    value = facts.setting(_TEMPERATURE)
    if isinstance(value, int | float) and value <= 0:
        message = f"{facts.named(_TEMPERATURE)}: the samples of a prompt are all the same"
        yield error(message, "rollout.temperature 1.0", facts.source(_TEMPERATURE))


@rule(
    "RLX120",
    title="sampling that leaves nothing to compare",
    why="GRPO and RLOO learn from the differences between the answers to one prompt; hardly any are left",
    fix="`rollout.temperature: 1.0`, `rollout.top_k: -1`",
    source="verl/trainer/ppo/core_algos.py, compute_grpo_outcome_advantage: equal scores have no advantage",
)
def cold_sampling(facts: VerlFacts) -> Iterator[Flaw]:
    value, top_k = facts.setting(_TEMPERATURE), facts.whole(f"{ROLLOUT}.top_k")
    grouped = facts.setting("algorithm.adv_estimator") in ("grpo", "rloo") and (facts.count(SAMPLES) or 1) > 1
    if grouped and isinstance(value, int | float) and 0 < value <= COLD:
        message = f"{facts.named(_TEMPERATURE)}: the {facts.whole(SAMPLES)} answers to a prompt hardly differ"
        yield warning(message, "rollout.temperature 1.0", facts.source(_TEMPERATURE))
    if grouped and top_k == 1:
        message = f"{facts.named(f'{ROLLOUT}.top_k')}: the {facts.whole(SAMPLES)} answers to a prompt are all the same"
        yield warning(message, "rollout.top_k -1", facts.source(f"{ROLLOUT}.top_k"))


@rule(
    "RLX121",
    title="group filtering without a metric",
    why="verl refuses it when the trainer starts",
    fix="`algorithm.filter_groups.metric: reward`, or a name that the reward function returns",
    source="verl 0.9.1 trainer/ppo/v1/trainer_base.py, _resolve_filter_groups_metric: "
    "algorithm.filter_groups.metric must be set when group filtering is enabled",
)
def filter_metric(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{_FILTER}.metric"
    asked = facts.is_dapo_recipe or facts.uses_v1
    if facts.filters_groups and asked and not facts.setting(key):
        metric = "acc" if facts.is_dapo_recipe else "reward"
        yield error(
            f"{facts.named(key)} with {facts.source(f'{_FILTER}.enable')}", f"{key}: {metric}", facts.source(key)
        )


@rule(
    "RLX122",
    title="group filtering that nobody carries out",
    why="verl's own trainer reads algorithm.filter_groups from 0.9 on only: all groups would be trained on",
    fix="`backend.trainer: dapo`, or verl 0.9 or later",
    source="verl 0.6.1 to 0.8.0, trainer/ppo: no word of filter_groups; 0.9.1: trainer/ppo/v1 only",
)
def ignored_filter(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.filters_groups and not facts.uses_v1 and facts.starts_main_ppo:
        key = facts.source(f"{_FILTER}.enable")
        message = f"{key}: the trainer of verl {facts.settings.version} does not filter"
        yield warning(message, "backend.trainer dapo, or verl 0.9 with trainer.use_v1", key)
