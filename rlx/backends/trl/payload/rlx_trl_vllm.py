"""vLLM in the process of TRL as an engine, and what TRL 1.16.0 does not tell it.

TRL gives `vllm.LLM` neither dtype nor block size. It syncs weights by `load_weights` on the model of the one worker,
once for each value of `global_step`, and empties the prefix cache only then: what changes the weights in between
empties it itself.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import trl.generation.vllm_generation as generation
from rlx_trl_engine import EngineCompletions
from vllm import SamplingParams


def tell(arguments: Mapping[str, object], *, cpu: bool) -> None:
    """Make TRL start vLLM with these arguments, too."""
    if cpu:
        import vllm._custom_ops

        # With oneDNN linear layers are packed after loading, and leave an empty parameter behind that no sync can fill
        # (vllm/model_executor/layers/utils.py, dispatch_cpu_unquantized_gemm of 0.27.1).
        vllm._custom_ops._supports_onednn = False
    generation.LLM = functools.partial(generation.LLM, **arguments)
    # TRL tries the same few ports first: two runs that start at the same time would take the same one.
    os.environ.setdefault("MASTER_PORT", str(_free_port()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ColocatedVllm:
    """An engine with weights of its own. What TRL told it, the sampled tokens' probabilities included, TRL hands on."""

    def __init__(self, llm: Any, tokenizer: Any) -> None:
        self.owner = llm
        # Where TRL's own sync finds it.
        self.model = llm.llm_engine.model_executor.driver_worker.model_runner.get_model()
        self.vocabulary = len(tokenizer)
        self.longest = llm.model_config.max_model_len
        self.special = frozenset(tokenizer.all_special_ids)
        self._generate = llm.generate  # without what `watched` of a Rollout puts in its place

    async def score(self, row: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]:
        """Of each token but the first its log-probability after those before it, at temperature 1."""
        answer = self._answer(row, prompt_logprobs=0)
        if answer.num_cached_tokens:
            raise ValueError(f"the engine read {answer.num_cached_tokens} tokens from its cache")
        tokens = answer.prompt_token_ids
        return tokens, [told[token].logprob for token, told in zip(tokens[1:], answer.prompt_logprobs[1:], strict=True)]

    async def cached(self, row: Sequence[int]) -> int:
        """Ask as generation does: a request for scores reads nothing from the cache."""
        return int(self._answer(row).num_cached_tokens or 0)

    def watched(self, generate: Callable[..., Any]) -> tuple[Callable[..., Any], EngineCompletions]:
        return generate, _Told()

    async def forget(self) -> None:
        self.owner.reset_prefix_cache()

    def _answer(self, row: Sequence[int], **asked: object) -> Any:
        """One token, drawn without a random number."""
        sampling = SamplingParams(max_tokens=1, temperature=0.0, **asked)
        (answer,) = self._generate([{"prompt_token_ids": list(row)}], sampling_params=sampling, use_tqdm=False)
        return answer


class _Told:
    def log_probs(self, completion_ids: Sequence[Sequence[int]]) -> None:
        """Nothing beside what TRL has from the engine."""
