"""Set what stock verl needs to train on a CPU with rlx's own rollout (payload rlx_verl_cpu*.py)."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override, path_on_all_nodes
from rlx.backends.verl.overrides.base import Rendering
from rlx.plan.run_dir import PAYLOAD_DIR

SOURCE = "rollout.engine"
PLUGIN = "rlx_verl_cpu"
# Only the trainer of 0.9 can be steered from outside as far as the payload needs it.
NEEDED_KEY = "trainer.v1.sampler.custom_sampler.path"

_SETTINGS = {
    # The padding-free path and flash attention need kernels that no CPU has.
    "actor_rollout_ref.model.use_remove_padding": False,
    "actor_rollout_ref.model.enable_gradient_checkpointing": False,
    "actor_rollout_ref.rollout.free_cache_engine": False,
    # One worker of each kind; verl's defaults start eight.
    "actor_rollout_ref.rollout.agent.num_workers": 1,
    "reward.num_workers": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    "data.dataloader_num_workers": 0,
    # verl demands a name even though no reward model runs.
    "reward.reward_model.rollout.name": "cpu",
    "trainer.v1.sampler.custom_sampler.name": "FastReplayBuffer",
}
OBJECT_STORE_BYTES = 256 * 1024**2
# Ray counts logical CPUs: with fewer the placement group waits for ever.
_LOGICAL_CPUS_PER_DEVICE = 8


def overrides(rendering: Rendering) -> Iterator[Override]:
    if rendering.recipe.rollout.engine != "cpu":
        return
    for key, value in _SETTINGS.items():
        yield Override(key, value, SOURCE)
    sampler = path_on_all_nodes(rendering.recipe, f"{PAYLOAD_DIR}/{PLUGIN}_trainer.py")
    yield Override(NEEDED_KEY, sampler, SOURCE, verbatim=True)
    yield rendering.added("actor_rollout_ref.model.override_config.attn_implementation", "sdpa", SOURCE)
    if rendering.recipe.model.lora is not None:
        # The rollout loads whole weights, not adapters.
        yield Override("actor_rollout_ref.model.lora.merge", True, "model.lora")
    yield from _ray(rendering)


def environment(rendering: Rendering) -> dict[str, str]:
    """Variables that every process of the run must see."""
    if rendering.recipe.rollout.engine != "cpu":
        return {}
    return {
        "VERL_USE_EXTERNAL_MODULES": PLUGIN,
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "TQ_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        **({"GLOO_SOCKET_IFNAME": "lo"} if rendering.recipe.layout.nodes == 1 else {}),
    }


def resources(devices: int) -> dict[str, int]:
    """Count what a node of so many devices has, by Ray's names. The payload's platform calls a worker's one GPU."""
    return {"CPU": _LOGICAL_CPUS_PER_DEVICE * devices, "GPU": devices}


def _ray(rendering: Rendering) -> Iterator[Override]:
    layout = rendering.recipe.layout
    # Who joins a Ray of several nodes has no say in what these have: `ray_settings` in the planner.
    if layout.nodes > 1:
        return
    init, logical = "ray_kwargs.ray_init", resources(layout.devices_per_node)
    yield Override(f"{init}.num_cpus", logical["CPU"], SOURCE)
    yield rendering.added(f"{init}.num_gpus", logical["GPU"], "layout.devices_per_node")
    yield rendering.added(f"{init}.include_dashboard", False, SOURCE)
    yield rendering.added(f"{init}.object_store_memory", OBJECT_STORE_BYTES, SOURCE)
