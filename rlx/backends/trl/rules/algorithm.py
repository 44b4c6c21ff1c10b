"""TRL: algorithm and reward that rlx does not write for it."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.trl.rules.facts import TrlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX172")
def grpo(facts: TrlFacts) -> Iterator[Flaw]:
    kind = facts.recipe.algorithm.kind
    if kind != "grpo":
        yield error(f"algorithm.kind {kind}: rlx starts TRL's GRPO only", "algorithm.kind grpo", "algorithm.kind")


@rule("RLX173")
def kl(facts: TrlFacts) -> Iterator[Flaw]:
    said = facts.recipe.algorithm.kl
    if said is not None and said.place != "loss":
        yield error(f"algorithm.kl.place {said.place}: TRL's is in the loss", "place: loss", "algorithm.kl.place")
    if said is not None and said.estimator != "low_var_kl":
        message = f"algorithm.kl.estimator {said.estimator}: TRL has one"
        yield error(message, "estimator: low_var_kl", "algorithm.kl.estimator")


@rule("RLX174")
def correction(facts: TrlFacts) -> Iterator[Flaw]:
    said, place = facts.recipe.algorithm.correction, "algorithm.correction"
    if said is None:
        return
    if facts.recipe.rollout.engine != "vllm":
        message = f"{place} with rollout.engine {facts.recipe.rollout.engine}: TRL has none"
        yield error(message, f"{place} null", place)
        return
    if said.rejection is not None or said.bypass:
        key = "rejection" if said.rejection is not None else "bypass"
        yield error(f"{place}.{key}: TRL has weights only", f"{place}: {{weights: token}}", f"{place}.{key}")
    elif isinstance(said.weights_threshold, str):
        message = f"{place}.weights_threshold {said.weights_threshold}: TRL does not tell how many weights are 0"
        yield error(message, "one number, to which larger weights are cut", f"{place}.weights_threshold")


@rule("RLX175")
def noise(facts: TrlFacts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if aqn is not None and aqn.provider == "builtin":
        yield error("aqn.provider builtin: TRL has no noise of its own", "aqn.provider payload", "aqn.provider")
