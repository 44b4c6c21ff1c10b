"""Map the keys of a verl launch to those of a recipe, and name the keys that rlx sets itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.backends.shared.rendering import EffectiveSettings
from rlx.backends.shared.users_launches import (
    ABSENT,
    CONFIG_NAME,
    TRAINS_NOTHING,
    RecipeField,
    Rendered,
    UsersLaunch,
    among,
    from_home,
    full_path,
    model_path,
    number,
    often,
    same,
    setting_value,
    text,
    truth,
    whole,
)
from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.config_folder import read_config_file
from rlx.backends.verl.key_names import (
    BYPASS,
    REJECTION,
    REJECTION_LOW,
    REJECTION_THRESHOLD,
    WEIGHTS,
    WEIGHTS_THRESHOLD,
)
from rlx.backends.verl.keys import TRAINERS, find_table, is_in_no_release, shipped_versions
from rlx.backends.verl.overrides import MEGATRON_SPLITS, chosen
from rlx.backends.verl.trainers import CONFIG, DAPO, MAIN_PPO, MEGATRON_CONFIG, is_dapo_key, trainer_of_program
from rlx.errors import UsageError
from rlx.yaml_reader.hydra import bare_key

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

_PROGRAM = re.compile(
    r"(?:.*[./])?verl[./](?:trainer|experimental)[./].*|recipe[./].*|.*[./]?main_(?:ppo|dapo)(?:\.py)?"
)
_OWN_FOLDER = re.compile(r"(?:\./)?(?:config/?)?|pkg://verl\..*|(?:.*/)?(?:verl/trainer|recipe/dapo)/config/?")
# A file of a layer sets some keys over verl's own; a copy of it has hundreds.
_MOST_OF_A_LAYER = 200
_NO_TRAINING = re.compile(
    r".*(?:main_eval|main_generation(?:_server)?|model_merger|data_preprocess|data_process|sidecar|dataset)\b.*"
)
_SUPERVISED = re.compile(r".*\b(?:fsdp_)?sft_trainer(?:_ray)?(?:\.py)?")
_ACTOR, _ROLLOUT, _MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
_NOISE = "trainer.noise_injection"
_RECORD = "rlx names each run by recipe, arm and seed, and keeps what it leaves behind in its own directory"
_SEED = "rlx gives every part of verl the seed of the run, so that seeds can be compared"
_EVIDENCE = "rlx reads there what the run did, and would not vouch for the result without"

EXAMPLE = "python -m verl.trainer.main_ppo …"
OWN: Mapping[str, str] = {
    "trainer.experiment_name": _RECORD,
    "trainer.default_local_dir": _RECORD,
    "trainer.validation_data_dir": _RECORD,
    "hydra.run.dir": _RECORD,
    "defaults": "a recipe starts from verl's own file, and sets each key of this one; further files are not read",
    "trainer.logger": "rlx reads console and file; further loggers want a login, and fail without",
    f"{_ROLLOUT}.calculate_log_probs": _EVIDENCE,
    "data.seed": _SEED,
    f"{_ACTOR}.data_loader_seed": _SEED,
    f"{_ACTOR}.fsdp_config.seed": _SEED,
    f"{_ACTOR}.megatron.seed": _SEED,
    "actor_rollout_ref.ref.fsdp_config.seed": _SEED,
    "actor_rollout_ref.ref.megatron.seed": _SEED,
    f"{_ROLLOUT}.seed": _SEED,
}

_KINDS = among("grpo", "rloo", "reinforce_plus_plus", gae="ppo")
_FIELDS = (
    RecipeField("algorithm.adv_estimator", "algorithm.kind", _KINDS),
    RecipeField(f"{_MODEL}.path", "model.path", model_path),
    RecipeField(f"{_ROLLOUT}.dtype", "model.dtype", among("bfloat16", "float16", "float32", half="float16")),
    RecipeField("data.prompt_key", "data.prompt_key", text),
    RecipeField("data.max_prompt_length", "data.max_prompt_tokens", whole),
    RecipeField("data.max_response_length", "data.max_response_tokens", whole),
    RecipeField("data.train_batch_size", "train.batch_size", whole),
    RecipeField(f"{_ACTOR}.ppo_mini_batch_size", "train.mini_batch_size", whole),
    RecipeField(f"{_ACTOR}.ppo_micro_batch_size_per_gpu", "train.micro_batch_size", whole),
    RecipeField(f"{_ACTOR}.optim.lr", "train.lr", number),
    RecipeField("trainer.total_epochs", "train.epochs", whole),
    RecipeField("trainer.total_training_steps", "train.steps", often),
    RecipeField("trainer.save_freq", "train.save_every", often),
    RecipeField(f"{_ROLLOUT}.name", "rollout.engine", among("vllm", "sglang", "cpu")),
    RecipeField(f"{_ROLLOUT}.n", "rollout.n", whole),
    RecipeField(f"{_ROLLOUT}.temperature", "rollout.temperature", number),
    RecipeField(f"{_ROLLOUT}.top_p", "rollout.top_p", number),
    RecipeField(f"{_ROLLOUT}.top_k", "rollout.top_k", lambda value: value if isinstance(value, int) else ABSENT),
    RecipeField(f"{_ROLLOUT}.tensor_model_parallel_size", "rollout.tp", whole),
    RecipeField(f"{_ROLLOUT}.expert_parallel_size", "rollout.ep", whole),
    RecipeField(f"{_ROLLOUT}.gpu_memory_utilization", "rollout.memory_fraction", number),
    RecipeField(f"{_ROLLOUT}.enforce_eager", "rollout.enforce_eager", truth),
    RecipeField(f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", "rollout.log_prob_micro_batch_size", whole),
    RecipeField("trainer.nnodes", "layout.nodes", whole),
    RecipeField("trainer.n_gpus_per_node", "layout.devices_per_node", whole),
    RecipeField("trainer.test_freq", "eval.every", often),
    RecipeField("trainer.val_before_train", "eval.before_train", truth),
    RecipeField(f"{_ROLLOUT}.val_kwargs.n", "eval.n", whole),
    RecipeField(f"{_ROLLOUT}.val_kwargs.temperature", "eval.temperature", number),
    RecipeField("data.seed", "seed", lambda value: value if isinstance(value, int) else ABSENT),
)
_CORRECTION = {"weights": WEIGHTS, "weights_threshold": WEIGHTS_THRESHOLD, "rejection": REJECTION, "bypass": BYPASS}
_NOISE_FIELDS = {
    "sigma_start": "sigma_start",
    "sigma_end": "sigma_end",
    "num_stages": "stages",
    "target_modules": "targets",
    "exclude_patterns": "exclude",
    "layer_types": "layer_types",
}
# verl 0.9: each with a configuration of its own.
_OTHER_ENGINES = ("veomni", "torchtitan", "mindspeed", "automodel")
# What a launch without it leaves to verl, which then counts in tokens; a recipe wants a number.
_LEAST_MICRO_BATCH = 1


def takes(program: str) -> bool:
    return _PROGRAM.fullmatch(program) is not None


def program_of(tree: Mapping[str, Any]) -> str:
    return "verl.trainer.main_ppo" if "actor_rollout_ref" in tree else ""


def file_of(program: str, config_name: str, folder: str) -> str:
    """Tell verl's own configurations from one of the user's, which a name or a folder asks for."""
    name = config_name.removesuffix(".yaml")
    own = (CONFIG, MEGATRON_CONFIG) if trainer_of_program(program) == DAPO else TRAINERS
    if name in ("", *own) and _OWN_FOLDER.fullmatch(folder):
        return ""
    return f"{name or own[0]}.yaml"


def keys_in(file: Path, tree: Mapping[str, Any]) -> Mapping[str, object]:
    """Read a configuration of the user's, and what it includes of its own folder; verl's own is below it.

    Of a copy of all of verl's configuration, those that differ from verl's own count. What verl lacks is added.
    """
    names, keys = read_config_file(file, tree, TRAINERS)
    if len(keys) > _MOST_OF_A_LAYER:
        keys = {key: value for key, value in beyond_defaults({"defaults": names, **keys}).items() if key != "defaults"}
    added = {f"++{key}" if is_in_no_release(key) else key: value for key, value in keys.items()}
    return {"defaults": names, **added} if names else added


def foreign(keys: Iterable[str]) -> tuple[str, ...]:
    """Return those that are set, not added, and that no version of verl has, with whatever engine or DAPO's trainer."""
    engines = tuple(f".{engine}." for engine in _OTHER_ENGINES)
    return tuple(
        key
        for key in keys
        if key[:1] not in ("+", "~")
        and key not in OWN
        and not any(engine in key for engine in engines)
        and not is_dapo_key(key)
        and is_in_no_release(key)
    )


