"""Keeps what vLLM has cached of prompts when weights change, as a server without that call would.

A run loads this in each of its processes by verl's own `actor_rollout_ref.model.external_lib`.
"""

from __future__ import annotations

from typing import Any

from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer


async def _keep(self: Any) -> None:
    """Say nothing, and empty nothing."""


vLLMHttpServer.clear_kv_cache = _keep
