"""Refuse seeds for each request where nothing can give them."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.overrides.cpu import NEEDED_KEY
from rlx.backends.verl.rules.facts import VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX408")
def seeds_of_requests(facts: VerlFacts) -> Iterator[Flaw]:
    rollout, settings = facts.recipe.rollout, facts.settings
    if not rollout.deterministic or rollout.engine == "cpu":
        return
    if rollout.engine != "vllm" or NEEDED_KEY not in settings.defaults or not facts.starts_main_ppo:
        message = f"rollout.deterministic with {rollout.engine} and verl {settings.version}: no request gets a seed"
        yield error(message, "verl 0.9 with vllm, or deterministic: false", "rollout.deterministic")