def refusal(program: str) -> tuple[str, str] | None:
    if trainer_of_program(program):
        return None
    if _NO_TRAINING.fullmatch(program):
        return f"{program}: {TRAINS_NOTHING}", "name the script that starts the training"
    if _SUPERVISED.fullmatch(program):
        return (
            f"{program}: trains on given answers, and recipes are for reinforcement learning",
            "launch it as it is: rlx launch --script",
        )
    return (
        f"{program}: starts a trainer whose steps rlx cannot count beforehand",
        "launch it as it is: rlx launch --script; a recipe starts verl.trainer.main_ppo or recipe.dapo.main_dapo",
    )


def bare(key: str) -> str:
    return bare_key(key)


def values(launch: UsersLaunch) -> Mapping[str, object]:
    """Return the recipe's values; what the launch does not set is verl's own default."""
    engine = _engine(launch)
    version = launch.version or _version(launch, engine)
    settings = _settings(launch, version, engine)
    found = {field.path: field.read(setting_value(settings, field.key)) for field in _FIELDS}
    found |= {"backend.kind": "verl", "backend.version": version, "backend.engine": engine}
    device = settings.written.get("trainer.device")
    if device not in ("npu", "cuda", "cpu"):
        device = launch.device or "cuda"
    found |= {"layout.device": device, "reward": "by-data-source"}
    found |= {"backend.workdir": launch.workdir or ABSENT}
    found |= dict(_data(launch, settings)) | dict(_layout(settings, engine)) | dict(_start(launch, engine))
    found |= dict(_kl(settings)) | dict(_lora(settings, engine)) | dict(_micro_batches(settings))
    found |= dict(_correction(settings)) | dict(_noise(settings))
    return {path: value for path, value in found.items() if value is not ABSENT}


