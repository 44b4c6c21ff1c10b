"""Signs in verl's log that the settings of a recipe were applied, and the modes and precision in which it trains.

Sources: verl/workers/utils/losses.py for the KL loss, `apply_kl_penalty` of verl/trainer/ppo/ray_trainer.py for the
penalty in the reward, `compute_data_metrics` of verl/trainer/ppo/metric_utils.py for lengths and advantages, and
`compute_grpo_outcome_advantage` of verl/trainer/ppo/core_algos.py.
The learning rate: verl/utils/torch_functional.py, `get_constant_schedule_with_warmup` and
`get_cosine_schedule_with_warmup`; verl/workers/engine/fsdp/transformer_impl.py, `_build_lr_scheduler`, and
verl/workers/fsdp_workers.py of 0.6.1; verl/workers/config/optimizer.py, where `warmup_style` replaces
`lr_scheduler_type`; verl/trainer/config/optim. Precision: `rollout.dtype`, `rollout.quantization` and `qat` of 0.6.1 to
0.9.1, and `trainer.hw_error_injection` of zhshgmail/verl, which imitates formats such as MXFP4. Modes:
verl/trainer/config/ppo_trainer.yaml and its groups, of 0.6.1 to 0.9.1; the configurations for training one step off
policy (recipe/ or verl/experimental/one_step_off_policy: the section `rollout` at the top) and fully asynchronously
(`async_training`); recipe/dapo; verl/workers/rollout for how its engines quantise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any

from rlx.evidence.learning_rates import RateSchedule, constant, cosine, rate_reading
from rlx.evidence.log_grammar import PrecisionSettings
from rlx.evidence.modes import ALL_MODES, Mode, is_set, setting
from rlx.evidence.run_configuration import MODEL_DTYPE
from rlx.evidence.run_evidence import SERVED, TRAINED
from rlx.evidence.traces import COMPOSED_ONLY, RECORDED, Trace, TraceInput, TraceReading, TraceStatus
from rlx.evidence.verdict import at_steps

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_KL_LOSS, _KL_COEFFICIENT = "actor/kl_loss", "actor/kl_coef"
_KL_REWARD, _KL_REWARD_COEFFICIENT = "actor/reward_kl_penalty", "actor/reward_kl_penalty_coeff"
_TOKENS, _PROMPTS, _ANSWERS = "perf/total_num_tokens", "prompt_length/mean", "response_length/mean"
_LONGEST_ANSWER, _LONGEST_PROMPT = "response_length/max", "prompt_length/max"
_HIGHEST_ADVANTAGE = "critic/advantages/max"
_EPOCH = "training/epoch"
_LORA_RANKS = ("actor_rollout_ref.model.lora_rank", "actor_rollout_ref.model.lora.rank")
_LOADED_ADAPTERS = ("actor_rollout_ref.model.lora_adapter_path", "actor_rollout_ref.model.lora.adapter_path")
_OTHER_NAMES = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "float": "float32", "fp32": "float32"}
"""Of precisions, as engines and users write them."""
_SLACK_OF_TOKENS = 0.02
_SYNCHRONOUS_ONLY = frozenset({Mode.LORA, Mode.MOE, Mode.RESUMED, Mode.QUANTISED_ROLLOUT, Mode.DYNAMIC_BATCHES})
_STEP_BY_STEP = ALL_MODES - {Mode.ASYNCHRONOUS}
_RATE = "actor/lr"
_OPTIM = "actor_rollout_ref.actor.optim"
_WARM_UP = (f"{_OPTIM}.lr_warmup_steps", f"{_OPTIM}.lr_warmup_steps_ratio")
_NAMES_OF_SCHEDULE = (f"{_OPTIM}.warmup_style", f"{_OPTIM}.lr_scheduler_type", f"{_OPTIM}.lr_decay_style")
"""The first that is set counts."""
_SHAPE = (f"{_OPTIM}.min_lr_ratio", f"{_OPTIM}.num_cycles")
_RATE_KEYS = ("train.lr", *(f"overrides.{key}" for key in (f"{_OPTIM}.lr", *_WARM_UP, *_NAMES_OF_SCHEDULE, *_SHAPE)))
"""The keys of a recipe that the rate shows."""
_FSDP = ("fsdp", "fsdp2")
_CONSTANT_UNLESS_SET = (None, *_FSDP, "megatron")
"""Other engines decay by default; their names for it differ."""
_ACTOR_DTYPES = (f"{_ACTOR}.fsdp_config.dtype", f"{_ACTOR}.megatron.dtype")
_TRAINED_QUANTISED = tuple(f"{_ACTOR}{engine}.qat.enable" for engine in ("", ".fsdp_config", ".megatron"))
_IMITATED = "trainer.hw_error_injection"
_IMITATION = tuple(f"{_IMITATED}.{name}" for name in ("enabled", "apply_during", "error_type"))
_KEYS = frozenset((*_ACTOR_DTYPES, *_TRAINED_QUANTISED, *_IMITATION, f"{_ROLLOUT}.dtype", f"{_ROLLOUT}.quantization"))
_MODEL = "actor_rollout_ref.model"
_ENGINES = tuple(f"{_ROLLOUT}.engine_kwargs.{name}" for name in ("vllm", "sglang", "trtllm"))
_ON = {
    Mode.PARTIAL_ROLLOUTS: ("async_training.partial_rollout", f"{_ROLLOUT}.partial_rollout"),
    Mode.DYNAMIC_BATCHES: (f"{_ACTOR}.use_dynamic_bsz",),
    Mode.FILTERED_GROUPS: ("algorithm.filter_groups.enable", "data.filter_accuracy"),
    Mode.MULTI_TURN: (
        f"{_ROLLOUT}.multi_turn.enable",
        f"{_ROLLOUT}.multi_turn.tool_config_path",
        f"{_ROLLOUT}.multi_turn.function_tool_path",
        f"{_ROLLOUT}.multi_turn.interaction_config_path",
        f"{_ROLLOUT}.agent.agent_loop_config_path",
    ),
    Mode.LORA: (
        f"{_MODEL}.lora_rank",
        f"{_MODEL}.lora.rank",
        f"{_MODEL}.lora_adapter_path",
        f"{_MODEL}.lora.adapter_path",
    ),
    Mode.QUANTISED_ROLLOUT: (
        f"{_ROLLOUT}.quantization",
        f"{_ROLLOUT}.quantization_config_file",
        f"{_ACTOR}.fsdp_config.qat.enable",
        f"{_ACTOR}.megatron.qat.enable",
        *(f"{engine}.quantization" for engine in _ENGINES),
    ),
    Mode.MOE: (f"{_ROLLOUT}.enable_rollout_routing_replay", f"{_ROLLOUT}.moe_load_balance_metrics_interval"),
}
"""Settings of which one that is on suffices."""
_CACHES = tuple(f"{engine}.kv_cache_dtype" for engine in _ENGINES)
_EXPERTS = (
    f"{_ROLLOUT}.expert_parallel_size",
    f"{_ACTOR}.fsdp_config.expert_parallel_size",
    f"{_ACTOR}.megatron.expert_model_parallel_size",
    f"{_ACTOR}.torchtitan.expert_parallel_size",
    f"{_ACTOR}.veomni.expert_parallel_size",
)
_NAMES_OF_EXPERTS = re.compile(
    r"\d+B-A\d|moe|mixtral|deepseek[-_]?(v[2-9]|r1(?!-distill))|moonlight|gpt-oss|kimi-k2|llama-4", re.IGNORECASE
)
"""No setting names the kind of a model, and most are run without parallel experts: `Qwen3-30B-A3B`."""


def _kl(given: TraceInput) -> TraceReading:
    """Both places of a KL term: each is logged where it is taken, with its coefficient, and not where it is not."""
    in_loss = _kl_term(given, f"{_ACTOR}.use_kl_loss", f"{_ACTOR}.kl_loss_coef", (_KL_LOSS, _KL_COEFFICIENT))
    fixed = given.value("algorithm.kl_ctrl.type") in (None, "fixed")
    coefficient = "algorithm.kl_ctrl.kl_coef" if fixed else ""
    in_reward = _kl_term(given, "algorithm.use_kl_in_reward", coefficient, (_KL_REWARD, _KL_REWARD_COEFFICIENT))
    order = list(TraceStatus)
    return min(in_loss, in_reward, key=lambda reading: order.index(reading.shown))


def _kl_term(given: TraceInput, switch: str, coefficient: str, names: tuple[str, str]) -> TraceReading:
    is_on, metric, logged = given.value(switch), names[0], given.series(names[0])
    if not isinstance(is_on, bool) or not given.series("actor/grad_norm"):
        return COMPOSED_ONLY
    if not is_on:
        # Some versions log a loss that is not taken as zero.
        taken = [step for step, value in logged.items() if value]
        if taken:
            return TraceReading(
                TraceStatus.CONTRADICTED, f"{metric} is logged at {at_steps(taken)}, and no KL term is set", taken[0]
            )
        return TraceReading(TraceStatus.SHOWN, f"no {metric}")
    if not logged:
        return TraceReading(TraceStatus.SILENT, f"{metric} is not logged, though the KL term is on")
    expected, found = given.number(coefficient) if coefficient else None, given.series(names[1])
    wrong = [step for step, value in found.items() if expected is not None and not given.agree(value, expected)]
    if wrong:
        words = f"{names[1]} is {found[wrong[0]]:g} at {at_steps(wrong)}, and {coefficient} is {expected:g}"
        return TraceReading(TraceStatus.CONTRADICTED, words, wrong[0])
    return TraceReading(TraceStatus.SHOWN, f"{metric} at {len(logged)} steps")


def _answers_a_step(given: TraceInput) -> TraceReading:
    """Tokens of a step = prompts x answers to each x (mean prompt + mean answer)."""
    batch, answers = given.number("data.train_batch_size"), given.number(f"{_ROLLOUT}.n")
    tokens, prompts, lengths = given.series(_TOKENS), given.series(_PROMPTS), given.series(_ANSWERS)
    if batch is None or answers is None:
        return COMPOSED_ONLY
    shares = {
        step: found / (prompts[step] + lengths[step])
        for step, found in tokens.items()
        if step in prompts and step in lengths and prompts[step] + lengths[step] > 0
    }
    if not shares:
        return COMPOSED_ONLY
    wrong = [step for step, found in shares.items() if abs(found / (batch * answers) - 1) > _SLACK_OF_TOKENS]
    if 2 * len(wrong) > len(shares):
        found = median(shares[step] for step in wrong)
        due = f"{batch:g} prompts with {answers:g} answers each are {batch * answers:g}"
        words = f"{_TOKENS} are those of {found:.4g} answers at {at_steps(wrong)}, and {due}"
        return TraceReading(TraceStatus.CONTRADICTED, words, wrong[0])
    return TraceReading(TraceStatus.SHOWN, f"{_TOKENS} at {len(shares)} steps")


def _longest_answer(given: TraceInput) -> TraceReading:
    return _bounded(given, _LONGEST_ANSWER, "data.max_response_length")


def _longest_prompt(given: TraceInput) -> TraceReading:
    return _bounded(given, _LONGEST_PROMPT, "data.max_prompt_length")


def _bounded(given: TraceInput, metric: str, key: str) -> TraceReading:
    """Compare a bound: a length that no step exceeds, and that some step reaches, is the one that was set."""
    bound, logged = given.number(key), given.series(metric)
    if bound is None or not logged:
        return COMPOSED_ONLY
    longer = [step for step, value in logged.items() if value > bound]
    if longer:
        words = f"{metric} is {logged[longer[0]]:g} at {at_steps(longer)}, and {key} is {bound:g}"
        return TraceReading(TraceStatus.CONTRADICTED, words, longer[0])
    return TraceReading(TraceStatus.SHOWN, f"{metric} reaches it") if max(logged.values()) == bound else COMPOSED_ONLY


def _estimator(given: TraceInput) -> TraceReading:
    """Find GAE by its critic, and GRPO by its advantages: a group of n allows at most (n - 1) / sqrt(n) deviations."""
    estimator, losses = given.value("algorithm.adv_estimator"), given.series("critic/vf_loss")
    if not isinstance(estimator, str):
        return COMPOSED_ONLY
    if estimator == "gae":
        return TraceReading(TraceStatus.SHOWN, f"critic/vf_loss at {len(losses)} steps") if losses else COMPOSED_ONLY
    answers = given.number(f"{_ROLLOUT}.n")
    if (
        estimator == "grpo"
        and answers
        and answers > 1
        and given.value("algorithm.norm_adv_by_std_in_grpo") is not False
    ):
        bound, advantages = (answers - 1) / math.sqrt(answers), given.series(_HIGHEST_ADVANTAGE)
        higher = [step for step, value in advantages.items() if value > bound * 1.001]
        if higher:
            found = f"{_HIGHEST_ADVANTAGE} is {advantages[higher[0]]:g} at {at_steps(higher)}"
            words = f"{found}; of groups of {answers:g} it is at most {bound:.4g}"
            return TraceReading(TraceStatus.CONTRADICTED, words, higher[0])
    return COMPOSED_ONLY


def _epochs(given: TraceInput) -> TraceReading:
    """Epochs are counted from 0, and the last step is of the last one where nothing but the data ends the run."""
    epochs, logged = given.number("trainer.total_epochs"), given.series(_EPOCH)
    later = [step for step, value in logged.items() if epochs is not None and value >= epochs]
    if later:
        found = f"{_EPOCH} is {logged[later[0]]:g}, counted from 0, at {at_steps(later)}"
        words = f"{found}, and trainer.total_epochs is {epochs:g}"
        return TraceReading(TraceStatus.CONTRADICTED, words, later[0])
    if epochs is None or not logged:
        return COMPOSED_ONLY
    reached = max(logged.values())
    if reached == epochs - 1:
        return TraceReading(TraceStatus.SHOWN, f"{_EPOCH} reaches its last")
    if _ends_with_its_data(given) and max(logged) >= given.total_steps:
        words = f"{_EPOCH} is {reached:g}, counted from 0, at the last step, and trainer.total_epochs is {epochs:g}"
        return TraceReading(TraceStatus.CONTRADICTED, words, max(logged))
    return COMPOSED_ONLY


def _ends_with_its_data(given: TraceInput) -> bool:
    """Tell whether the epochs alone determine the number of steps, each of them of one batch."""
    counted_otherwise = {Mode.OFF_POLICY, Mode.FILTERED_GROUPS, Mode.PARTIAL_ROLLOUTS, Mode.RESUMED}
    is_limited = given.value("trainer.total_training_steps") is not None
    return given.total_steps > 0 and not is_limited and not given.modes & counted_otherwise


def _filtered_groups(given: TraceInput) -> TraceReading:
    is_on = given.value("algorithm.filter_groups.enable")
    batches = given.series("train/num_gen_batches")
    if is_on is True and batches:
        return TraceReading(TraceStatus.SHOWN, f"train/num_gen_batches at {len(batches)} steps")
    return COMPOSED_ONLY


def _dtype(given: TraceInput) -> TraceReading:
    """Single tensors may be kept in another precision, such as those of a router."""
    planned = given.value(f"{_ROLLOUT}.dtype")
    found = {dtype for record in given.evidence.weights if record.role == SERVED for dtype in record.dtypes}
    if not isinstance(planned, str) or planned == "auto" or not found:
        return COMPOSED_ONLY
    if _OTHER_NAMES.get(planned, planned) not in found:
        words = f"the weights of the engine are {' and '.join(sorted(found))}, and {_ROLLOUT}.dtype is {planned}"
        return TraceReading(TraceStatus.CONTRADICTED, words)
    return TraceReading(TraceStatus.SHOWN, f"the weights of the engine are {planned}")


def _lora(given: TraceInput) -> TraceReading:
    """FSDP 1 joins the parameters of a layer, and hides the names of adapters; other engines name them otherwise."""
    if given.value(f"{_ACTOR}.strategy") not in (None, "fsdp", "fsdp2"):
        return COMPOSED_ONLY
    planned = max(given.number(key) or 0 for key in _LORA_RANKS)
    records = [
        record
        for record in given.evidence.weights
        if record.role == TRAINED and record.names and not any("_flat_param" in name for name in record.names)
    ]
    if not records or any(given.value(key) for key in _LOADED_ADAPTERS):
        return COMPOSED_ONLY
    found = records[0].lora_rank or 0
    if found != planned:
        shown = f"has adapters of rank {found}" if found else "has no adapters"
        return TraceReading(TraceStatus.CONTRADICTED, f"the trainer {shown}, and the rank that is set is {planned:g}")
    return TraceReading(
        TraceStatus.SHOWN, f"the trainer has adapters of rank {found}" if found else "the trainer has no adapters"
    )


def _learning_rate(given: TraceInput) -> TraceReading:
    """Compare the logged rate of each step with that of the schedule."""
    return rate_reading(given, _RATE, given.number(f"{_OPTIM}.lr"), _rate_schedule(given))


def _rate_schedule(given: TraceInput) -> RateSchedule | None:
    """Return the schedule; None for one that is not known here, or that a resumed run may have begun anew."""
    strategy = given.value("actor_rollout_ref.actor.strategy")
    style = next((found for key in _NAMES_OF_SCHEDULE if isinstance(found := given.value(key), str)), None)
    if style is None and strategy in _CONSTANT_UNLESS_SET:
        style = "constant"
    total, is_planned = given.total_steps, any(key in given.setup.planned for key in _WARM_UP)
    steps, ratio = given.number(_WARM_UP[0]) or 0, given.number(_WARM_UP[1]) or 0.0
    warm_up = int(steps) if steps > 0 else int(ratio * total)
    if style == "constant" and not warm_up:
        return constant()
    # Megatron and others have schedules of their own.
    if strategy not in _FSDP or Mode.RESUMED in given.modes:
        return None
    if style == "constant":
        return constant(warm_up, is_planned=is_planned)
    if style == "cosine" and total and given.value(f"{_OPTIM}.zero_indexed_step") is not False:
        lowest, cycles = given.number(f"{_OPTIM}.min_lr_ratio") or 0.0, given.number(f"{_OPTIM}.num_cycles") or 0.5
        return cosine(total, warm_up, lowest=lowest, cycles=cycles, is_planned=is_planned)
    return None


def trained_in(settings: Mapping[str, Any]) -> str:
    """Describe the actor's precision; empty where it is not known."""
    dtype = next((settings[key] for key in _ACTOR_DTYPES if settings.get(key)), settings.get(MODEL_DTYPE))
    quantised = "quantised weights" if any(settings.get(key) is True for key in _TRAINED_QUANTISED) else ""
    return _words(dtype, quantised or _imitated(settings, {"training", "both"}))


