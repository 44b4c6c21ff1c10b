"""The log of a run of TRL: as the payload's program writes it, and as TRL itself does, whose lines name no step.

Sources: payload/rlx_trl_records.py for the lines; trl 1.16.0, trainer/grpo_trainer.py, for the names of metrics, which
are TRL's own but for `rollout/*` and those of validations. Of a script: transformers, training_args.py for the
arguments as they are printed, trainer_callback.py for when and how metrics are (5.x prints numbers as text with four
digits), trainer.py for the last validation, which comes at the end of the training whatever the interval.
How it shows that settings were applied: `kl` is logged for a beta other than 0; transformers, optimization.py for the
schedules, and trainer.py, which logs the rate after it has moved the schedule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from rlx.evidence.learning_rates import RateSchedule, constant, cosine, linear, rate_reading
from rlx.evidence.log_grammar import (
    Configured,
    DataRows,
    LineForm,
    LineSays,
    Logged,
    LoggedInterval,
    LogGrammar,
    NextMetrics,
    Resumed,
    Role,
    StepMetrics,
    TotalSteps,
    read_pairs,
)
from rlx.evidence.modes import ALL_MODES, Mode, setting
from rlx.evidence.run_evidence import Progress
from rlx.evidence.traces import COMPOSED_ONLY, RECORDED, Trace, TraceInput, TraceReading, TraceStatus
from rlx.evidence.verdict import at_steps
from rlx.yaml_reader.hydra import REMOVED, bare_leaves

_STEP = re.compile(r"rlx: TRL step (\d{1,12}) of (\d{1,12}) \| ")
_TOTAL = re.compile(r"rlx: TRL trains (\d{1,12}) steps")
_ROWS = re.compile(r"rlx: TRL reads (\d{1,12}) rows to train on, (\d{1,12}) to validate on")
_RESUMED = re.compile(r"rlx: TRL goes on from the checkpoint of step (\d{1,12})")
_METRICS = re.compile(r"\{'(loss|train_runtime|eval_)[^{}]*\}")
_PAIR = re.compile(r"'([^']{1,200})': '?([^',{}]{1,60})'?[,}]")
_STARTS = {"loss": Logged.TRAINING, "eval_": Logged.VALIDATION, "train_runtime": Logged.END}
_ARGUMENT = re.compile(r"^(?:\(\w+ pid=[^)]{1,40}\) )?(\w{1,60})=(.{0,20000}),$")
_ARGUMENTS = re.compile(r"[A-Za-z](?:Config|Arguments)\($")
_MEMBER = re.compile(r"[A-Z]\w{0,60}\.([A-Z_]{1,60})")
_WHOLE = {"learning_rate", "logging_steps", "max_steps", "per_device_train_batch_size", "seed"}
_INTERVALS = (b"_steps=", b"logging_first_step=", b"eval_on_start=")
_MOST_ARGUMENTS = 2000
_LEARNING_RATE, _KL, _LONGEST = "learning_rate", "kl", "completions/max_length"
_SAME_NAMES = {
    "learning_rate": "train.lr",
    "num_generations": "rollout.n",
    "temperature": "rollout.temperature",
    "top_p": "rollout.top_p",
    "max_completion_length": "data.max_response_tokens",
    "seed": "seed",
}
"""Arguments of GRPOConfig that are keys of the recipe as they stand there."""


def _read_line(line: str) -> Iterator[LineSays]:
    """Read a step, or what the program prints before the first one."""
    if match := _STEP.search(line):
        step, total = int(match[1]), int(match[2])
        yield Progress(step, total)
        if values := read_pairs(line[match.end() :], " | "):
            yield StepMetrics(step, values)
    elif match := _TOTAL.search(line):
        yield TotalSteps(int(match[1]))
    elif match := _ROWS.search(line):
        yield DataRows(int(match[1]), int(match[2]))
    elif match := _RESUMED.search(line):
        yield Resumed(int(match[1]))


def _read_argument(line: str) -> Iterator[LineSays]:
    """Read from the printed arguments at which steps something is logged."""
    match = _ARGUMENT.match(line.strip())
    value = _value(match[2]) if match else None
    steps = _count(value)
    if match is None:
        return
    if match[1] == "logging_first_step":
        yield LoggedInterval(with_first=value is True)
    elif match[1] == "eval_on_start":
        yield LoggedInterval(before=value is True)
    elif steps and match[1] == "logging_steps":
        yield LoggedInterval(training=steps)
    elif steps and match[1] == "eval_steps":
        yield LoggedInterval(validations=steps)
    elif steps and match[1] == "max_steps":
        yield TotalSteps(steps)


def _read_metrics(line: str) -> Iterator[LineSays]:
    """Read the metrics that transformers prints. A validation is no step that was trained, so its epoch is left out."""
    for match in _METRICS.finditer(line):
        of, values = _STARTS[match[1]], dict[str, float]()
        for key, text in _PAIR.findall(match[0]):
            with suppress(ValueError):
                values[key] = float(text)
        if of is Logged.VALIDATION:
            values.pop("epoch", None)
        yield NextMetrics(of, values)


def parse_printed_arguments(lines: Iterable[str]) -> Mapping[str, Any]:
    """Read the arguments of a trainer as `print(args)` shows them: `GRPOConfig(`, a `name=value,` a line, and `)`."""
    lines = iter(lines)
    found: dict[str, Any] = {}
    if not any(map(_ARGUMENTS.search, lines)):
        return found
    for line in islice(lines, _MOST_ARGUMENTS):
        if (match := _ARGUMENT.match(line)) is None:
            return found if line == ")" else {}
        found[match[1]] = _value(match[2])
    return {}


def _count(value: Any) -> int:
    """Return a number of steps, which may be printed as 3.0; 0 for a share of the training and for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and value >= 1 and float(value).is_integer() else 0


