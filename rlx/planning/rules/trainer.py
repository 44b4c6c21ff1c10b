"""Check that the back-end has the trainer that a recipe names."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.registry import optional_part
from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.rule_table import RuleFinding, error, rule


@rule("RLX230")
def unknown_trainer(facts: RecipeFacts) -> Iterator[RuleFinding]:
    backend = facts.recipe.backend
    part = optional_part(backend.kind, "trainers")
    known: tuple[str, ...] = part.names(facts.settings.version) if part else ()
    if backend.trainer is not None and backend.trainer not in known:
        message = f"backend.trainer {backend.trainer}: {backend.kind} has no trainer of that name"
        fix = f"one of {', '.join(known)}" if known else "remove it: the algorithm decides"
        yield error(message, fix, "backend.trainer")
