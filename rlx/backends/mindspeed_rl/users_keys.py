"""Map the keys of MindSpeed-RL's YAML to those of a recipe, and name the keys that rlx sets itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.backends.mindspeed_rl.checks import rendering_of
from rlx.backends.mindspeed_rl.keys import SHARED, find_table, is_known, shipped_versions
from rlx.backends.mindspeed_rl.yaml_sections import (
    ALL_LINEAR,
    HYDRA_DIR,
    MODEL,
    SAMPLING,
    SHIPPED,
    architecture,
    chosen,
)
from rlx.backends.shared.rendering import EffectiveSettings
from rlx.backends.shared.users_launches import (
    ABSENT,
    RecipeField,
    Rendered,
    UsersLaunch,
    among,
    full_path,
    number,
    same,
    setting_value,
    truth,
    whole,
)
from rlx.yaml_reader.hydra import bare_key, leaves

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

_PROGRAM = re.compile(r"(?:.*/)?train_(grpo|dapo|ppo|dpo)\.py")
_KINDS = ("grpo", "dapo", "ppo")
_RL, _ACTOR, _GENERATE = "rl_config", "actor_config", "generate_config"
_FOLDER = "runs would share it: rlx keeps what a run leaves behind in a directory of its own"
_STARTED = "rlx writes this file for each run"
DEFAULTS = "defaults"

EXAMPLE = "python cli/train_grpo.py --config-name …"
OWN: Mapping[str, str] = {
    f"{_ACTOR}.save": _FOLDER,
    "critic_config.save": _FOLDER,
    HYDRA_DIR: _FOLDER,
    f"{_RL}.use_tensorboard": _FOLDER,
    f"{_RL}.use_wandb": _FOLDER,
    f"{_RL}.runtime_env_path": _STARTED,
    DEFAULTS: "rlx names the description of the model that goes with model.arch",
}

_FIELDS = (
    RecipeField(f"{SHARED}.global_batch_size", "train.batch_size", whole),
    RecipeField(f"{SHARED}.train_iters", "train.steps", whole),
    RecipeField(f"{SHARED}.save_interval", "train.save_every", whole),
    RecipeField(f"{SHARED}.seed", "seed", lambda value: value if isinstance(value, int) else ABSENT),
    RecipeField(f"{_ACTOR}.micro_batch_size", "train.micro_batch_size", whole),
    RecipeField(f"{_ACTOR}.lr", "train.lr", number),
    RecipeField(f"{_ACTOR}.tensor_model_parallel_size", "layout.tp", whole),
    RecipeField(f"{_ACTOR}.pipeline_model_parallel_size", "layout.pp", whole),
    RecipeField(f"{_ACTOR}.expert_model_parallel_size", "layout.ep", whole),
    RecipeField(f"{_ACTOR}.context_parallel_size", "layout.cp", whole),
    RecipeField(f"{_RL}.mini_batch_size", "train.mini_batch_size", whole),
    RecipeField(f"{_RL}.n_samples_per_prompt", "rollout.n", whole),
    RecipeField(f"{_RL}.max_prompt_length", "data.max_prompt_tokens", whole),
    RecipeField(f"{_RL}.actor_forward_micro_batch_size", "rollout.log_prob_micro_batch_size", whole),
    RecipeField(f"{_GENERATE}.infer_tensor_parallel_size", "rollout.tp", whole),
    RecipeField(f"{_GENERATE}.infer_expert_parallel_size", "rollout.ep", whole),
    RecipeField(f"{_GENERATE}.gpu_memory_utilization", "rollout.memory_fraction", number),
    RecipeField(f"{_GENERATE}.enforce_eager", "rollout.enforce_eager", truth),
    RecipeField(f"{_GENERATE}.dtype", "model.dtype", among("bfloat16", "float16", "float32")),
    RecipeField(f"{SAMPLING}.max_tokens", "data.max_response_tokens", whole),
    RecipeField(f"{SAMPLING}.top_p", "rollout.top_p", number),
    RecipeField(f"{SAMPLING}.top_k", "rollout.top_k", lambda value: value if isinstance(value, int) else ABSENT),
    RecipeField(f"{SAMPLING}.temperature", "rollout.temperature", number),
)
# NPUs of one node: no larger one is known, and a YAML counts them all.
_LARGEST_NODE = 16
_NODE_SIZES = (_LARGEST_NODE, 8)


def takes(program: str) -> bool:
    return _PROGRAM.fullmatch(program) is not None


def program_of(tree: Mapping[str, Any]) -> str:
    if not any(section in tree for section in (SHARED, _RL, _ACTOR)):
        return ""
    section = tree.get(SHARED)
    stage = section.get("stage") if isinstance(section, Mapping) else None
    return f"cli/train_{str(stage or _KINDS[0]).removeprefix('ray_')}.py"


def file_of(program: str, config_name: str, folder: str) -> str:
    del program, folder
    return f"{config_name.removesuffix('.yaml')}.yaml" if config_name else ""


def keys_in(file: Path, tree: Mapping[str, Any]) -> Mapping[str, object]:
    del file
    return dict(leaves(tree))


def foreign(keys: Iterable[str]) -> tuple[str, ...]:
    """Return none: any key may stand in a YAML of MindSpeed-RL, and the check of the recipe names those unknown."""
    del keys
    return ()


def refusal(program: str) -> tuple[str, str] | None:
    match = _PROGRAM.fullmatch(program)
    if match and match[1] in _KINDS:
        return None
    return f"{program}: rlx has no recipe for this trainer of MindSpeed-RL", "launch it as it is: rlx launch --script"


def bare(key: str) -> str:
    """MindSpeed-RL reads `-` as `_`."""
    return bare_key(key).replace("-", "_")


def values(launch: UsersLaunch) -> Mapping[str, object]:
    """Return the recipe's values; what the launch does not set is MindSpeed-RL's own default."""
    version = launch.version or _newest_version(launch)
    settings = _settings(launch, version)
    found = {field.path: field.read(setting_value(settings, field.key)) for field in _FIELDS}
    found |= {"backend.kind": "mindspeed-rl", "backend.version": version, "backend.engine": "megatron"}
    found |= {"backend.workdir": launch.workdir or ABSENT, "algorithm.kind": _kind(launch, settings)}
    found |= {"layout.device": "npu", "eval.before_train": False}
    found |= dict(_model(launch, settings)) | dict(_data(launch, settings)) | dict(_layout(settings))
    found |= dict(_kl(settings)) | dict(_reward(settings))
    return {path: value for path, value in found.items() if value is not ABSENT}


def beyond_defaults(keys: Mapping[str, object]) -> Mapping[str, object]:
    launch = UsersLaunch("", keys)
    version = _newest_version(launch)
    defaults = EffectiveSettings(version, {**keys, **find_table(version).defaults}, {}, {})
    return {key: value for key, value in keys.items() if not same(value, defaults.get(bare(key)))}


def override(key: str, value: object, backend: Mapping[str, str]) -> tuple[str, object]:
    del backend  # a YAML has no prefixes
    return bare(key), value


def rendered(resolved: ResolvedRecipe) -> Mapping[str, Rendered]:
    rendering = rendering_of(resolved)
    found = {setting.key: Rendered(setting.value, setting.source) for setting in chosen(rendering)}
    if rendering.model_name in SHIPPED:
        found[DEFAULTS] = Rendered([{"model": [rendering.model_name]}], "model.arch")
    return found


def added(resolved: ResolvedRecipe, keys: Collection[str]) -> Mapping[str, object]:
    """Return none: a YAML of MindSpeed-RL says each of its settings."""
    del resolved, keys
    return {}


def _newest_version(launch: UsersLaunch) -> str:
    """Find the newest version that knows the most of the keys."""
    return max(
        reversed(shipped_versions()),
        key=lambda version: sum(is_known(bare(key), find_table(version)) for key in launch.keys),
    )


def _settings(launch: UsersLaunch, version: str) -> EffectiveSettings:
    written = {bare(key): value for key, value in launch.keys.items() if not key.startswith("~")}
    return EffectiveSettings(version, find_table(version).defaults, written, {})


def _kind(launch: UsersLaunch, settings: EffectiveSettings) -> str:
    stage = str(settings.get(f"{SHARED}.stage") or "").removeprefix("ray_")
    match = _PROGRAM.fullmatch(launch.program)
    return stage if stage in _KINDS else match[1] if match else _KINDS[0]


def _model(launch: UsersLaunch, settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    yield "model.path", full_path(setting_value(settings, f"{SHARED}.tokenizer_name_or_path"), launch.workdir)
    name = settings.get(MODEL)
    if arch := architecture(str(name)):
        yield "model.arch", arch
    rank, targets = settings.get(f"{SHARED}.lora_r"), settings.get(f"{SHARED}.lora_target_modules")
    # The rank has a default; what makes adapters is the list of modules that get some.
    if isinstance(targets, list) and targets and whole(rank) is not ABSENT:
        yield "model.lora.rank", rank
        yield "model.lora.alpha", number(settings.get(f"{SHARED}.lora_alpha"))
        if tuple(targets) != ALL_LINEAR:
            yield "model.lora.targets", targets


def _data(launch: UsersLaunch, settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    """Take the training data for validation, too: MindSpeed-RL never validates, so `data.val` is not read."""
    path = full_path(setting_value(settings, f"{SHARED}.data_path"), launch.workdir)
    yield "data.train", path
    yield "data.val", path


def _layout(settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    """Derive the nodes: a YAML counts the NPUs of all of them, and each is assumed to use all its NPUs."""
    npus = settings.get(f"{_RL}.actor_resource.num_npus")
    if not isinstance(npus, int) or npus < 1:
        return
    each = next((size for size in _NODE_SIZES if npus % size == 0), npus) if npus > _LARGEST_NODE else npus
    yield "layout.devices_per_node", each
    yield "layout.nodes", npus // each


def _kl(settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    coef = settings.get(f"{_RL}.init_kl_coef")
    if not coef:
        return
    yield "algorithm.kl.coef", number(coef)
    yield "algorithm.kl.place", "reward" if settings.get(f"{_RL}.use_kl_in_reward") is True else "loss"
    yield "algorithm.kl.estimator", among("kl", "abs", "mse", "low_var_kl")(settings.get(f"{_RL}.kl_penalty"))


def _reward(settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    verifiers, weights = (settings.get(f"{_RL}.verifier_{what}") for what in ("function", "weight"))
    if not isinstance(verifiers, list) or not verifiers:
        return
    if len(verifiers) == 1 and weights in ([1.0], None):
        yield "reward", verifiers[0]
        return
    yield "reward.verifiers", verifiers
    if isinstance(weights, list):
        yield "reward.weights", [found for weight in weights if (found := number(weight)) is not ABSENT]
