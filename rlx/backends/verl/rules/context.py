"""Limit the length of a sequence: by the rollout's engine, and by the model itself."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ROLLOUT, VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule

LENGTH, TOKENS, CHUNKED = (
    f"{ROLLOUT}.{name}" for name in ("max_model_len", "max_num_batched_tokens", "enable_chunked_prefill")
)


@rule("RLX210")
def rollout_context(facts: VerlFacts) -> Iterator[Flaw]:
    limit, longest = facts.count(LENGTH), facts.longest
    if limit and longest and limit < longest:
        message = f"{facts.named(LENGTH)} is less than the {longest} tokens of prompt and response"
        yield error(message, f"remove it, or write {longest}", facts.source(LENGTH))


@rule("RLX211")
def prefill(facts: VerlFacts) -> Iterator[Flaw]:
    tokens, context = facts.count(TOKENS), facts.count(LENGTH) or facts.longest
    if facts.setting(f"{ROLLOUT}.name") != "vllm" or not tokens or not context or tokens >= context:
        return
    message = f"{facts.named(TOKENS)} is less than a sample of {context} tokens"
    chunked = facts.setting(CHUNKED) is not False
    if chunked and facts.release < (0, 7):
        message += f", which verl {facts.settings.version} refuses with chunked prefill"
        yield error(message, f"{TOKENS} {context} or more", facts.source(TOKENS))
    elif not chunked and facts.release < (0, 9):
        fix = f"remove {facts.source(CHUNKED)}, or set {TOKENS} to {context} or more"
        yield error(f"{message}, and {CHUNKED} is off", fix, facts.source(TOKENS))


@rule("RLX223")
def model_context(facts: VerlFacts) -> Iterator[Flaw]:
    shape, limit = facts.architecture, facts.count(LENGTH)
    most = shape.max_positions if shape else None
    # rlx's own rollout goes on behind the last position, as transformers does.
    if not most or facts.setting(f"{ROLLOUT}.name") == "cpu":
        return
    if limit and limit > most and facts.release >= (0, 7):
        message = f"{facts.named(LENGTH)} is more than the {most} positions of the model"
        yield error(message, f"remove it, or write {most}", facts.source(LENGTH))
    if facts.longest and facts.longest > most:
        message = f"prompt and response of {facts.longest} tokens are more than the {most} positions of the model"
        left = most - (facts.count("data.max_prompt_length") or 0)
        fix = f"data.max_response_tokens {left}" if left > 0 else "shorter prompts and responses"
        yield error(message, fix, "data.max_response_tokens")
