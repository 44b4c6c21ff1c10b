"""The rollout back-end "cpu" of verl: ServerAdapter in the trainer's worker, CPUServer as a Ray actor of its own.

The same split as verl's vLLM rollout, with plain torch sampling instead of an engine. Tensor parallel size is 1.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import ray
import torch
from rlx_verl_cpu_sampling import SampledAnswer, SamplingRequest, sample, score
from rlx_verl_cpu_weights import load_checked
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

# Requests of one step arrive one by one over some milliseconds; the batch waits until none came for this long.
QUIET_SECONDS = 0.02


def _server_name(replica_rank: int) -> str:
    return f"rlx_cpu_server_{replica_rank}"


class ServerAdapter(BaseRollout):
    """Hands the trainer's weights to the server of its replica."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        rank = int(os.environ["RANK"])
        world_size = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        self.replica_rank = rank // world_size if replica_rank == -1 else replica_rank
        self._leads = rank % world_size == 0

    def _server(self) -> Any:
        return ray.get_actor(_server_name(self.replica_rank))

    async def resume(self, tags: list[str]) -> None:
        """Nothing was released, so nothing is to be resumed."""

    async def release(self) -> None:
        """Keep the server's weights: a CPU run has enough host memory."""

    @torch.no_grad()
    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **_: Any,
    ) -> None:
        if wire_format != "named_tensors":
            raise ValueError(f"the CPU rollout takes weights as named tensors, not as {wire_format}")
        # Every rank must drain the generator, which gathers the shards; only one sends.
        state = {name: weight.detach().to("cpu", copy=True) for name, weight in weights}
        if self._leads:
            await self._server().load_weights.remote(state, global_steps)


