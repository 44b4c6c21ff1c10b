"""Check that the run will leave a result behind: its validations."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.preflight.rules.number_text import divisors, near, one_of
from rlx.preflight.rules.rule_table import Flaw, error, note, rule, warning

EVERY = "trainer.test_freq"
FILTER = "algorithm.filter_groups"


@rule(
    "RLX731",
    title="filtered groups can end the data before the last step",
    why="a step may take several batches, so the epochs end early, and the trainer stops without a last validation",
    fix="an `eval.every` on which the run is sure to end, or `train.steps` well below what the data gives",
    source="fit() of the DAPO recipe: is_last_step validates, the end of the dataloader does not; 28 of 29 steps in a "
    "public log. verl 0.9 begins its data anew instead (trainer_base.py, _fetch_one_gen_batch)",
)
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


@rule(
    "RLX732",
    title="a run that is never validated",
    why="there is no number to compare: the verdict can only be about the training",
    fix="`eval.every`",
    source="verl trainer.test_freq -1 validates neither during nor after training",
)
def never_validated(facts: VerlFacts) -> Iterator[Flaw]:
    every = facts.whole(EVERY)
    if every is not None and every < 1 and facts.recipe.eval.post is None:
        fits = f"eval.every {one_of(near(divisors(facts.steps), 10))}" if facts.steps else "set eval.every"
        named = facts.named(EVERY) if facts.recipe.eval.every else "eval.every null"
        yield warning(f"{named}: nothing is validated after training starts", fits, "eval.every")


@rule(
    "RLX733",
    title="validations rarer than the run is long",
    why="only the last step is validated, and the course in between is not seen",
    fix="an `eval.every` that divides the steps",
    source="verl fit(): global_steps % test_freq",
)
def rare_validation(facts: VerlFacts) -> Iterator[Flaw]:
    every, steps = facts.whole(EVERY), facts.steps
    if every and steps and every > steps > 1:
        message = f"{facts.named(EVERY)} is more than the {steps} steps: only the last one is validated"
        yield warning(message, f"eval.every {one_of(near(divisors(steps), steps // 5 or 1))}", "eval.every")


@rule(
    "RLX739",
    title="nothing is trained",
    why="val_only ends after the first validation, and a critic warm-up longer than the run never updates the actor",
    fix="remove the override",
    source="verl fit(): val_only returns after _validate; update_actor only when critic_warmup <= global_steps; "
    "both run with 0.9.1",
)
def nothing_trained(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.is_true("trainer.val_only") and facts.is_true("trainer.val_before_train"):
        source = facts.source("trainer.val_only")
        yield warning(f"{source}: the run ends after the first validation", f"remove {source}", source)
    warmup, steps = facts.whole("trainer.critic_warmup"), facts.steps
    if warmup and steps and warmup > steps:
        source = facts.source("trainer.critic_warmup")
        yield error(f"{source} {warmup} of {steps} steps: the actor is never updated", f"at most {steps}", source)


@rule(
    "RLX738",
    title="a fork that may skip the validation of the last step",
    why="there would be no final value; verl's own trainer validates the last step, versions of this fork did not",
    fix="an `eval.every` that divides the steps",
    source="zhshgmail/verl 9ef1cbd8: final validation skipped",
)
def last_validation_of_fork(facts: VerlFacts) -> Iterator[Flaw]:
    every, steps = facts.count(EVERY), facts.steps
    is_fork = facts.recipe.aqn is not None and facts.recipe.aqn.provider == "builtin"
    if is_fork and every and steps and every <= steps and steps % every:
        message = f"{facts.named(EVERY)} does not divide the {steps} steps, and a fork before 9ef1cbd8 skips the last"
        yield note(message, f"eval.every {one_of(near(divisors(steps), every))}", "eval.every")


@rule(
    "RLX740",
    title="validation samples at temperature 0 more than once",
    why="greedy answers to one question are all the same: the extra ones cost time and make n look larger",
    fix="`eval.n: 1`, or an `eval.temperature` above 0",
    source="verl rollout val_kwargs: do_sample false is greedy",
)
def greedy_repeats(facts: VerlFacts) -> Iterator[Flaw]:
    evaluation = facts.recipe.eval
    for key, asked in (("eval", evaluation), ("eval.post", evaluation.post)):
        if asked is not None and asked.n > 1 and asked.temperature == 0:
            message = f"{key}.n {asked.n} with {key}.temperature 0: the answers to a question are all the same"
            yield warning(message, f"{key}.n 1, or {key}.temperature 0.6", f"{key}.n")