def validated_in(settings: Mapping[str, Any]) -> str:
    """Describe the rollout's precision; empty where it is not known."""
    quantised = "quantised weights" if settings.get(f"{_ROLLOUT}.quantization") else ""
    dtype = settings.get(f"{_ROLLOUT}.dtype") or settings.get(MODEL_DTYPE)
    return _words(dtype, quantised or _imitated(settings, {"rollout", "both"}))


def _imitated(settings: Mapping[str, Any], phases: set[str]) -> str:
    """Describe the format that a fork imitates, by default in the rollout only."""
    if settings.get(f"{_IMITATED}.enabled") is not True:
        return ""
    during = settings.get(f"{_IMITATED}.apply_during", "rollout")
    return f"imitated {settings.get(f'{_IMITATED}.error_type', 'errors')}" if during in phases else ""


def _words(dtype: Any, quantised: str) -> str:
    if not isinstance(dtype, str):
        return ""
    name = _OTHER_NAMES.get(dtype.lower(), dtype)
    return f"{name} with {quantised}" if quantised else name


def modes(configuration: Mapping[str, Any]) -> Iterator[Mode]:
    """Yield the modes that are on. Nothing for a configuration that is not known."""
    yield from _off_policy(configuration)
    found = {mode for mode, keys in _ON.items() if any(is_set(configuration, key) for key in keys)}
    if setting(configuration, f"{_ROLLOUT}.agent.default_agent_loop") not in (None, "single_turn_agent"):
        found.add(Mode.MULTI_TURN)
    if any(setting(configuration, key) not in (None, "auto") for key in _CACHES):
        found.add(Mode.QUANTISED_ROLLOUT)
    if _has_experts(configuration):
        found.add(Mode.MOE)
    if setting(configuration, "trainer.resume_mode") == "resume_path":
        found.add(Mode.RESUMED)
    yield from (mode for mode in Mode if mode in found)


