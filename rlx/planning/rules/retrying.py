"""`retry` of a recipe: what a further attempt may follow on, and from where it can go on."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.model.attempt_lineage import LOST, MACHINE_CAUSES
from rlx.planning.rules.facts import Facts
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX050")
def on_machine_alone(facts: Facts) -> Iterator[Flaw]:
    asked = facts.recipe.retry
    allowed = {LOST, *MACHINE_CAUSES}
    for cause in asked.on if asked else ():
        if cause not in allowed:
            yield error(f"retry.on {cause} does not lie in the machine", f"remove {cause}", "retry.on")


@rule("RLX051")
def saved(facts: Facts) -> Iterator[Flaw]:
    recipe = facts.recipe
    if recipe.retry is not None and recipe.retry.from_checkpoint and recipe.train.save_every is None:
        message = "retry.from_checkpoint true, and train.save_every null: there is no checkpoint to go on from"
        yield error(message, "set train.save_every, or retry.from_checkpoint: false", "retry.from_checkpoint")


@rule("RLX052")
def one_node(facts: Facts) -> Iterator[Flaw]:
    nodes = facts.recipe.layout.nodes
    if facts.recipe.retry is not None and nodes > 1:
        yield error(f"retry with layout.nodes {nodes}", "remove retry", "retry")
