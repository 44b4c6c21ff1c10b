"""TRL: how it validates."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.trl.rules.facts import TrlFacts
from rlx.planning.rules.rule_table import Flaw, error, note, rule


@rule("RLX180")
def temperature(facts: TrlFacts) -> Iterator[Flaw]:
    said, trained = facts.recipe.eval, facts.recipe.rollout.temperature
    if said.every is None and not said.before_train:
        return
    if said.temperature != trained:
        message = f"eval.temperature {said.temperature:g}: TRL validates at rollout.temperature {trained:g}"
        yield error(message, f"eval.temperature {trained:g}; eval.post may be greedy", "eval.temperature")
    else:
        message = f"TRL samples its answers to validations, too, at temperature {trained:g}"
        yield note(f"{message}: not comparable with greedy answers", "eval.post may be greedy", "eval.temperature")
