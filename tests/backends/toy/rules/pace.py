"""How fast it may learn."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.rule_table import RuleFinding, rule, warning


@rule("TOY001")
def haste(facts: RecipeFacts) -> Iterator[RuleFinding]:
    if facts.recipe.train.lr > 1:
        yield warning(f"train.lr {facts.recipe.train.lr:g} is more than 1", "train.lr 1 or less", "train.lr")
