"""Check what TRL, or rlx with TRL, cannot do, and how a step is split into passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlx.backends.shared.vllm_cpu import HEAD_SIZES
from rlx.backends.trl.arguments import KEYS as CORRECTION
from rlx.backends.trl.rules.facts import TrlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import RuleFinding, error, note, rule

ENGINES = ("transformers", "vllm")
# A recipe has these for other back-ends or engines; their defaults are ignored.
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
def platform(facts: TrlFacts) -> Iterator[RuleFinding]:
    device, engine = facts.recipe.layout.device, facts.recipe.rollout.engine
    if device != "cpu":
        yield error(f"layout.device {device}: rlx runs TRL on a CPU", "layout.device cpu", "layout.device")
    if engine not in ENGINES:
        message = f"rollout.engine {engine}: rlx runs TRL with transformers' generation or vLLM"
        yield error(message, f"rollout.engine {' or '.join(ENGINES)}", "rollout.engine")


@rule("RLX177")
def model(facts: TrlFacts) -> Iterator[RuleFinding]:
    model = facts.recipe.model
    if model.dtype != "float32":
        yield error(f"model.dtype {model.dtype}: rlx runs TRL in float32", "model.dtype float32", "model.dtype")
    if model.lora is not None:
        yield error("model.lora: rlx trains all weights with TRL", "model.lora null", "model.lora")


@rule("RLX178")
def untaken(facts: TrlFacts) -> Iterator[RuleFinding]:
    for key in UNTAKEN:
        section, _, name = key.partition(".")
        fields: Any = getattr(facts.recipe, section)
        value = getattr(fields, name)
        if value != type(fields).model_fields[name].default:
            yield error(f"{key} {value}: TRL has nothing for it here", f"remove {key}", key)


@rule("RLX179")
def kept(facts: TrlFacts) -> Iterator[RuleFinding]:
    from rlx.backends.trl.arguments import rendered

    for key in facts.recipe.overrides:
        if key in KEPT:
            source = next((argument.source for argument in rendered(facts.recipe) if argument.key == key), "")
            yield error(f"overrides.{key}: rlx must know this", source or "remove it", f"overrides.{key}")


@rule("RLX181")
def checkpoint(facts: TrlFacts) -> Iterator[RuleFinding]:
    if facts.recipe.eval.post is not None and facts.recipe.train.save_every is None:
        fits = f"train.save_every {facts.steps}" if facts.steps else "set train.save_every"
        yield error("train.save_every null: eval.post would find no checkpoint", fits, "train.save_every")


@rule("RLX170")
def one_update(facts: TrlFacts) -> Iterator[RuleFinding]:
    train = facts.recipe.train
    if train.mini_batch_size != train.batch_size:
        message = f"train.mini_batch_size {train.mini_batch_size} is not train.batch_size {train.batch_size}"
        yield error(message, f"train.mini_batch_size {train.batch_size}", "train.mini_batch_size")


@rule("RLX171")
def micro_batch(facts: TrlFacts) -> Iterator[RuleFinding]:
    train, n = facts.recipe.train, facts.recipe.rollout.n
    answers = train.batch_size * n
    if answers % train.micro_batch_size:
        message = f"train.micro_batch_size {train.micro_batch_size} does not divide the {answers} answers of a step"
        fits = one_of(near(divisors(answers), train.micro_batch_size))
        yield error(message, f"train.micro_batch_size {fits}", "train.micro_batch_size")
    if n < 2:
        yield error("rollout.n 1: GRPO compares the answers to one prompt", "rollout.n 2 or more", "rollout.n")
    if train.micro_batch_size < facts.recipe.eval.n:
        message = f"eval.n {facts.recipe.eval.n}: TRL answers a row of the validation in one pass"
        yield error(message, f"train.micro_batch_size {facts.recipe.eval.n} or more", "eval.n")


@rule("RLX172")
def grpo(facts: TrlFacts) -> Iterator[RuleFinding]:
    kind = facts.recipe.algorithm.kind
    if kind != "grpo":
        yield error(f"algorithm.kind {kind}: rlx starts TRL's GRPO only", "algorithm.kind grpo", "algorithm.kind")


@rule("RLX173")
def kl(facts: TrlFacts) -> Iterator[RuleFinding]:
    kl = facts.recipe.algorithm.kl
    if kl is not None and kl.place != "loss":
        yield error(f"algorithm.kl.place {kl.place}: TRL's is in the loss", "place: loss", "algorithm.kl.place")
    if kl is not None and kl.estimator != "low_var_kl":
        message = f"algorithm.kl.estimator {kl.estimator}: TRL has one"
        yield error(message, "estimator: low_var_kl", "algorithm.kl.estimator")


@rule("RLX174")
def correction(facts: TrlFacts) -> Iterator[RuleFinding]:
    correction, place = facts.recipe.algorithm.correction, "algorithm.correction"
    if correction is None:
        return
    if facts.recipe.rollout.engine != "vllm":
        message = f"{place} with rollout.engine {facts.recipe.rollout.engine}: TRL has none"
        yield error(message, f"{place} null", place)
        return
    if correction.rejection is not None or correction.bypass:
        key = "rejection" if correction.rejection is not None else "bypass"
        yield error(f"{place}.{key}: TRL has weights only", f"{place}: {{weights: token}}", f"{place}.{key}")
    elif isinstance(correction.weights_threshold, str):
        message = f"{place}.weights_threshold {correction.weights_threshold}: TRL does not tell how many weights are 0"
        yield error(message, "one number, to which larger weights are cut", f"{place}.weights_threshold")


@rule("RLX175")
def noise(facts: TrlFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    if aqn is not None and aqn.provider == "builtin":
        yield error("aqn.provider builtin: TRL has no noise of its own", "aqn.provider payload", "aqn.provider")


@rule("RLX180")
def temperature(facts: TrlFacts) -> Iterator[RuleFinding]:
    evaluation, trained = facts.recipe.eval, facts.recipe.rollout.temperature
    if evaluation.every is None and not evaluation.before_train:
        return
    if evaluation.temperature != trained:
        message = f"eval.temperature {evaluation.temperature:g}: TRL validates at rollout.temperature {trained:g}"
        yield error(message, f"eval.temperature {trained:g}; eval.post may be greedy", "eval.temperature")
    else:
        message = f"TRL samples its answers to validations, too, at temperature {trained:g}"
        yield note(f"{message}: not comparable with greedy answers", "eval.post may be greedy", "eval.temperature")


@rule("RLX182")
def own_correction(facts: TrlFacts) -> Iterator[RuleFinding]:
    if _with_vllm(facts) and facts.recipe.algorithm.correction is None:
        message = "TRL's own correction of samples, on by default with vLLM, is switched off: the recipe asks for none"
        yield note(message, "algorithm.correction, in all arms", "algorithm.correction")


@rule("RLX183")
def head_size(facts: TrlFacts) -> Iterator[RuleFinding]:
    shape = facts.architecture
    if not _with_vllm(facts) or facts.recipe.layout.device != "cpu" or shape is None:
        return
    if shape.head_dim not in HEAD_SIZES:
        message = f"{shape.name} has heads of {shape.head_dim}, and vLLM on a CPU knows {one_of(HEAD_SIZES)}"
        yield error(message, "another model, or rollout.engine transformers", "rollout.engine")


@rule("RLX184")
def part_of_the_tokens(facts: TrlFacts) -> Iterator[RuleFinding]:
    rollout = facts.recipe.rollout
    if not _with_vllm(facts):
        return
    if rollout.top_p < 1:
        yield error(
            f"rollout.top_p {rollout.top_p:g} with vLLM: no gap can be told", "rollout.top_p 1", "rollout.top_p"
        )
    if rollout.top_k > 0:
        yield error(f"rollout.top_k {rollout.top_k} with vLLM: no gap can be told", "rollout.top_k -1", "rollout.top_k")


def _with_vllm(facts: TrlFacts) -> bool:
    return facts.recipe.rollout.engine == "vllm"
