"""The learning rate that verl logs, by its own schedules.

Sources: verl/utils/torch_functional.py, `get_constant_schedule_with_warmup` and `get_cosine_schedule_with_warmup`;
verl/workers/engine/fsdp/transformer_impl.py, `_build_lr_scheduler`, and verl/workers/fsdp_workers.py of 0.6.1;
verl/workers/config/optimizer.py, where `warmup_style` replaces `lr_scheduler_type`; verl/trainer/config/optim.
"""

from __future__ import annotations

from rlx.evidence.learning_rates import Schedule, constant, cosine, rate_reading
from rlx.evidence.modes import Mode
from rlx.evidence.traces import Reading, TraceInput

METRIC = "actor/lr"
_OPTIM = "actor_rollout_ref.actor.optim"
_WARM_UP = (f"{_OPTIM}.lr_warmup_steps", f"{_OPTIM}.lr_warmup_steps_ratio")
_NAMES_OF_SCHEDULE = (f"{_OPTIM}.warmup_style", f"{_OPTIM}.lr_scheduler_type", f"{_OPTIM}.lr_decay_style")
"""The first that is set counts."""
_SHAPE = (f"{_OPTIM}.min_lr_ratio", f"{_OPTIM}.num_cycles")
KEYS = ("train.lr", *(f"overrides.{key}" for key in (f"{_OPTIM}.lr", *_WARM_UP, *_NAMES_OF_SCHEDULE, *_SHAPE)))
"""The keys of a recipe that the rate shows."""
_FSDP = ("fsdp", "fsdp2")
_CONSTANT_UNLESS_SET = (None, *_FSDP, "megatron")
"""Other engines decay by default; their names for it differ."""


def read(given: TraceInput) -> Reading:
    """Compare the logged rate of each step with that of the schedule."""
    return rate_reading(given, METRIC, given.number(f"{_OPTIM}.lr"), _schedule(given))


def _schedule(given: TraceInput) -> Schedule | None:
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
