"""Brings AQN into an unchanged MindSpeed-RL, from outside.

The run's copy of configs/envs/runtime_env.yaml names `setup` as Ray's worker_process_setup_hook (mindspeed_rl_env.py):
Ray calls it in each of the run's worker processes before anything of MindSpeed-RL is imported there. It reads
MindSpeed-RL's own source, as launch.sh has already done before Ray is started: a hook point that is missing or has
changed ends the run right there (RLX641). The classes themselves are changed when they are imported
(`rlx_mindspeed_rl_hook_sync`).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlx_aqn_hook import PatchingFinder
from rlx_aqn_settings import refusal
from rlx_mindspeed_rl_hook_points import check_points

_PACKAGE = "mindspeed_rl"


def setup() -> None:
    """In a worker process. Raises ValueError, upon which Ray ends the process and what waits for it."""
    from rlx_mindspeed_rl_hook_sync import hook_engine, hook_worker

    points = check_points(_package_folder())
    sys.meta_path.insert(0, PatchingFinder.of(points, {"worker": hook_worker, "engine": hook_engine}))


def with_setup(runtime_env: Mapping[str, Any]) -> dict[str, Any]:
    """Add `setup` to the runtime_env. Raises ValueError where this MindSpeed-RL lacks a place that the noise needs."""
    check_points(_package_folder())
    variables = runtime_env["env_vars"]
    # Ray puts in what its own processes have: on another machine of the run the folder may be another one.
    path = "${RLX_RUN_DIR}/payload:" + str(variables.get("PYTHONPATH", "${PYTHONPATH}"))
    hook = f"{__name__}.{setup.__name__}"
    return {**runtime_env, "env_vars": {**variables, "PYTHONPATH": path}, "worker_process_setup_hook": hook}


def _package_folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise refusal("RLX641", f"aqn: no {_PACKAGE} is found", "backend.workdir: the root of a MindSpeed-RL checkout")
    return Path(spec.submodule_search_locations[0])
