"""The learning rate that verl logs, by its own schedules.

Sources: verl/utils/torch_functional.py, `get_constant_schedule_with_warmup` and `get_cosine_schedule_with_warmup`;
verl/workers/engine/fsdp/transformer_impl.py, `_build_lr_scheduler`, and verl/workers/fsdp_workers.py of 0.6.1. Some
versions log the rate before they move the schedule and some after it, so that a step shows the rate of its own number
or of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rlx.evidence.modes import Mode
from rlx.evidence.traces import COMPOSED_ONLY, Reading, Shown, TraceInput
from rlx.evidence.verdict import at_steps

METRIC = "actor/lr"
_OPTIM = "actor_rollout_ref.actor.optim"
_WARM_UP = (f"{_OPTIM}.lr_warmup_steps", f"{_OPTIM}.lr_warmup_steps_ratio")
_NAMES_OF_SCHEDULE = (f"{_OPTIM}.lr_scheduler_type", f"{_OPTIM}.warmup_style", f"{_OPTIM}.lr_decay_style")
_FSDP = ("fsdp", "fsdp2")
_MEGATRON = "megatron"
_SHORTEST = 0.05
"""verl 0.4 and older print three decimals, in which most learning rates are 0.000."""


def read(given: TraceInput) -> Reading:
    """Compare the logged rate of each step with that of the schedule."""
    rate, schedule = given.number(f"{_OPTIM}.lr"), _schedule(given)
    if rate is None:
        return COMPOSED_ONLY
    if schedule is None:
        return Reading(Shown.NOT_OBSERVABLE, "the schedule of its learning rate is not known to rlx")
    logged = given.series(METRIC)
    is_printed_too_short = given.rounding > _SHORTEST * rate
    if is_printed_too_short or not (logged or given.has_trained):
        return COMPOSED_ONLY
    if not logged:
        return Reading(Shown.SILENT, f"{METRIC} is not logged")
    wrong = min((_wrong(given, logged, rate, schedule, offset) for offset in (0, 1)), key=len)
    if wrong:
        step = wrong[0]
        expected = rate * schedule(step)
        words = f"{METRIC} is {logged[step]:g} at {at_steps(wrong)}, where the schedule gives {expected:g}"
        return Reading(Shown.CONTRADICTED, words, step)
    return _reached(given, logged, rate) or Reading(Shown.SHOWN, f"{METRIC} at {len(logged)} steps")


def _wrong(
    given: TraceInput, logged: dict[int, float], rate: float, schedule: Callable[[int], float], offset: int
) -> list[int]:
    return [step for step, value in logged.items() if not given.agree(value, rate * schedule(step - offset))]


def _reached(given: TraceInput, logged: dict[int, float], rate: float) -> Reading | None:
    """Object to a warm-up that no plan sets, under which the planned rate is never reached."""
    total = given.evidence.total_steps or given.expectations.total_steps or 0
    steps = _warm_up_steps(given, total)
    if steps <= max(logged) or any(key in given.setup.planned for key in _WARM_UP):
        return None
    cause = f"the engine composed a warm-up of {steps} steps, which no plan sets"
    words = f"the highest {METRIC} is {max(logged.values()):g} of {rate:g}: {cause}"
    return Reading(Shown.CONTRADICTED, words, min(logged))


def _schedule(given: TraceInput) -> Callable[[int], float] | None:
    """Return the factor on the rate by step; None for a schedule that is not known here, or not after a resumption."""
    strategy = given.value("actor_rollout_ref.actor.strategy")
    style = next((found for key in _NAMES_OF_SCHEDULE if isinstance(found := given.value(key), str)), "constant")
    total = given.evidence.total_steps or given.expectations.total_steps or 0
    warm_up = _warm_up_steps(given, total)
    if style == "constant" and not warm_up:
        return lambda step: 1.0
    # A resumed run may have begun its schedule anew, and Megatron has schedules of its own.
    if strategy not in _FSDP or Mode.RESUMED in given.modes:
        return None
    if style == "constant":
        return lambda step: min(1.0, max(step, 0) / warm_up)
    if style == "cosine" and total:
        lowest, cycles = given.number(f"{_OPTIM}.min_lr_ratio") or 0.0, given.number(f"{_OPTIM}.num_cycles") or 0.5
        if given.value(f"{_OPTIM}.zero_indexed_step") is False:
            return None
        return lambda step: _cosine(max(step, 0), warm_up, total, lowest, cycles)
    return None


def _warm_up_steps(given: TraceInput, total: int) -> int:
    steps, ratio = given.number(_WARM_UP[0]) or 0, given.number(_WARM_UP[1]) or 0.0
    return int(steps) if steps > 0 else int(ratio * total)


def _cosine(step: int, warm_up: int, total: int, lowest: float, cycles: float) -> float:
    if step < warm_up:
        return step / max(1, warm_up)
    progress = (step - warm_up) / max(1, total - warm_up)
    middle, swing = (1 + lowest) / 2, (1 - lowest) / 2
    return max(lowest, middle + swing * math.cos(2 * math.pi * cycles * progress))
