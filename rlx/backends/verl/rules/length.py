"""Check how long the run is, and that its data lasts as long."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, error, rule, warning


@rule("RLX101")
def fills_a_batch(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.steps_of_data == 0:
        rows, key = facts.train_rows, "data.train_batch_size"
        few = rows != facts.recipe.data.train_rows
        named = facts.source("data.train_max_samples") if few else "data.train_rows"
        message = f"{named} {rows} do not fill one batch of {facts.whole(key)} prompts"
        yield error(message, f"train.batch_size {rows} or less", facts.source(key))


@rule("RLX102")
def data_lasts(facts: VerlFacts) -> Iterator[Flaw]:
    asked, every = facts.count("trainer.total_training_steps"), facts.count("trainer.test_freq")
    last = facts.steps_of_data
    if not asked or not last or last >= asked:
        return
    message = f"the data ends after step {last} of {asked}: verl stops there without a last validation"
    fix = "raise the number of epochs or lower the number of steps"
    ends = f"; or eval.every {one_of(near(divisors(last), every))}" if every else ""
    yield warning(message, fix + ends, "train.steps")
