"""Check `retry` of a recipe: which causes allow another attempt, and where it can resume."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.model.attempt_lineage import LOST, MACHINE_CAUSES
from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.rule_table import RuleFinding, error, rule


@rule("RLX050")
def on_machine_alone(facts: RecipeFacts) -> Iterator[RuleFinding]:
    retry = facts.recipe.retry
    allowed = {LOST, *MACHINE_CAUSES}
    fix = f"write only lost and ids of machine failures: {', '.join(sorted(MACHINE_CAUSES))}"
    for cause in retry.on if retry else ():
        if cause not in allowed:
            yield error(f"retry.on names {cause}, which is not a failure of the machine", fix, "retry.on")


@rule("RLX051")
def saved(facts: RecipeFacts) -> Iterator[RuleFinding]:
    recipe = facts.recipe
    if recipe.retry is not None and recipe.retry.from_checkpoint and recipe.train.save_every is None:
        message = "retry.from_checkpoint true, and train.save_every null: there is no checkpoint to resume from"
        yield error(message, "set train.save_every, or retry.from_checkpoint: false", "retry.from_checkpoint")


@rule("RLX052")
def one_node(facts: RecipeFacts) -> Iterator[RuleFinding]:
    nodes = facts.recipe.layout.nodes
    if facts.recipe.retry is not None and nodes > 1:
        yield error(f"retry with layout.nodes {nodes}", "remove retry", "retry")
