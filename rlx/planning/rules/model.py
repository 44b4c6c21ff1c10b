"""Report a model of unknown shapes, for which memory and layouts are not checked."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.planning.models.architectures import linear_attention
from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.rule_table import RuleFinding, note, rule


@rule("RLX238")
def unknown_shapes(facts: RecipeFacts) -> Iterator[RuleFinding]:
    recipe = facts.recipe
    if facts.architecture is not None or recipe.layout.device == "cpu":
        return
    name = recipe.model.arch or recipe.model.path
    message = (
        f"model {name}: {_reason(facts, name)}: memory is not estimated, and whether it can be split is not checked"
    )
    yield note(message, "model.arch of a model with the same shapes, or a config.json that rlx can read", "model.path")


def _reason(facts: RecipeFacts, name: str) -> str:
    if facts.architecture_problem:
        return facts.architecture_problem
    return f"it {linear_attention(name)}" if linear_attention(name) else "its shapes are not known"
