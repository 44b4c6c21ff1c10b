"""A seed for each request of verl's rollout: which, and that it reaches the request."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest
from rlx_verl_seeds import SEED_VARIABLE, hook_agents, request_seed


def place(step: int = 1, row: int = 0, validate: bool = False) -> dict[str, Any]:
    return {"step": step, "sample_index": row, "rollout_n": 0, "validate": validate}


def test_seed_step_phase_row_sample_and_prompt_each_count() -> None:
    seeds = [
        request_seed(seed, place(step, row, validate), {"session_id": sample, "raw_prompt": prompt})
        for seed, step, row, validate, sample, prompt in product((1, 2), (1, 2), (0, 1), (False, True), (0, 1), "ab")
    ]
    assert len(set(seeds)) == len(seeds) == 64
    assert all(0 <= seed < 2**31 for seed in seeds), "vLLM takes 64 bits with a sign, verl's other engines 32"


def test_each_request_gets_its_own_and_shares_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """verl hands the same settings to all samples of a prompt."""
    monkeypatch.setenv(SEED_VARIABLE, "7")
    asked: list[dict[str, Any]] = []

    class Worker:
        async def _run_agent_loop(self, sampling_params: Any, trajectory: Any, **request: Any) -> None:
            asked.append(sampling_params)

    async def prompt() -> None:
        shared = {"temperature": 1.0}
        for sample in (0, 1):
            await Worker()._run_agent_loop(shared, trajectory=place(), trace=False, session_id=sample, raw_prompt="a")
        assert shared == {"temperature": 1.0}

    hook_agents(Worker)
    asyncio.run(prompt())
    expected = [request_seed(7, place(), {"session_id": sample, "raw_prompt": "a"}) for sample in (0, 1)]
    assert [one["seed"] for one in asked] == expected
    assert all(one["temperature"] == 1.0 for one in asked)