def _value(text: str) -> Any:
    """Read a value as Python prints it; the member of an enumeration as the value that a user writes for it."""
    import ast

    if match := _MEMBER.fullmatch(text):
        return match[1].lower()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


def configured(config: Mapping[str, Any]) -> Configured | None:
    """Read when a trainer of transformers validates; None for any other configuration. By epoch, no step is known."""
    if not config.keys() >= _WHOLE:
        return None
    by_steps = config.get("eval_strategy") == "steps"
    return Configured(
        total_steps=_count(config["max_steps"]) or None,
        validates_every=_count(config.get("eval_steps")) if by_steps else 0,
        validates_first=config.get("eval_on_start") is True,
        is_whole=True,
    )


def planned_settings(command: Sequence[str], recipe: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the arguments of GRPOConfig that follow from the recipe; later ones count."""
    for argument, key in _SAME_NAMES.items():
        if (value := setting(recipe, key)) is not None:
            yield argument, value
    yield "lr_scheduler_type", "constant"
    yield "beta", setting(recipe, "algorithm.kl.coef") or 0.0
    for argument, value in bare_leaves(recipe.get("overrides") or {}).items():
        if value is not REMOVED:
            yield argument, value


def modes(configuration: Mapping[str, Any]) -> Iterator[Mode]:
    """Yield the modes that are on: TRL's trainer takes one step off policy where it generates for several."""
    generated, accumulated = (
        setting(configuration, key) for key in ("steps_per_generation", "gradient_accumulation_steps")
    )
    iterations = setting(configuration, "num_iterations")
    if (isinstance(iterations, int) and iterations > 1) or (generated and accumulated and generated != accumulated):
        yield Mode.OFF_POLICY


def _rate(given: TraceInput) -> TraceReading:
    return rate_reading(given, _LEARNING_RATE, given.number("learning_rate"), _schedule(given))


def _schedule(given: TraceInput) -> RateSchedule | None:
    style, total = given.value("lr_scheduler_type"), given.total_steps
    steps, ratio = given.number("warmup_steps") or 0.0, given.number("warmup_ratio") or 0.0
    # From transformers 5 on, warmup_steps below 1 is a share.
    share = ratio or (steps if 0 < steps < 1 else 0.0)
    warm_up = math.ceil(share * total) if share else int(steps)
    is_planned = not {"warmup_steps", "warmup_ratio"}.isdisjoint(given.setup.planned)
    if style == "constant":
        return constant()
    if style == "constant_with_warmup":
        return constant(warm_up, is_planned=is_planned)
    if style == "linear" and total:
        return linear(total, warm_up, is_planned=is_planned)
    if style == "cosine" and total and not given.value("lr_scheduler_kwargs"):
        return cosine(total, warm_up, is_planned=is_planned)
    return None


def _kl(given: TraceInput) -> TraceReading:
    beta, logged = given.number("beta"), given.series(_KL)
    if beta is None or not given.has_trained:
        return COMPOSED_ONLY
    if not beta:
        if logged:
            return TraceReading(
                TraceStatus.CONTRADICTED, f"{_KL} is logged at {at_steps(logged)}, and beta is 0", min(logged)
            )
        return TraceReading(TraceStatus.SHOWN, f"no {_KL}")
    return (
        TraceReading(TraceStatus.SHOWN, f"{_KL} at {len(logged)} steps")
        if logged
        else TraceReading(TraceStatus.SILENT, f"{_KL} is not logged")
    )


def _longest(given: TraceInput) -> TraceReading:
    bound, logged = given.number("max_completion_length"), given.series(_LONGEST)
    longer = [step for step, value in logged.items() if bound is not None and value > bound]
    if longer:
        words = f"{_LONGEST} is {logged[longer[0]]:g} at {at_steps(longer)}, and max_completion_length is {bound:g}"
        return TraceReading(TraceStatus.CONTRADICTED, words, longer[0])
    return (
        TraceReading(TraceStatus.SHOWN, f"{_LONGEST} reaches it")
        if logged and max(logged.values()) == bound
        else COMPOSED_ONLY
    )


TRACES = (
    Trace(("train.lr", "overrides.lr_scheduler_type", "overrides.warmup_steps"), _LEARNING_RATE, _rate, ALL_MODES),
    Trace(("algorithm.kl", "overrides.beta"), _KL, _kl, ALL_MODES),
    Trace(("data.max_response_tokens",), _LONGEST, _longest, ALL_MODES - {Mode.MULTI_TURN}),
    *RECORDED,
)
GRAMMAR = LogGrammar(
    title="TRL",
    rules="trl 2",
    lines=(
        LineForm((b"rlx: TRL ",), _read_line),
        LineForm(_INTERVALS, _read_argument),
        LineForm((b"{'loss': ", b"_runtime': "), _read_metrics),
    ),
    core=("val-core/", "eval_reward"),
    validation=("val-core/", "val-aux/", "eval_"),
    metrics={
        Role.STEP_SECONDS: ("step_time",),
        Role.VALIDATION_SECONDS: ("eval_runtime",),
        Role.SCORE: ("reward",),
        Role.REWARD: ("reward",),
        Role.ENTROPY: ("entropy",),
        Role.RESPONSE_LENGTH: ("completions/mean_length",),
        Role.CLIP_RATIO: ("completions/clipped_ratio",),
        Role.GRAD_NORM: ("grad_norm",),
        Role.LEARNING_RATE: ("learning_rate",),
        Role.POLICY_LOSS: ("loss",),
        Role.PROBABILITY_GAP: ("rollout/probs_diff_mean",),
        Role.REFERENCE_KL: ("kl",),
        Role.ZERO_ADVANTAGE_GROUPS: ("frac_reward_zero_std",),
    },
    seed_keys=("seed", "data_seed"),
    planned_settings=planned_settings,
    printed_configuration=parse_printed_arguments,
    configured=configured,
    modes=modes,
    traces=TRACES,
)