def beyond_defaults(keys: Mapping[str, object]) -> Mapping[str, object]:
    launch = UsersLaunch("", keys)
    engine = _engine(launch)
    version = _version(launch, engine)
    table = find_table(version, _trainer(engine))
    defaults = EffectiveSettings(version, {**keys, **table.defaults}, {}, {})
    return {key: value for key, value in keys.items() if key not in table or not same(value, defaults.get(key))}


def override(key: str, value: object, backend: Mapping[str, str]) -> tuple[str, object]:
    """Drop a `+` before a key that this version has, which Hydra would refuse; `++` sets it either way."""
    known = find_table(backend["version"], _trainer(backend.get("engine", ""))).defaults
    return (f"+{key}" if key.startswith("+") and not key.startswith("++") and bare(key) in known else key), value


def rendered(resolved: ResolvedRecipe) -> Mapping[str, Rendered]:
    rendering = rendering_of(resolved)
    found = {
        key: Rendered(value, override.source) for override in chosen(rendering) for key, value in override.leaves()
    }
    name = rendering.config_name
    source = "backend.config_name" if rendering.recipe.backend.config_name else "backend.engine"
    return {**found, CONFIG_NAME: Rendered(name, source)} if name else found


def added(resolved: ResolvedRecipe, keys: Collection[str]) -> Mapping[str, object]:
    """Leave out what rlx writes in any recipe, and where verl's default is none, or follows from another key."""
    defaults = rendering_of(resolved).table.defaults
    given = {bare(key) for key in keys}
    return {
        key: each.value
        for key, each in rendered(resolved).items()
        if key not in given and key not in OWN and key != CONFIG_NAME and not key.startswith("hydra")
        if each.source not in ("seed", "name") and defaults.get(key) not in (None, "???")
        if "${" not in str(defaults[key]) and not same(defaults[key], each.value)
    }


def _trainer(engine: str) -> str:
    return TRAINERS[engine == "megatron"]


def _engine(launch: UsersLaunch) -> str:
    """Return the engine of a recipe. Raises UsageError for one whose configuration lacks the keys that rlx writes."""
    keys = {bare(key): value for key, value in launch.keys.items()}
    named = keys.get("model_engine", keys.get(f"{_ACTOR}.strategy"))
    if named in _OTHER_ENGINES:
        raise UsageError(
            f"model_engine {named}: rlx has no recipes for it, only for fsdp, fsdp2 and megatron",
            "launch it as it is: rlx launch --script",
        )
    if named == "megatron" or "megatron" in f"{launch.config_name} {keys.get('defaults')}":
        return "megatron"
    if named in (None, "dp") and any(key.startswith(f"{_ACTOR}.megatron.") for key in keys):
        return "megatron"
    strategy = keys.get(f"{_ACTOR}.strategy")
    return str(strategy) if strategy in ("fsdp", "fsdp2") else "fsdp"


def _version(launch: UsersLaunch, engine: str) -> str:
    """Find the newest version that knows the most keys; one in development only if no released one knows as many."""
    released_first = sorted(reversed(shipped_versions()), key=lambda version: "dev" in version)

    def misfits(version: str) -> int:
        table = find_table(version, _trainer(engine))
        return sum((bare(key) in table) == (key.startswith("+") and not key.startswith("++")) for key in launch.keys)

    return min(released_first, key=misfits)


def _settings(launch: UsersLaunch, version: str, engine: str) -> EffectiveSettings:
    written: dict[str, object] = {}
    for key, value in launch.keys.items():
        if not key.startswith("~"):
            written[bare(key)] = from_home(value)  # an interpolation inside of a value would be known at start only
    removed = frozenset(bare(key) for key in launch.keys if key.startswith("~"))
    return EffectiveSettings(version, find_table(version, _trainer(engine)).defaults, written, {}, removed)


