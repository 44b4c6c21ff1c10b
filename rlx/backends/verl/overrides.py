"""A resolved recipe as Hydra overrides for verl, topic by topic, in their order on the command line.

Source of the keys of a fork's own noise: zhshgmail/verl, branch feature/npu-aqn-test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.shared.overrides import Override, path_on_all_nodes, path_override, refuse_interpolation, run_path
from rlx.backends.shared.post import training_outputs
from rlx.backends.shared.rendering import Rendering
from rlx.backends.shared.vllm_cpu import KV_CACHE_BYTES
from rlx.backends.verl.key_names import (
    BYPASS,
    CRITIC_SEED_KEYS,
    LOG_PROBS_KEY,
    LOGGER,
    READ_LOGGERS,
    REJECTION,
    REJECTION_LOW,
    REJECTION_THRESHOLD,
    SEED_KEYS,
    WEIGHTS,
    WEIGHTS_THRESHOLD,
)
from rlx.backends.verl.keys import release
from rlx.backends.verl.trainers import config_of
from rlx.model.run_dir import PAYLOAD_DIR

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

MEGATRON_SPLITS = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "ep": "expert_model_parallel_size",
    "cp": "context_parallel_size",
}
_SHORT_DTYPE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
# Every other estimator has the recipe's name for it.
_ESTIMATORS = {"ppo": "gae"}
_KL_KEYS = {
    "loss": ("actor_rollout_ref.actor.kl_loss_coef", "actor_rollout_ref.actor.kl_loss_type"),
    "reward": ("algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty"),
}
_ROLLOUT_KEYS = {
    "engine": "name",
    "n": "n",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "tp": "tensor_model_parallel_size",
    "ep": "expert_parallel_size",
    "memory_fraction": "gpu_memory_utilization",
    "enforce_eager": "enforce_eager",
    "log_prob_micro_batch_size": "log_prob_micro_batch_size_per_gpu",
}
CPU_PLUGIN, VLLM_CPU_PLUGIN = "rlx_verl_cpu", "rlx_verl_vllm_cpu"
"""The payload's modules for training on a CPU begin with these."""
# Only the trainer of 0.9 can be extended from outside as far as the payload needs it.
CPU_NEEDS_KEY = "trainer.v1.sampler.custom_sampler.path"
_ON_CPU = {
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
_VLLM_ON_CPU: dict[str, object] = {
    # No CPU build can give its memory back in between.
    "actor_rollout_ref.rollout.enable_sleep_mode": False,
    f"{_VLLM}.worker_cls": f"{VLLM_CPU_PLUGIN}_worker.ReloadableCPUWorker",
    f"{_VLLM}.kv_cache_memory_bytes": KV_CACHE_BYTES,
}
_BUCKET_KEY = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
_BUCKET_MIB = 16
OBJECT_STORE_BYTES = 256 * 1024**2
# Ray counts logical CPUs: with fewer the placement group waits for ever.
_LOGICAL_CPUS_PER_DEVICE = 8
FLASH_ATTENTION = "override_transformer_config.use_flash_attn"
SGLANG_ATTENTION = "actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend"
# From this release on verl sets flash attention itself (workers/engine/mindspeed/transformer_impl.py).
SETS_FLASH_ATTENTION = (0, 8)


@dataclass(frozen=True, slots=True)
class VerlRendering(Rendering):
    """A resolved recipe and the keys of the verl for which it is written."""

    @property
    def is_megatron(self) -> bool:
        return self.recipe.backend.engine == "megatron"

    @property
    def actor_engine(self) -> str:
        """The section that configures the actor's training engine."""
        return f"actor_rollout_ref.actor.{'megatron' if self.is_megatron else 'fsdp_config'}"

    @property
    def ref_engine(self) -> str:
        return f"actor_rollout_ref.ref.{'megatron' if self.is_megatron else 'fsdp_config'}"

    @property
    def config_name(self) -> str | None:
        """The configuration to start from, where it is not the entry point's own."""
        if self.recipe.backend.config_name:
            return str(self.recipe.backend.config_name)
        # Later versions choose the engine by the group model_engine and call this file deprecated.
        if not self.is_megatron or "model_engine" in self.table:
            return None
        return config_of(self.recipe, self.version) or "ppo_megatron_trainer"

    def added(self, key: str, value: object, source: str, verbatim: bool = False) -> Override:
        """Set a key that verl reads, but that some or all versions do not list in their configuration."""
        return Override(key, value, source, "" if key in self.table else "+", verbatim)

    def unless_idle(self, key: str, value: object, source: str, idle: object) -> Iterator[Override]:
        """Set a key that a fork may lack, unless the version lacks it and `value` asks for nothing."""
        if value != idle or key in self.table:
            yield Override(key, value, source)


def rendered(rendering: VerlRendering) -> tuple[Override, ...]:
    """Render what rlx itself writes, without the recipe's own `overrides`."""
    return tuple(override for topic in _TOPICS for override in topic(rendering))


def chosen(rendering: VerlRendering) -> tuple[Override, ...]:
    """Render what rlx writes; the recipe's `overrides` replace its values and follow at the end."""
    own = own_overrides(rendering)
    taken = {override.key for override in own}
    return tuple(override for override in rendered(rendering) if override.key not in taken) + own


def own_overrides(rendering: VerlRendering) -> tuple[Override, ...]:
    """Read the recipe's `overrides`, in its order: keys with Hydra's prefixes (`+a.b`), values verbatim.

    Trackers stand beside console and file, which rlx reads.
    """
    read = tuple(Override.read(key, value) for key, value in rendering.recipe.overrides.items())
    own = own_trackers(rendering.recipe)
    return tuple(replace(each, value=[*READ_LOGGERS, *own]) if own and each.key == LOGGER else each for each in read)


def own_trackers(recipe: Recipe) -> tuple[str, ...]:
    """Name the trackers that the recipe's `overrides` ask verl for."""
    asked = next((value for key, value in recipe.overrides.items() if key.lstrip("+") == LOGGER), None)
    names = [asked] if isinstance(asked, str) else asked if isinstance(asked, list | tuple) else []
    return tuple(str(name) for name in names if name not in READ_LOGGERS)


def guards_trackers(recipe: Recipe) -> bool:
    """Tell whether a tracker could end the run: verl itself ends with one that fails."""
    return recipe.track is not None or bool(own_trackers(recipe))


def cpu_resources(devices: int) -> dict[str, int]:
    """Count what a node of so many devices has, by Ray's names. The payload's platform calls a worker's one GPU."""
    return {"CPU": _LOGICAL_CPUS_PER_DEVICE * devices, "GPU": devices}


def _layout(rendering: VerlRendering) -> Iterator[Override]:
    """Set the devices, and how the model is split over them."""
    layout, engine = rendering.recipe.layout, rendering.recipe.backend.engine
    if not rendering.is_megatron:
        yield Override("actor_rollout_ref.actor.strategy", engine, "backend.engine")
    elif rendering.config_name is None:
        yield Override("model_engine", engine, "backend.engine")
    # Every version defaults to cuda; from 0.7 on verl corrects it at start, 0.6 does not.
    yield Override("trainer.device", layout.device, "layout.device")
    yield Override("trainer.nnodes", layout.nodes, "layout.nodes")
    yield Override("trainer.n_gpus_per_node", layout.devices_per_node, "layout.devices_per_node")
    if rendering.is_megatron:
        for field, key in MEGATRON_SPLITS.items():
            size = getattr(layout, field)
            yield from rendering.unless_idle(f"{rendering.actor_engine}.{key}", size, f"layout.{field}", 1)
            # verl starts a reference model only for a KL term.
            idle = size if rendering.recipe.algorithm.kl is None else 1
            yield from rendering.unless_idle(f"{rendering.ref_engine}.{key}", size, f"layout.{field}", idle)
    elif layout.cp > 1:
        yield Override("actor_rollout_ref.actor.ulysses_sequence_parallel_size", layout.cp, "layout.cp")
        # verl asserts that it splits sequences without padding only; 0.6 pads by default.
        yield Override("actor_rollout_ref.model.use_remove_padding", True, "layout.cp")
    if layout.device != "cuda":
        # torch.compile is unstable on NPU (verl's own NPU scripts switch it off) and pays off nowhere on a CPU.
        yield Override("actor_rollout_ref.actor.use_torch_compile", False, "layout.device")
        for section in () if rendering.is_megatron else (rendering.actor_engine, rendering.ref_engine):
            yield Override(f"{section}.use_torch_compile", False, "layout.device")


def _model(rendering: VerlRendering) -> Iterator[Override]:
    """Set the path of the model, and its precision."""
    model = rendering.recipe.model
    yield path_override("actor_rollout_ref.model.path", model.path, "model.path")
    yield Override("actor_rollout_ref.rollout.dtype", model.dtype, "model.dtype")
    for engine in (rendering.actor_engine, rendering.ref_engine):
        # Every engine of verl computes in bfloat16 by default.
        yield from rendering.unless_idle(f"{engine}.dtype", model.dtype, "model.dtype", "bfloat16")
        if model.dtype != "bfloat16" and not rendering.is_megatron:
            # From 0.8 on the FSDP engine computes in bfloat16 whatever `dtype` says, unless this is set.
            mixed = {"param_dtype": _SHORT_DTYPE[model.dtype], "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
            yield rendering.added(f"{engine}.mixed_precision", mixed, "model.dtype")


def _lora(rendering: VerlRendering) -> Iterator[Override]:
    """Set the adapters: FSDP reads flat keys in every version, Megatron a section that 0.6 does not have."""
    lora = rendering.recipe.model.lora
    if lora is None:
        return
    names = ("lora.rank", "lora.alpha", "lora.target_modules")
    if not rendering.is_megatron:
        names = ("lora_rank", "lora_alpha", "target_modules")
    rank, alpha, targets = (f"actor_rollout_ref.model.{name}" for name in names)
    yield Override(rank, lora.rank, "model.lora.rank")
    # verl declares alpha a whole number.
    yield Override(alpha, int(lora.alpha) if lora.alpha.is_integer() else lora.alpha, "model.lora.alpha")
    if lora.targets != "all-linear":
        # The default of either engine is every linear layer, in its own naming.
        yield Override(targets, lora.targets, "model.lora.targets")


def _data(rendering: VerlRendering) -> Iterator[Override]:
    data = rendering.recipe.data
    yield path_override("data.train_files", data.train, "data.train")
    yield path_override("data.val_files", data.val, "data.val")
    yield Override("data.prompt_key", data.prompt_key, "data.prompt_key")
    yield Override("data.max_prompt_length", data.max_prompt_tokens, "data.max_prompt_tokens")
    yield Override("data.max_response_length", data.max_response_tokens, "data.max_response_tokens")
    # verl's default ends the run at the first prompt that is too long.
    yield Override("data.filter_overlong_prompts", True, "data.max_prompt_tokens")


def _reward(rendering: VerlRendering) -> Iterator[Override]:
    """Set the reward function, a file that travels with the run; verl picks its own by the data's `data_source`."""
    from rlx.recipe.schema import FunctionReward

    reward = rendering.recipe.reward
    if not isinstance(reward, FunctionReward):
        return
    path = rendering.table.first("reward.custom_reward_function.path", "custom_reward_function.path")
    section = path.removesuffix(".path")
    refuse_interpolation(reward.path, "reward.path")
    file = path_on_all_nodes(rendering.recipe, f"{PAYLOAD_DIR}/{Path(reward.path).name}")
    yield Override(path, file, "reward.path", verbatim=True)
    yield Override(f"{section}.name", reward.function, "reward.function")
    if reward.kwargs:
        yield rendering.added(f"{section}.reward_kwargs", reward.kwargs, "reward.kwargs")


def _algorithm(rendering: VerlRendering) -> Iterator[Override]:
    """Set the advantage estimator, and where the distance to the reference policy counts."""
    algorithm = rendering.recipe.algorithm
    place = algorithm.kl.place if algorithm.kl else None
    yield Override("algorithm.adv_estimator", _ESTIMATORS.get(algorithm.kind, algorithm.kind), "algorithm.kind")
    yield Override("actor_rollout_ref.actor.use_kl_loss", place == "loss", "algorithm.kl.place")
    yield Override("algorithm.use_kl_in_reward", place == "reward", "algorithm.kl.place")
    if algorithm.kl:
        coef, estimator = _KL_KEYS[algorithm.kl.place]
        yield Override(coef, algorithm.kl.coef, "algorithm.kl.coef")
        yield Override(estimator, algorithm.kl.estimator, "algorithm.kl.estimator")


def _correction(rendering: VerlRendering) -> Iterator[Override]:
    """Set the correction of samples whose probabilities differ between rollout and actor."""
    correction, place = rendering.recipe.algorithm.correction, "algorithm.correction"
    if correction is None:
        return
    yield Override(WEIGHTS, correction.weights, f"{place}.weights")
    if correction.weights is not None:
        yield Override(WEIGHTS_THRESHOLD, correction.weights_threshold, f"{place}.weights_threshold")
    yield Override(REJECTION, correction.rejection, f"{place}.rejection")
    threshold, source = correction.rejection_threshold, f"{place}.rejection_threshold"
    # Both bounds are one text since 0.7; verl 0.6 has a key for each and wants numbers.
    low, _, high = str(threshold).rpartition("_")
    if threshold is not None and (REJECTION_LOW not in rendering.table or "," in high):
        yield Override(REJECTION_THRESHOLD, threshold, source)
    elif threshold is not None:
        yield Override(REJECTION_THRESHOLD, float(high), source)
        if low:
            yield Override(REJECTION_LOW, float(low), source)
    yield Override(BYPASS, correction.bypass, f"{place}.bypass")


def _critic(rendering: VerlRendering) -> Iterator[Override]:
    """Set the critic of PPO: the same model, engine and split as the actor. Other algorithms have none."""
    recipe = rendering.recipe
    if recipe.algorithm.kind != "ppo":
        return
    yield path_override("critic.model.path", recipe.model.path, "model.path")
    yield Override("critic.ppo_micro_batch_size_per_gpu", recipe.train.micro_batch_size, "train.micro_batch_size")
    if rendering.is_megatron:
        for field, key in MEGATRON_SPLITS.items():
            yield Override(f"critic.megatron.{key}", getattr(recipe.layout, field), f"layout.{field}")
    else:
        yield Override("critic.strategy", recipe.backend.engine, "backend.engine")
        engine = rendering.table.first("critic.fsdp.dtype", "critic.model.fsdp_config.dtype")
        yield Override(engine, recipe.model.dtype, "model.dtype")


def _train(rendering: VerlRendering) -> Iterator[Override]:
    """Set batches, the optimiser, the number of steps and the seeds."""
    recipe, train = rendering.recipe, rendering.recipe.train
    micro = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
    yield Override("data.train_batch_size", train.batch_size, "train.batch_size")
    yield Override("actor_rollout_ref.actor.ppo_mini_batch_size", train.mini_batch_size, "train.mini_batch_size")
    yield Override(micro, train.micro_batch_size, "train.micro_batch_size")
    yield Override("actor_rollout_ref.actor.optim.lr", train.lr, "train.lr")
    if train.steps is None:
        yield Override("trainer.total_epochs", train.epochs, "train.epochs")
    else:
        # A run whose epochs end first stops without its last validation. An epoch has at least one step, however many
        # prompts turn out too long; a fork's own noise spreads over all epochs, so it must not get more than it needs.
        in_epoch = recipe.data.train_rows // train.batch_size if recipe.data.train_rows else None
        is_fork = recipe.aqn is not None and recipe.aqn.provider == "builtin"
        epochs = -(-train.steps // in_epoch) if is_fork and in_epoch else train.steps
        yield Override("trainer.total_epochs", epochs, "train.steps")
        yield Override("trainer.total_training_steps", train.steps, "train.steps")
    yield Override("trainer.save_freq", train.save_every or -1, "train.save_every")
    seed_keys = SEED_KEYS + (CRITIC_SEED_KEYS if recipe.algorithm.kind == "ppo" else ())
    yield from (Override(key, recipe.seed, "seed") for key in seed_keys if key in rendering.table)


def _rollout(rendering: VerlRendering) -> Iterator[Override]:
    """Set the generation of samples, and the log-probability passes over them."""
    rollout = rendering.recipe.rollout
    for field, key in _ROLLOUT_KEYS.items():
        value, idle = getattr(rollout, field), 1 if field == "ep" else None
        yield from rendering.unless_idle(f"actor_rollout_ref.rollout.{key}", value, f"rollout.{field}", idle)
    if rollout.ep > rollout.tp:
        # verl asserts ep == tp * data_parallel_size.
        yield Override("actor_rollout_ref.rollout.data_parallel_size", rollout.ep // rollout.tp, "rollout.ep")
    if rendering.recipe.algorithm.kl is not None:
        micro = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"
        yield Override(micro, rollout.log_prob_micro_batch_size, "rollout.log_prob_micro_batch_size")
    if LOG_PROBS_KEY in rendering.table:
        # The gap between rollout and actor probabilities is the second, independent signal of applied noise.
        yield Override(LOG_PROBS_KEY, True, "rollout.engine")


def _evaluation(rendering: VerlRendering) -> Iterator[Override]:
    evaluation = rendering.recipe.eval
    sampling = "actor_rollout_ref.rollout.val_kwargs"
    yield Override("trainer.test_freq", evaluation.every or -1, "eval.every")
    yield Override("trainer.val_before_train", evaluation.before_train, "eval.before_train")
    yield Override(f"{sampling}.n", evaluation.n, "eval.n")
    yield Override(f"{sampling}.temperature", evaluation.temperature, "eval.temperature")
    yield Override(f"{sampling}.do_sample", evaluation.temperature > 0, "eval.temperature")


def _records(rendering: VerlRendering) -> Iterator[Override]:
    """Set what the run writes, and where: names, loggers, checkpoints, outputs of validations."""
    recipe, track = rendering.recipe, rendering.recipe.track
    if track is not None and track.project is not None:
        yield Override("trainer.project_name", track.project, "track.project")
    else:
        yield Override("trainer.project_name", recipe.name, "name")
    yield Override("trainer.experiment_name", f"{rendering.resolved.arm}-s{recipe.seed}", "seed")
    # The default asks for wandb and fails without a login.
    yield Override(LOGGER, [*READ_LOGGERS, *(track.to if track else ())], "track.to" if track else "name")
    # Each worker writes its part of a checkpoint on its own node.
    checkpoints = path_on_all_nodes(recipe, "checkpoints")
    outputs = run_path("RLX_ATTEMPT_DIR", training_outputs(recipe))
    yield Override("trainer.default_local_dir", checkpoints, "name", verbatim=True)
    # verl 0.6 reads it for Megatron, too, but lists it for FSDP only.
    yield rendering.added("trainer.validation_data_dir", outputs, "name", verbatim=True)
    yield Override("hydra.run.dir", run_path("RLX_ATTEMPT_DIR", "hydra"), "name", verbatim=True)


def _on_cpu(rendering: VerlRendering) -> Iterator[Override]:
    """Set what stock verl needs to train on a CPU, with rlx's own rollout or with vLLM's CPU build (payload)."""
    recipe, source = rendering.recipe, "layout.device"
    if recipe.layout.device != "cpu":
        return
    yield from (Override(key, value, source) for key, value in _ON_CPU.items())
    # verl demands a name even though no reward model runs.
    yield Override("reward.reward_model.rollout.name", recipe.rollout.engine, "rollout.engine")
    file = "trainer" if recipe.rollout.engine == "cpu" else "replay"
    sampler = path_on_all_nodes(recipe, f"{PAYLOAD_DIR}/{CPU_PLUGIN}_{file}.py")
    yield Override(CPU_NEEDS_KEY, sampler, source, verbatim=True)
    yield rendering.added("actor_rollout_ref.model.override_config.attn_implementation", "sdpa", source)
    if recipe.rollout.engine == "vllm":
        # verl keeps a buffer of this size for each sync; its default is 2 GiB.
        yield Override(_BUCKET_KEY, _BUCKET_MIB, "rollout.engine")
        yield from (rendering.added(key, value, "rollout.engine") for key, value in _VLLM_ON_CPU.items())
    elif recipe.model.lora is not None:
        # rlx's own rollout loads whole weights, not adapters.
        yield Override("actor_rollout_ref.model.lora.merge", True, "model.lora")
    # A driver that joins a Ray of several nodes does not set their resources: `ray_settings` in the planner does.
    if recipe.layout.nodes == 1:
        init, logical = "ray_kwargs.ray_init", cpu_resources(recipe.layout.devices_per_node)
        yield Override(f"{init}.num_cpus", logical["CPU"], source)
        yield rendering.added(f"{init}.num_gpus", logical["GPU"], "layout.devices_per_node")
        yield rendering.added(f"{init}.include_dashboard", False, source)
        yield rendering.added(f"{init}.object_store_memory", OBJECT_STORE_BYTES, source)


def _on_npus(rendering: VerlRendering) -> Iterator[Override]:
    """Set what runs on NPUs need and verl does not set by itself."""
    if rendering.recipe.layout.device != "npu":
        return
    if rendering.is_megatron and release(rendering.version) < SETS_FLASH_ATTENTION:
        # Megatron's own attention takes no packed sequences. MindSpeed asks the actor's settings alone; reference and
        # critic run in its processes.
        yield rendering.added(f"{rendering.actor_engine}.{FLASH_ATTENTION}", True, "layout.device")
    if rendering.recipe.rollout.engine == "sglang":
        # verl's default is an attention of CUDA.
        yield rendering.added(SGLANG_ATTENTION, "ascend", "rollout.engine")


def _fork_noise(rendering: VerlRendering) -> Iterator[Override]:
    """Set the noise of a fork of verl, in keys of its own."""
    aqn = rendering.recipe.aqn
    if aqn is None or aqn.provider != "builtin":
        return
    settings = {
        "enabled": (True, "provider"),
        "sigma_start": (aqn.sigma_start, "sigma_start"),
        "sigma_end": (aqn.sigma_end, "sigma_end"),
        "num_stages": (aqn.stages, "stages"),
        # No pattern at all lets the fork choose: every RMSNorm, or the post-attention ones of a mixture of experts.
        "target_modules": ([] if aqn.targets == "auto" else aqn.targets, "targets"),
        "exclude_patterns": (aqn.exclude, "exclude"),
        "layer_types": (aqn.layer_types, "layer_types"),
    }
    for name, (value, field) in settings.items():
        key = f"trainer.noise_injection.{name}"
        # The fork's early versions read these keys without listing them in their configuration.
        yield Override(key, value, f"aqn.{field}", "" if key in rendering.table else "++")


_TOPICS: tuple[Callable[[VerlRendering], Iterator[Override]], ...] = (
    _layout,
    _model,
    _lora,
    _data,
    _reward,
    _algorithm,
    _correction,
    _critic,
    _train,
    _rollout,
    _evaluation,
    _records,
    _on_cpu,
    _on_npus,
    _fork_noise,
)
