"""TRL: what rlx has not run with it, and keys of a recipe that it has nothing for. None is passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlx.backends.trl.correction import KEYS as CORRECTION
from rlx.backends.trl.rules.facts import TrlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule

ENGINES = ("transformers", "vllm")
# A recipe has these for other back-ends or engines; what they are by default says nothing.
UNTAKEN = (
    *(f"backend.{name}" for name in ("engine", "entrypoint", "config_name", "key_source")),
    *(f"rollout.{name}" for name in ("tp", "ep", "memory_fraction", "enforce_eager", "deterministic")),
    *(f"layout.{name}" for name in ("nodes", "devices_per_node", "tp", "pp", "ep", "cp", "pools")),
)
# rlx counts steps, generations and validations by these, or reads what they lead to.
KEPT = (
    "max_steps",
    "num_train_epochs",
    "num_generations",
    "num_generations_eval",
    "num_iterations",
    "steps_per_generation",
    "generation_batch_size",
    "gradient_accumulation_steps",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "temperature",
    "generation_kwargs",
    "output_dir",
    "resume_from_checkpoint",
    "logging_steps",
    "logging_strategy",
    "model_init_kwargs",
    *(f"eval_{name}" for name in ("strategy", "steps", "on_start", "delay")),
    *(f"save_{name}" for name in ("strategy", "steps", "only_model", "total_limit")),
    *(f"use_{name}" for name in ("vllm", "cpu", "transformers_continuous_batching", "transformers_paged")),
    *("bf16", "fp16", "auto_find_batch_size", "accelerator_config", "deepspeed", "fsdp", "parallelism_config"),
    *("cast_lm_head_to_fp32", "cache_implementation", "disable_tqdm"),
    *(f"vllm_{name}" for name in ("mode", "model_impl", "tensor_parallel_size", "enable_sleep_mode")),
    *("vllm_max_model_length", *CORRECTION),
)


@rule("RLX176")
def platform(facts: TrlFacts) -> Iterator[Flaw]:
    device, engine = facts.recipe.layout.device, facts.recipe.rollout.engine
    if device != "cpu":
        yield error(f"layout.device {device}: rlx runs TRL on a CPU", "layout.device cpu", "layout.device")
    if engine not in ENGINES:
        message = f"rollout.engine {engine}: rlx runs TRL with transformers' generation or vLLM"
        yield error(message, f"rollout.engine {' or '.join(ENGINES)}", "rollout.engine")


@rule("RLX177")
def model(facts: TrlFacts) -> Iterator[Flaw]:
    said = facts.recipe.model
    if said.dtype != "float32":
        yield error(f"model.dtype {said.dtype}: rlx runs TRL in float32", "model.dtype float32", "model.dtype")
    if said.lora is not None:
        yield error("model.lora: rlx trains all weights with TRL", "model.lora null", "model.lora")


@rule("RLX178")
def untaken(facts: TrlFacts) -> Iterator[Flaw]:
    for key in UNTAKEN:
        value, default = _at(facts.recipe, key), _default_of(facts.recipe, key)
        if value != default:
            yield error(f"{key} {value}: TRL has nothing for it here", f"remove {key}", key)


@rule("RLX179")
def kept(facts: TrlFacts) -> Iterator[Flaw]:
    for key in facts.recipe.overrides:
        if key in KEPT:
            source = next((said for name, said in _written(facts) if name == key), "")
            yield error(f"overrides.{key}: rlx must know this", f"{source or 'remove it'}", f"overrides.{key}")


def _written(facts: TrlFacts) -> Iterator[tuple[str, str]]:
    from rlx.backends.trl.arguments import rendered

    return ((argument.key, argument.source) for argument in rendered(facts.recipe))


def _at(recipe: Any, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(recipe, section), name)


def _default_of(recipe: Any, key: str) -> Any:
    section, name = key.split(".")
    return type(getattr(recipe, section)).model_fields[name].default