def _off_policy(configuration: Mapping[str, Any]) -> Iterable[Mode]:
    if setting(configuration, "trainer.v1.trainer_mode") in ("colocate_async", "separate_async"):
        # Only its second trainer reads this key; where the first one runs it changes nothing, and costs some checks.
        return (Mode.ASYNCHRONOUS,)
    if isinstance(configuration.get("async_training"), Mapping):
        return (Mode.ASYNCHRONOUS,)
    # Devices of its own for the rollout: the plain trainer has no such section.
    return (Mode.OFF_POLICY,) if isinstance(configuration.get("rollout"), Mapping) else ()


def _has_experts(configuration: Mapping[str, Any]) -> bool:
    path, replay = setting(configuration, f"{_MODEL}.path"), f"{_ACTOR}.{{}}.router_replay.mode"
    return (
        any(_above_one(setting(configuration, key)) for key in _EXPERTS)
        or any(setting(configuration, replay.format(each)) in ("R2", "R3") for each in ("megatron", "veomni"))
        or (isinstance(path, str) and _NAMES_OF_EXPERTS.search(path.rstrip("/").rpartition("/")[2]) is not None)
    )


def _above_one(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1


TRACES = (
    Trace(
        _RATE_KEYS,
        _RATE,
        _learning_rate,
        _STEP_BY_STEP,
    ),
    Trace(("algorithm.kl",), f"{_KL_LOSS} and {_KL_REWARD}", _kl, ALL_MODES),
    # An agent may return several outputs of one conversation, and its group is then larger than n.
    Trace(
        ("algorithm.kind",),
        f"critic/vf_loss and {_HIGHEST_ADVANTAGE}",
        _estimator,
        _STEP_BY_STEP - {Mode.MULTI_TURN},
    ),
    Trace(("train.batch_size", "rollout.n"), _TOKENS, _answers_a_step, _SYNCHRONOUS_ONLY),
    Trace(
        ("data.max_response_tokens",),
        _LONGEST_ANSWER,
        _longest_answer,
        ALL_MODES - {Mode.MULTI_TURN, Mode.PARTIAL_ROLLOUTS},
    ),
    Trace(("data.max_prompt_tokens",), _LONGEST_PROMPT, _longest_prompt, ALL_MODES - {Mode.MULTI_TURN}),
    Trace(("train.epochs",), _EPOCH, _epochs, _STEP_BY_STEP),
    Trace(("overrides.algorithm.filter_groups",), "train/num_gen_batches", _filtered_groups, ALL_MODES),
    *RECORDED,
    Trace(("model.dtype",), "the records of the engine's weights", _dtype, ALL_MODES - {Mode.QUANTISED_ROLLOUT}),
    Trace(("model.lora",), "the records of the trainer's weights", _lora, ALL_MODES),
)
"""No metric of verl shows clipping, the entropy coefficient, the temperature or the aggregation of the loss."""
PRECISION = PrecisionSettings(_KEYS, trained_in, validated_in)
