"""Check that the run will leave a result behind: its validations."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, error, note, rule, warning

EVERY = "trainer.test_freq"
FILTER = "algorithm.filter_groups"


@rule("RLX731")
def filtered_end(facts: VerlFacts) -> Iterator[Flaw]:
    key, every, steps = f"{FILTER}.enable", facts.count(EVERY), facts.steps
    if not facts.filters_groups or not facts.is_dapo_recipe or not every or not steps or steps <= _sure(facts):
        return
    message = f"{facts.source(key)}: the data may end before step {steps}, and eval.every {every} may miss the end"
    fewer = _sure(facts) or max(1, steps // 2)
    yield warning(message, f"eval.every 1, or more epochs, or train.steps {fewer} on the same data", "eval.every")


def _sure(facts: VerlFacts) -> int:
    """Count the steps for which the data lasts even if each takes as many batches as it may; 0 without a limit."""
    most, rows, generated = facts.count(f"{FILTER}.max_num_gen_batches"), facts.train_rows, facts.generated
    epochs = facts.count("trainer.total_epochs")
    return rows // generated * epochs // most if most and rows and generated and epochs else 0


@rule("RLX732")
def never_validated(facts: VerlFacts) -> Iterator[Flaw]:
    every = facts.whole(EVERY)
    if every is not None and every < 1 and facts.recipe.eval.post is None:
        fits = f"eval.every {one_of(near(divisors(facts.steps), 10))}" if facts.steps else "set eval.every"
        named = facts.named(EVERY) if facts.recipe.eval.every else "eval.every null"
        yield warning(f"{named}: nothing is validated after training starts", fits, "eval.every")


@rule("RLX733")
def rare_validation(facts: VerlFacts) -> Iterator[Flaw]:
    every, steps = facts.whole(EVERY), facts.steps
    if every and steps and every > steps > 1:
        message = f"{facts.named(EVERY)} is more than the {steps} steps: only the last one is validated"
        yield warning(message, f"eval.every {one_of(near(divisors(steps), steps // 5 or 1))}", "eval.every")


@rule("RLX739")
def nothing_trained(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.is_true("trainer.val_only") and facts.is_true("trainer.val_before_train"):
        source = facts.source("trainer.val_only")
        yield warning(f"{source}: the run ends after the first validation", f"remove {source}", source)
    warmup, steps = facts.whole("trainer.critic_warmup"), facts.steps
    if warmup and steps and warmup > steps:
        source = facts.source("trainer.critic_warmup")
        yield error(f"{source} {warmup} of {steps} steps: the actor is never updated", f"at most {steps}", source)


@rule("RLX738")
def last_validation_of_fork(facts: VerlFacts) -> Iterator[Flaw]:
    every, steps = facts.count(EVERY), facts.steps
    is_fork = facts.recipe.aqn is not None and facts.recipe.aqn.provider == "builtin"
    if is_fork and every and steps and every <= steps and steps % every:
        message = f"{facts.named(EVERY)} does not divide the {steps} steps, and a fork before 9ef1cbd8 skips the last"
        yield note(message, f"eval.every {one_of(near(divisors(steps), every))}", "eval.every")


@rule("RLX740")
def greedy_repeats(facts: VerlFacts) -> Iterator[Flaw]:
    evaluation = facts.recipe.eval
    for key, asked in (("eval", evaluation), ("eval.post", evaluation.post)):
        if asked is not None and asked.n > 1 and asked.temperature == 0:
            message = f"{key}.n {asked.n} with {key}.temperature 0: the answers to a question are all the same"
            yield warning(message, f"{key}.n 1, or {key}.temperature 0.6", f"{key}.n")
