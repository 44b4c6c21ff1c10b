"""How fast it may learn."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.planning.rules.facts import Facts
from rlx.planning.rules.rule_table import Flaw, rule, warning


@rule("TOY001")
def haste(facts: Facts) -> Iterator[Flaw]:
    if facts.recipe.train.lr > 1:
        yield warning(f"train.lr {facts.recipe.train.lr:g} is more than 1", "train.lr 1 or less", "train.lr")
