"""The engine of a rollout, and the trainer's own model as one: transformers' `generate`, and what it sampled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

import torch
from torch import nn
from transformers import LogitsProcessor, LogitsProcessorList


class EngineCompletions(Protocol):
    """One call of `generate`, after it: log-probabilities of the sampled tokens, None where the engine told them."""

    def log_probs(self, completion_ids: Sequence[Sequence[int]]) -> list[list[float]] | None: ...


class TrlEngine(Protocol):
    """What generates. `owner.generate` is what TRL calls, `model` has the weights that answer.

    `forget` empties a prefix cache, and `cached` tells how many tokens of a row are in it; None where there is none.
    """

    owner: Any
    model: nn.Module
    vocabulary: int
    longest: int
    special: frozenset[int]

    @property
    def forget(self) -> Callable[[], Coroutine[Any, Any, object]] | None: ...

    @property
    def cached(self) -> Callable[[Sequence[int]], Awaitable[int]] | None: ...

    async def score(self, row: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]: ...

    def watched(self, generate: Callable[..., Any]) -> tuple[Callable[..., Any], EngineCompletions]: ...


class OwnModel:
    """The model that is trained generates itself, so noise must be gone before anything else uses it."""

    forget = cached = None

    def __init__(self, model: nn.Module, tokenizer: Any, temperature: float) -> None:
        self.owner = self.model = model
        self.vocabulary = model.config.vocab_size
        self.longest = model.config.max_position_embeddings
        self.special = frozenset(tokenizer.all_special_ids)
        self._temperature = temperature

    @torch.no_grad()
    async def score(self, row: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]:
        """Of each token but the first its log-probability after those before it, at temperature 1."""
        tokens = torch.tensor([list(row)], device=self.model.device)
        logs = self.model(input_ids=tokens).logits[0, :-1].float().log_softmax(-1)
        return row, logs.gather(-1, tokens[0, 1:, None]).squeeze(-1).tolist()

    def watched(self, generate: Callable[..., Any]) -> tuple[Callable[..., Any], EngineCompletions]:
        recorder = SampledLogProbs(self._temperature)

        def call(*arguments: Any, **options: Any) -> Any:
            answer = generate(*arguments, **options, logits_processor=LogitsProcessorList([recorder]))
            recorder.end(answer)
            return answer

        return call, recorder


class SampledLogProbs(LogitsProcessor):
    """Keeps the log-probability of each sampled token, before top-k and top-p take any away, and changes nothing.

    transformers calls it for each token, before the temperature: that is taken into account here, as TRL does for the
    actor. Only the logits of one position are held at a time.
    """

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._last: torch.Tensor | None = None
        self._columns: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._take(input_ids[:, -1])
        self._last = (scores.float() / self._temperature).log_softmax(-1)
        return scores

    def end(self, sequences: torch.Tensor) -> None:
        self._take(sequences[:, -1])

    def _take(self, tokens: torch.Tensor) -> None:
        """Return the token that followed the logits of the call before."""
        if self._last is not None:
            self._columns.append(self._last.gather(-1, tokens[:, None]).squeeze(-1))

    def log_probs(self, completion_ids: Sequence[Sequence[int]]) -> list[list[float]]:
        rows = torch.stack(self._columns, dim=1)
        return [row[: len(ids)].tolist() for row, ids in zip(rows, completion_ids, strict=True)]
