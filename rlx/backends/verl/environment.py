"""The environment variables of verl's processes: what the device needs, and the payload's modules that verl loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlx.backends.shared.vllm_cpu import ENVIRONMENT
from rlx.backends.verl.overrides import CPU_PLUGIN, VLLM_CPU_PLUGIN, guards_trackers

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

# The payload's modules begin with these.
NOISE_HOOK, SEEDS, TRACK_GUARD, WEIGHT_HOOK = (f"rlx_verl_{part}" for part in ("hook", "seeds", "track", "weights"))
MODULES = "VERL_USE_EXTERNAL_MODULES"
_ON_NPUS = {
    # Without a range HCCL takes one fixed port on each NPU, which a second process of the device cannot have: actor and
    # rollout share theirs. With `auto` the system chooses, so that runs beside each other never ask for the same one.
    "HCCL_HOST_SOCKET_PORT_RANGE": "auto",
    "HCCL_NPU_SOCKET_PORT_RANGE": "auto",
    # Ranks that have loaded wait for those that still load or compile; CANN's 120 s are too few for a large model.
    "HCCL_CONNECT_TIMEOUT": "1800",
}
_ON_CPU = {
    MODULES: CPU_PLUGIN,
    "VERL_PLATFORM": "cpu",
    "OMP_NUM_THREADS": "1",
    "TQ_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
_VLLM_ON_CPU = {MODULES: f"{CPU_PLUGIN},{VLLM_CPU_PLUGIN}", **ENVIRONMENT}


def environment(recipe: Recipe, host: Mapping[str, str], *, hooked: bool, recorded: bool) -> dict[str, str]:
    """Name the variables of every process of a run. `host`: those of the host's entry; the recipe's own replace them.

    `hooked`: the payload's noise goes into verl's rollout. `recorded`: the run records its weights.
    """
    env = {**(_ON_NPUS if recipe.layout.device == "npu" else {}), **host}
    if recipe.layout.device == "cpu":
        env |= _ON_CPU
        env |= {"GLOO_SOCKET_IFNAME": "lo"} if recipe.layout.nodes == 1 else {}
        env |= _VLLM_ON_CPU if recipe.rollout.engine == "vllm" else {}
    env |= recipe.env
    if gives_seeds(recipe):
        env |= {**with_module(env, SEEDS), "RLX_ROLLOUT_SEED": str(recipe.seed)}
    env |= with_module(env, TRACK_GUARD) if guards_trackers(recipe) else {}
    env |= with_module(env, NOISE_HOOK) if hooked else {}
    return env | (with_module(env, WEIGHT_HOOK) if recorded else {})


def gives_seeds(recipe: Recipe) -> bool:
    """Tell whether each request gets a seed of its own. rlx's rollout on a CPU does not depend on their order."""
    return recipe.rollout.deterministic and recipe.rollout.engine == "vllm"


def with_module(others: Mapping[str, str], module: str) -> dict[str, str]:
    """Name one more module that verl loads in each of its processes."""
    return {MODULES: ",".join(filter(None, (others.get(MODULES), module)))}
