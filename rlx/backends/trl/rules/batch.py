"""TRL: how the answers of a step are dealt out to passes, and what a step is."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.trl.rules.facts import TrlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX170")
def one_update(facts: TrlFacts) -> Iterator[Flaw]:
    train = facts.recipe.train
    if train.mini_batch_size != train.batch_size:
        message = f"train.mini_batch_size {train.mini_batch_size} is not train.batch_size {train.batch_size}"
        yield error(message, f"train.mini_batch_size {train.batch_size}", "train.mini_batch_size")


@rule("RLX171")
def micro_batch(facts: TrlFacts) -> Iterator[Flaw]:
    train, n = facts.recipe.train, facts.recipe.rollout.n
    answers = train.batch_size * n
    if answers % train.micro_batch_size:
        message = f"train.micro_batch_size {train.micro_batch_size} does not divide the {answers} answers of a step"
        fits = one_of(near(divisors(answers), train.micro_batch_size))
        yield error(message, f"train.micro_batch_size {fits}", "train.micro_batch_size")
    if n < 2:
        yield error("rollout.n 1: GRPO compares the answers to one prompt", "rollout.n 2 or more", "rollout.n")
    if train.micro_batch_size < facts.recipe.eval.n:
        message = f"eval.n {facts.recipe.eval.n}: TRL answers a row of the validation in one pass"
        yield error(message, f"train.micro_batch_size {facts.recipe.eval.n} or more", "eval.n")
