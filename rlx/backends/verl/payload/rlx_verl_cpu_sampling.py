"""Batched sampling and scoring for the CPU rollout: torch only, reproducible in whatever order requests arrive."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class SamplingRequest:
    """One answer to sample. temperature 0 is greedy; top_k < 1 and top_p >= 1 are off; lengths in tokens.

    `draw`: which of the perturbations of its step the weights must have; only requests of one draw make a batch.
    """

    prompt: tuple[int, ...]
    seed: int
    max_tokens: int
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    draw: int = 0


@dataclass(frozen=True)
class SampledAnswer:
    """Sampled tokens, the end token included, and the log-probability of each under the sampled distribution."""

    tokens: list[int]
    log_probs: list[float]


@torch.inference_mode()
def sample(model: nn.Module, requests: Sequence[SamplingRequest], end_tokens: AbstractSet[int]) -> list[SampledAnswer]:
    """Sample all requests as one left-padded batch with a key-value cache."""
    batch = _Batch(requests, end_tokens)
    tokens, mask = batch.prompts()
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = None
    while True:
        logits, cache = _logits(model, tokens, mask, positions, cache, last=1)
        chosen = batch.choose(logits[:, -1])
        if batch.done:
            return batch.answers
        tokens, positions = chosen[:, None], positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(requests), 1)], dim=1)


@torch.inference_mode()
def score(model: nn.Module, tokens: Sequence[int]) -> list[float]:
    """Return the log-probability of each token but the first, given those before it, as `sample` draws it."""
    row = torch.tensor([tokens])
    positions = torch.arange(row.shape[1])[None, :]
    logits, _ = _logits(model, row, torch.ones_like(row), positions, None, last=0)
    log_probs = _log_probs(logits[0, :-1], torch.ones(1), torch.tensor([-1]), torch.ones(1))
    return log_probs.gather(1, row[0, 1:, None])[:, 0].tolist()  # type: ignore[no-any-return]


def _logits(
    model: nn.Module, tokens: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Any, last: int
) -> tuple[torch.Tensor, Any]:
    """Logits (rows, tokens, vocabulary) in float32 of the `last` tokens, 0: of all; and the key-value cache after."""
    output = model(
        input_ids=tokens,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=last,
    )
    return output.logits.float(), output.past_key_values


def _log_probs(
    logits: torch.Tensor, temperature: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    """Of the distribution that is sampled from; logits are (n, vocabulary), the others (n,)."""
    return restrict(logits / temperature[:, None], top_k, top_p).log_softmax(-1)


class _Batch:
    def __init__(self, requests: Sequence[SamplingRequest], end_tokens: AbstractSet[int]) -> None:
        self._requests = requests
        self._end_tokens = end_tokens
        self._temperature = torch.tensor([request.temperature for request in requests])
        self._top_k = torch.tensor([request.top_k for request in requests])
        self._top_p = torch.tensor([request.top_p for request in requests])
        longest = max(request.max_tokens for request in requests)
        # All draws of a request come from its own seed, so neither batching nor arrival order changes them.
        draws = [
            torch.rand(longest, generator=torch.Generator().manual_seed(r.seed), dtype=torch.float64) for r in requests
        ]
        self._draws = torch.stack(draws)
        self.answers = [SampledAnswer([], []) for _ in requests]

    def prompts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and attention mask, both (requests, longest prompt), padded on the left."""
        width = max(len(request.prompt) for request in self._requests)
        tokens = torch.zeros(len(self._requests), width, dtype=torch.long)
        mask = torch.zeros_like(tokens)
        for row, request in enumerate(self._requests):
            tokens[row, width - len(request.prompt) :] = torch.tensor(request.prompt)
            mask[row, width - len(request.prompt) :] = 1
        return tokens, mask

    @property
    def done(self) -> bool:
        return all(self._is_done(row) for row in range(len(self._requests)))

    def _is_done(self, row: int) -> bool:
        tokens = self.answers[row].tokens
        return len(tokens) >= self._requests[row].max_tokens or bool(tokens and tokens[-1] in self._end_tokens)

    def choose(self, logits: torch.Tensor) -> torch.Tensor:
        """Pick the next token of each row from logits (requests, vocabulary), and add it to the open answers."""
        position = max(len(answer.tokens) for answer in self.answers)
        greedy = self._temperature <= 0
        log_probs = _log_probs(logits, torch.where(greedy, 1.0, self._temperature), self._top_k, self._top_p)
        chosen = torch.where(greedy, logits.argmax(-1), draw(log_probs, self._draws[:, position]))
        picked = log_probs.gather(1, chosen[:, None])[:, 0].tolist()
        for row, (token, log_prob) in enumerate(zip(chosen.tolist(), picked, strict=True)):
            if not self._is_done(row):
                self.answers[row].tokens.append(token)
                self.answers[row].log_probs.append(log_prob)
        return chosen


def draw(log_probs: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Inverse of the distribution function at `uniform` in [0, 1); a token of probability zero is never drawn."""
    reached = log_probs.double().exp().cumsum(-1)
    return torch.searchsorted(reached, uniform[:, None] * reached[:, -1:], right=True)[:, 0]


def restrict(logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Logits with -inf outside each row's `top_k` best and, among those, outside the smallest set reaching `top_p`.

    Order and renormalisation as in vLLM: top_k first, then top_p on what is left; the best token always stays.
    """
    if bool((top_k < 1).all()) and bool((top_p >= 1).all()):
        return logits
    order = logits.argsort(dim=-1, descending=True, stable=True)
    ranked = logits.gather(-1, order)
    rank = torch.arange(logits.shape[-1])[None, :]
    ranked = ranked.masked_fill((top_k[:, None] >= 1) & (rank >= top_k[:, None]), -torch.inf)
    probabilities = ranked.softmax(-1)
    reached_before = probabilities.cumsum(-1) - probabilities
    beyond = (top_p[:, None] < 1) & (reached_before >= top_p[:, None]) & (rank > 0)
    return torch.full_like(logits, -torch.inf).scatter(-1, order, ranked.masked_fill(beyond, -torch.inf))
