"""`eval: post` after a training of TRL: whether the checkpoint will be there that it evaluates."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.trl.rules.facts import TrlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX181")
def checkpoint(facts: TrlFacts) -> Iterator[Flaw]:
    if facts.recipe.eval.post is not None and facts.recipe.train.save_every is None:
        fits = f"train.save_every {facts.steps}" if facts.steps else "set train.save_every"
        yield error("train.save_every null: eval.post would find no checkpoint", fits, "train.save_every")
