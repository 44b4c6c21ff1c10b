"""Gives each request of verl's rollout a seed of its own, so that answers do not depend on the order of requests.

Active through VERL_USE_EXTERNAL_MODULES=rlx_verl_seeds. Without it vLLM draws all answers from one stream of random
numbers, whichever request comes next. verl 0.9's own `rollout.full_determinism` is no help: it gives all requests one
seed, and so all answers to a prompt are the same (vllm_async_server.py, generate).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlx_aqn_hook import HookPoint, PatchingFinder, check

SEED_VARIABLE = "RLX_ROLLOUT_SEED"
_MODULE = "verl.experimental.agent_loop.agent_loop"
POINTS = (
    HookPoint("agents", _MODULE, "AgentLoopWorker", "_run_agent_loop", ("self", "sampling_params", "trajectory"),
              "agent_loop.run(sampling_params, **kwargs)"),
)  # fmt: skip


def request_seed(seed: int, trajectory: Mapping[str, Any], request: Mapping[str, Any]) -> int:
    """From seed, step, row and sample. The prompt's own words count, too: not every file of data numbers its rows."""
    sample = request.get("session_id", trajectory["rollout_n"])
    place = [trajectory["step"], bool(trajectory["validate"]), str(trajectory["sample_index"]), int(sample)]
    told = json.dumps([seed, *place, str(request.get("raw_prompt"))]).encode()
    return int.from_bytes(hashlib.sha256(told).digest()[:4], "big") >> 1


def hook_agents(cls: Any) -> None:
    """verl's worker that runs an agent loop for each sample."""
    run, seed = cls._run_agent_loop, int(os.environ[SEED_VARIABLE])

    @functools.wraps(run)
    async def _run_agent_loop(self: Any, sampling_params: Any, trajectory: Any, **request: Any) -> Any:
        seeded = {**sampling_params, "seed": request_seed(seed, trajectory, request)}
        return await run(self, seeded, trajectory, **request)

    cls._run_agent_loop = _run_agent_loop


def install(verl: Path) -> None:
    """Give each request a seed of its own. Raises ValueError where verl lacks the place to do so."""
    points = check(verl, POINTS, "use verl 0.9.1 unchanged, or rollout.deterministic: false", "a seed for each request")
    finder = PatchingFinder.of(points, {"agents": hook_agents})
    sys.meta_path.insert(0, finder)
    if _MODULE in sys.modules:
        finder.patch(_MODULE, sys.modules[_MODULE])


if "verl" in sys.modules and SEED_VARIABLE in os.environ:
    install(Path(sys.modules["verl"].__path__[0]))