class CPUServer:
    """Ray actor: gathers requests for some milliseconds and samples them as one batch.

    `phase` and `step` say what the weights serve now: the rollout of a training step, or the validation of one.
    """

    def __init__(self, config: Any, model_config: Any, replica_rank: int) -> None:
        settings = omega_conf_to_dataclass(model_config)
        self._config = config
        self._replica = replica_rank
        self._model = _build_model(settings.local_path, config.dtype)
        self._end_tokens = _end_tokens(settings, self._model.config)
        self._injector = _injector()
        self._probe = self._make_probe(settings) if self._injector is not None else None
        self._weights = _recorder(replica_rank)
        self._phase, self._step = "rollout", 1
        self._draw, self._draws = 0, 1
        self._seen: Counter[tuple[int, ...]] = Counter()
        self._waiting: list[tuple[SamplingRequest, asyncio.Future[SampledAnswer]]] = []
        self._sampler: asyncio.Task[None] | None = None

    async def ready(self) -> bool:
        return True

    async def wake_up(self, tags: list[str] | None = None) -> None:
        pass

    async def sleep(self) -> None:
        pass

    async def clear_kv_cache(self) -> None:
        """No cache outlives a batch."""

    release_kv_cache = resume_kv_cache = resume_generation = start_profile = stop_profile = clear_kv_cache

    async def abort_all_requests(self, **_: Any) -> dict[str, Any]:
        return {}

    async def load_weights(self, state: dict[str, torch.Tensor], global_steps: int | None) -> None:
        """Take clean weights. The sync at the end of step s (0: before training) serves the rollout of step s + 1.

        Without `global_steps` (a sync inside a validation) the phase and the step stay as they are.
        """
        if self._injector is not None:
            self._injector.restore()
        load_checked(self._model, state)
        if self._weights is not None:
            self._weights.synced(self._model, global_steps)
        if self._probe is not None:
            await self._probe.clean()
        if global_steps is None:
            await self.enter(self._phase, self._step)
        else:
            await self.enter("rollout", global_steps + 1)

    async def enter(self, phase: str, step: int) -> None:
        """Serve another phase with the weights of the last sync: clean for validation, noisy for the rollout."""
        self._phase, self._step = phase, step
        self._seen.clear()
        if self._injector is not None and self._probe is not None:
            event = self._injector.apply(self._model, step, self._replica, phase)
            several = phase == "rollout" and event.sigma > 0
            self._draw, self._draws = 0, self._injector.settings.perturbations if several else 1
            await self._probe.pair(phase, step, event.sigma)

    async def measured(self, step: int, value: float) -> None:
        """Hear what the trainer measured of the rollout of a step, before the weights of the next one come."""
        if self._injector is not None:
            self._injector.measured(step, value)

    def _make_probe(self, settings: Any) -> Any:
        """Return this server's probe: its rows are shorter than the longest request and have no special tokens."""
        from rlx_aqn_probe import NoiseProbe, fixed_rows

        tokenizer = getattr(settings, "tokenizer", None)
        special = {*self._end_tokens, *(tokenizer.all_special_ids if tokenizer is not None else ())}
        longest = self._config.prompt_length + self._config.response_length - 1
        rows = fixed_rows(self._model.config.vocab_size, longest, special)
        return NoiseProbe(rows, self._score, self._injector.record)

    async def _score(self, row: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]:
        return row, score(self._model, list(row))

    async def generate(
        self, prompt_ids: Iterable[int], sampling_params: dict[str, Any], request_id: str, **_: Any
    ) -> TokenOutput:
        """verl's generation call. `request_id` is random and so no part of the seed."""
        request = self._request(tuple(prompt_ids), sampling_params)
        future: asyncio.Future[SampledAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._sampler is None or self._sampler.done():
            self._sampler = asyncio.create_task(self._serve())
        answer = await future
        return TokenOutput(
            token_ids=answer.tokens,
            log_probs=answer.log_probs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": self._step - 1 if self._phase == "rollout" else self._step},
        )

    def _request(self, prompt: tuple[int, ...], params: dict[str, Any]) -> SamplingRequest:
        """Seeded by what is asked, not by when: the k-th answer to a prompt in a step is the same in every run."""
        occurrence = self._seen[prompt]
        self._seen[prompt] += 1
        parts = (self._config.seed, self._replica, self._phase, self._step, occurrence, prompt)
        limit = min(
            self._config.response_length, self._config.prompt_length + self._config.response_length - len(prompt)
        )
        return SamplingRequest(
            prompt=prompt,
            seed=int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1,
            max_tokens=int(params.get("max_tokens") or params.get("max_new_tokens") or limit),
            temperature=float(params.get("temperature", 1.0)),
            top_k=int(params.get("top_k") or -1),
            top_p=float(params.get("top_p", 1.0)),
            draw=occurrence % self._draws,
        )

    async def _serve(self) -> None:
        while self._waiting:
            await self._wait_until_quiet()
            waiting = sorted(self._waiting, key=lambda entry: (entry[0].draw, entry[0].prompt, entry[0].seed))
            size = sum(request.draw == waiting[0][0].draw for request, _ in waiting[: self._config.max_num_seqs])
            self._waiting = waiting[size:]
            await self._answer(waiting[:size])

    async def _wait_until_quiet(self) -> None:
        arrived = 0
        while arrived < len(self._waiting) < self._config.max_num_seqs:
            arrived = len(self._waiting)
            await asyncio.sleep(QUIET_SECONDS)

    async def _answer(self, batch: list[tuple[SamplingRequest, asyncio.Future[SampledAnswer]]]) -> None:
        requests = [request for request, _ in batch]
        try:
            self._perturb(requests[0].draw)
            answers = await asyncio.to_thread(sample, self._model, requests, self._end_tokens)
        except Exception as error:  # noqa: BLE001 - handed to every caller that waits, instead of leaving them waiting
            for _, future in batch:
                future.set_exception(RuntimeError(f"the CPU rollout failed: {error!r}"))
            return
        if self._injector is not None:
            self._injector.answered(len(answers))
        for (_, future), answer in zip(batch, answers, strict=True):
            future.set_result(answer)

    def _perturb(self, draw: int) -> None:
        """Put another of the step's perturbations into the weights, where that is not the one that stands there."""
        if self._injector is not None and draw != self._draw:
            self._injector.apply(self._model, self._step, self._replica, self._phase, draw)
            self._draw = draw


def _build_model(path: str, dtype: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path), attn_implementation="sdpa")
    kind = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    return model.to(kind).eval().requires_grad_(False)


def _end_tokens(settings: Any, config: Any) -> frozenset[int]:
    generation = settings.generation_config
    end = (generation.eos_token_id if generation is not None else None) or config.eos_token_id
    return frozenset(end if isinstance(end, (list, tuple)) else [end])


def _injector() -> Any:
    """None where the run carries no AQN payload: no arm of its recipe has noise, or it is the noise of a fork."""
    if importlib.util.find_spec("rlx_aqn") is None:
        return None
    from rlx_aqn import Injector

    return Injector.from_run_directory()


def _recorder(replica: int) -> Any:
    """None where the run does not record its weights."""
    if importlib.util.find_spec("rlx_weights") is None:
        return None
    from rlx_aqn_events import Process
    from rlx_weights import Recorder

    return Recorder("served", Process(replica, node=int(os.environ.get("RLX_NODE") or 0)))


class CPUReplica(RolloutReplica):
    """One server, no device of its own."""

    def rollout_worker_use_gpu(self) -> bool:
        return False

    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError(f"the CPU rollout has tensor parallel size 1, not a replica of {self.world_size} workers")
        options = {"name": _server_name(self.replica_rank), "max_concurrency": self.max_concurrency, "num_cpus": 0}
        server = ray.remote(CPUServer).options(**options).remote(self.config, self.model_config, self.replica_rank)
        await server.ready.remote()
        self.servers = [server]
        self._server_handle, self._server_address = server, f"cpu-{self.replica_rank}"