def _start(launch: UsersLaunch, engine: str) -> Iterator[tuple[str, object]]:
    own = "ppo_megatron_trainer" if engine == "megatron" else "ppo_trainer"
    if trainer_of_program(launch.program) == DAPO:
        own = MEGATRON_CONFIG if engine == "megatron" else CONFIG
        yield "backend.trainer", DAPO
    if launch.program.removesuffix(".py").replace("/", ".") != MAIN_PPO:
        yield "backend.entrypoint", launch.program
    if launch.config_name and launch.config_name.removesuffix(".yaml") != own:
        yield "backend.config_name", launch.config_name.removesuffix(".yaml")


def _data(launch: UsersLaunch, settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    """Of several files the first: all of them stay in `overrides`."""
    for key, path in (("data.train_files", "data.train"), ("data.val_files", "data.val")):
        value = setting_value(settings, key)
        yield path, full_path(value[0] if isinstance(value, list) and value else value, launch.workdir)


def _layout(settings: EffectiveSettings, engine: str) -> Iterator[tuple[str, object]]:
    if engine != "megatron":
        yield "layout.cp", whole(settings.get(f"{_ACTOR}.ulysses_sequence_parallel_size"))
        return
    for field, key in MEGATRON_SPLITS.items():
        yield f"layout.{field}", whole(settings.get(f"{_ACTOR}.megatron.{key}"))


def _kl(settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    in_loss = settings.get(f"{_ACTOR}.use_kl_loss") is True
    if not in_loss and settings.get("algorithm.use_kl_in_reward") is not True:
        return
    coef = settings.get(f"{_ACTOR}.kl_loss_coef" if in_loss else "algorithm.kl_ctrl.kl_coef")
    estimator = settings.get(f"{_ACTOR}.kl_loss_type" if in_loss else "algorithm.kl_penalty")
    read = among("kl", "abs", "mse", "low_var_kl", k1="kl", k2="mse", k3="low_var_kl")
    yield "algorithm.kl.place", "loss" if in_loss else "reward"
    yield "algorithm.kl.coef", number(coef)
    yield "algorithm.kl.estimator", read(estimator)


def _lora(settings: EffectiveSettings, engine: str) -> Iterator[tuple[str, object]]:
    names = ("lora.rank", "lora.alpha", "lora.target_modules")
    if engine != "megatron":
        names = ("lora_rank", "lora_alpha", "target_modules")
    rank, alpha, targets = (settings.get(f"{_MODEL}.{name}") for name in names)
    if whole(rank) is ABSENT:
        return
    yield "model.lora.rank", rank
    yield "model.lora.alpha", number(alpha)
    if isinstance(targets, list) and f"{_MODEL}.{names[2]}" in settings.written:
        yield "model.lora.targets", targets


def _micro_batches(settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    """Fill in what a launch with batches counted in tokens does not set."""
    micro = settings.get(f"{_ACTOR}.ppo_micro_batch_size_per_gpu")
    if whole(micro) is ABSENT:
        yield "train.micro_batch_size", _LEAST_MICRO_BATCH
    for part in ("rollout", "ref"):
        own = settings.get(f"actor_rollout_ref.{part}.log_prob_micro_batch_size_per_gpu")
        if whole(own) is not ABSENT:
            yield "rollout.log_prob_micro_batch_size", own
            return
    yield "rollout.log_prob_micro_batch_size", _LEAST_MICRO_BATCH if whole(micro) is ABSENT else micro


def _correction(settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    if not any(settings.get(key) for key in (WEIGHTS, REJECTION, BYPASS)):
        return
    found = {field: settings.get(key) for field, key in _CORRECTION.items()}
    if found["weights"] is None:
        found.pop("weights_threshold")
    if found["rejection"] is not None:
        low, high = settings.get(REJECTION_LOW), settings.get(REJECTION_THRESHOLD)
        found["rejection_threshold"] = high if low is None else f"{low}_{high}"
    yield from ((f"algorithm.correction.{field}", value) for field, value in found.items() if value is not None)


def _noise(settings: EffectiveSettings) -> Iterator[tuple[str, object]]:
    """Read the noise of a fork, in keys of its own."""
    if settings.get(f"{_NOISE}.enabled") is not True:
        return
    yield "aqn.provider", "builtin"
    for key, field in _NOISE_FIELDS.items():
        value = settings.get(f"{_NOISE}.{key}")
        if field.startswith("sigma") and isinstance(value, int):
            value = number(value)
        if value not in (None, [], ABSENT):
            yield f"aqn.{field}", value
