"""Set what stock verl needs to train on a CPU, with rlx's own rollout or with vLLM's CPU build (payload)."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override, path_on_all_nodes
from rlx.backends.shared.vllm_cpu import ENVIRONMENT, KV_CACHE_BYTES
from rlx.backends.verl.overrides.base import Rendering
from rlx.model.run_dir import PAYLOAD_DIR

SOURCE = "layout.device"
PLUGIN, VLLM_PLUGIN = "rlx_verl_cpu", "rlx_verl_vllm_cpu"
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
    # In the task runner itself: a fork beside Ray's threads may crash (RLX969).
    "data.filter_overlong_prompts_workers": None,
    "trainer.v1.sampler.custom_sampler.name": "FastReplayBuffer",
}
_VLLM = "actor_rollout_ref.rollout.engine_kwargs.vllm"
_BUCKET_KEY = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
_BUCKET_MIB = 16
_VLLM_ADDITIONS: dict[str, object] = {
    # No CPU build can give its memory back in between.
    "actor_rollout_ref.rollout.enable_sleep_mode": False,
    f"{_VLLM}.worker_cls": f"{VLLM_PLUGIN}_worker.ReloadableCPUWorker",
    f"{_VLLM}.kv_cache_memory_bytes": KV_CACHE_BYTES,
}
OBJECT_STORE_BYTES = 256 * 1024**2
# Ray counts logical CPUs: with fewer the placement group waits for ever.
_LOGICAL_CPUS_PER_DEVICE = 8
_VLLM_ENVIRONMENT = {"VERL_USE_EXTERNAL_MODULES": f"{PLUGIN},{VLLM_PLUGIN}", **ENVIRONMENT}


def overrides(rendering: Rendering) -> Iterator[Override]:
    recipe = rendering.recipe
    if recipe.layout.device != "cpu":
        return
    for key, value in _SETTINGS.items():
        yield Override(key, value, SOURCE)
    # verl demands a name even though no reward model runs.
    yield Override("reward.reward_model.rollout.name", recipe.rollout.engine, "rollout.engine")
    file = "trainer" if recipe.rollout.engine == "cpu" else "replay"
    sampler = path_on_all_nodes(recipe, f"{PAYLOAD_DIR}/{PLUGIN}_{file}.py")
    yield Override(NEEDED_KEY, sampler, SOURCE, verbatim=True)
    yield rendering.added("actor_rollout_ref.model.override_config.attn_implementation", "sdpa", SOURCE)
    yield from _vllm(rendering) if recipe.rollout.engine == "vllm" else _own_rollout(rendering)
    yield from _ray(rendering)


def _own_rollout(rendering: Rendering) -> Iterator[Override]:
    if rendering.recipe.model.lora is not None:
        # The rollout loads whole weights, not adapters.
        yield Override("actor_rollout_ref.model.lora.merge", True, "model.lora")


def _vllm(rendering: Rendering) -> Iterator[Override]:
    # verl keeps a buffer of this size for each sync; its default is 2 GiB.
    yield Override(_BUCKET_KEY, _BUCKET_MIB, "rollout.engine")
    for key, value in _VLLM_ADDITIONS.items():
        yield rendering.added(key, value, "rollout.engine")


def environment(rendering: Rendering) -> dict[str, str]:
    """Variables that every process of the run must see."""
    if rendering.recipe.layout.device != "cpu":
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
        **(_VLLM_ENVIRONMENT if rendering.recipe.rollout.engine == "vllm" else {}),
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
