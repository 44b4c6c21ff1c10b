"""The paired probe through verl's vLLM server, by the very request that generation makes. verl 0.8.0 and 0.9.1.

Runs in the process of the trainer, which has the servers of all replicas. It asks at moments when nothing generates: in
bfloat16 company in a batch moves a score by more than small noise does. A request goes to one data-parallel shard of
its replica, whichever is next; of the others the digests speak. Source of the answer's form: verl 0.9.1
workers/rollout/vllm_rollout/utils.py, extract_prompt_logprobs.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import verl
from rlx_aqn_events import Process, events_file, writer
from rlx_aqn_probe import NoiseProbe, fixed_rows
from rlx_aqn_settings import InjectionSettings

_SERVER = Path(verl.__path__[0], "workers", "rollout", "vllm_rollout", "vllm_async_server.py")
# What scores a prompt: 0.7.1 hands on none of that.
_SCORES = "extract_prompt_logprobs"


class ReplicaProbes:
    """A probe for each of the replicas that a manager syncs. Neither look raises."""

    def __init__(self, replicas: Sequence[Any], settings: InjectionSettings) -> None:
        self._settings = settings
        self._probes = (
            [_probe(replica) for replica in replicas] if _SCORES in _SERVER.read_text(encoding="utf-8") else []
        )

    async def clean(self) -> None:
        """Score the clean weights that a sync has just brought."""
        for probe in self._probes:
            await probe.clean()

    async def pair(self, phase: str, step: int) -> None:
        """Score what is served now, and record it beside the clean weights of the last sync."""
        quiet = phase == "validation" and not self._settings.validation_noise
        for probe in self._probes:
            await probe.pair(phase, step, 0.0 if quiet else self._settings.sigma(step))


def _probe(replica: Any) -> NoiseProbe:
    server, process = replica.servers[0], Process(replica.replica_rank, node=int(os.environ.get("RLX_NODE") or 0))

    def record(kind: str, content: Mapping[str, object]) -> None:
        writer(events_file()).append(kind, process, content)

    async def forget() -> None:
        await server.clear_kv_cache.remote()

    try:
        rows = _rows(replica)
    except Exception:  # noqa: BLE001 - a model that cannot be asked is recorded as a look that is missing
        rows = []
    return NoiseProbe(rows, _score(server), record, forget, _cached(server))


def _rows(replica: Any) -> list[list[int]]:
    """Tokens that the tokenizer has and that are not special: others may be banned, or padding of the embedding."""
    from verl.utils.config import omega_conf_to_dataclass

    model, config = omega_conf_to_dataclass(replica.model_config), replica.config
    longest = config.prompt_length + config.response_length - 1
    return fixed_rows(len(model.tokenizer), longest, set(model.tokenizer.all_special_ids))


def _cached(server: Any) -> Callable[[Sequence[int]], Awaitable[int]]:
    """Ask as generation does: a request for scores reads nothing from the cache."""

    async def cached(row: Sequence[int]) -> int:
        answer = await _answer(server, row, {})
        return int(answer.extra_fields.get("num_cached_tokens") or 0)

    return cached


def _score(server: Any) -> Callable[[Sequence[int]], Awaitable[tuple[list[int], list[float]]]]:
    async def score(row: Sequence[int]) -> tuple[list[int], list[float]]:
        fields = (await _answer(server, row, {"prompt_logprobs": 0})).extra_fields
        if cached := fields.get("num_cached_tokens"):
            raise ValueError(f"the engine read {cached} tokens from its cache")
        # The last one of each list stands for the token that was generated.
        tokens = [ids[0] for ids in fields["prompt_ids"][:-1]]
        return [row[0], *tokens], [logprobs[0] for logprobs in fields["prompt_logprobs"][:-1]]

    return score


async def _answer(server: Any, row: Sequence[int], asked: Mapping[str, object]) -> Any:
    """One token, drawn without a random number."""
    sampling = {**asked, "max_tokens": 1, "temperature": 0.0}
    name = f"rlx-probe-{uuid.uuid4().hex}"
    return await server.generate.remote(prompt_ids=list(row), sampling_params=sampling, request_id=name)
