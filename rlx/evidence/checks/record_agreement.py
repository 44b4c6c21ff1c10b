"""Check that the records of one run agree: each fact that it recorded twice, in the modes in which both must be equal.

An equation lists its modes; in other modes, and where the configuration is not known, it is skipped unless it applies
in all. Only times of one clock are compared: the clock of a container may be days behind that of the launching machine,
so evidence that seems older than its launch may only have such a clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.grammars import by_kind, names_of, validation_prefixes
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import (
    core_keys,
    disputed,
    finite,
    is_core,
    metric_names,
    metric_of,
    samples,
    series,
    source,
    statistic,
    step_times,
    variable,
)
from rlx.evidence.modes import ALL_MODES, Mode, setting
from rlx.evidence.run_evidence import Evidence, FaultKind
from rlx.evidence.verdict import CheckFinding, at_steps, contradiction, counted, remark, unverified
from rlx.model import Severity
from rlx.model.post_metric import is_post

_OTHER_FILES = "check whether files of another run are among these, and whether a record was edited"
_STEP_BY_STEP = ALL_MODES - {Mode.ASYNCHRONOUS, Mode.OFF_POLICY, Mode.PARTIAL_ROLLOUTS}
_CLOCK_SLACK, _CLOCK_SLACK_S = 0.02, 5.0
_SPEED_SLACK = 0.05
# verl <= 0.4.1 prints three decimals.
_ROUNDING = 5.1e-4
_MOST_STALE = 0.5
_FEWEST_TWINS = 3


class Equation(NamedTuple):
    """Two records of one fact. `modes`: those in which it applies, besides plain synchronous training."""

    read: Callable[[CheckInput], Iterator[CheckFinding]]
    modes: frozenset[Mode] = ALL_MODES

    def holds_in(self, given: CheckInput) -> bool:
        """Tell whether it applies to the run. Without a configuration, the modes of a run are not known."""
        return self.modes == ALL_MODES or (bool(given.setup.configuration) and given.modes <= self.modes)


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report each fact whose two records differ beyond the tolerance of its equation."""
    for equation in EQUATIONS:
        if equation.holds_in(given):
            yield from equation.read(given)


def _lasted(given: CheckInput) -> Iterator[CheckFinding]:
    """Compare the duration of the last attempt with the sum of its steps; a recorded end may be late."""
    for time in given.evidence.times[-1:]:
        if time.attempt != given.evidence.attempts or time.begun is None or time.ended is None:
            continue
        seconds = time.ended - time.begun
        if time.seconds > seconds * (1 + _CLOCK_SLACK) + _CLOCK_SLACK_S:
            which = f"attempt {time.attempt}" if time.attempt > 1 else "the run"
            yield contradiction(
                "RLX750",
                f"{which} lasted {seconds:.0f} s by the clock of its host, and its {counted(time.steps, 'step')} took "
                f"{time.seconds:.0f} s in total",
                f"{_OTHER_FILES}, or the clock of the host set back during the run",
            )


def _logged_step_rises(given: CheckInput) -> Iterator[CheckFinding]:
    """Check that no two lines state the same step of the trainer."""
    name, logged = _series(given.evidence, Role.LOGGED_STEP)
    steps = list(logged)
    again = [step for before, step in pairwise(steps) if logged[step] <= logged[before]]
    if again:
        step = again[0]
        yield contradiction(
            "RLX751",
            f"{name} is {logged[step]:g} at {at_steps(again)}, and at least as high in the line before: "
            "two lines are of one step of the trainer",
            _OTHER_FILES,
            step,
        )


def _logged_step_is_the_step(given: CheckInput) -> Iterator[CheckFinding]:
    """Check that the stated step keeps its offset; versions may count from another number."""
    name, logged = _series(given.evidence, Role.LOGGED_STEP)
    apart = {step: value - step for step, value in logged.items()}
    usual = median(apart.values()) if apart else 0.0
    odd = [step for step, difference in apart.items() if difference != usual]
    if odd and not list(_logged_step_rises(given)):
        step = odd[0]
        words = f"{name} is {logged[step]:g} in the line of step {step}, and {usual:+g} from the step in most lines"
        yield contradiction("RLX751", f"{words}; so at {at_steps(odd)}", _OTHER_FILES, step)


def _epoch_rises(given: CheckInput) -> Iterator[CheckFinding]:
    name, logged = _series(given.evidence, Role.EPOCH)
    steps = list(logged)
    falls = [step for before, step in pairwise(steps) if logged[step] < logged[before]]
    if falls:
        yield contradiction(
            "RLX751", f"{name} falls to {logged[falls[0]]:g} at {at_steps(falls)}", _OTHER_FILES, falls[0]
        )


def _accuracies(given: CheckInput) -> Iterator[CheckFinding]:
    """Compare an accuracy, which counts failed answers as wrong, with the one without them, which is never lower."""
    evidence = given.evidence
    for key in (key for key in core_keys(evidence) if samples(key) == 1 and not is_post(key)):
        values = _undisputed(evidence, key)
        if any(value < 0 for value in values.values()):
            continue
        for twin in _twins(evidence, key):
            if variable(twin) != f"{variable(key)}_success_only":
                continue
            bound = _undisputed(evidence, twin)
            above = [step for step, value in values.items() if step in bound and value > bound[step] + _ROUNDING]
            if above:
                step = above[0]
                yield contradiction(
                    "RLX752",
                    f"{key} is {values[step]:.4g} at {at_steps(above)}, and {twin}, which excludes failed answers, "
                    f"is {bound[step]:.4g}",
                    _OTHER_FILES,
                    step,
                )


def _twin_metrics(given: CheckInput) -> Iterator[CheckFinding]:
    """Warn where two metrics differ at a single validation: partial credit would differ at more of them."""
    evidence = given.evidence
    for key in (key for key in core_keys(evidence) if not is_post(key)):
        values = _undisputed(evidence, key)
        for twin in _twins(evidence, key):
            other = _undisputed(evidence, twin)
            both = [step for step in values if step in other]
            odd = [step for step in both if abs(values[step] - other[step]) > _ROUNDING]
            equal = [step for step in both if step not in odd and values[step] not in (0.0, 1.0)]
            if len(odd) == 1 and len(equal) >= _FEWEST_TWINS:
                step = odd[0]
                yield remark(
                    "RLX753",
                    Severity.WARNING,
                    f"{key} is {values[step]:.4g} at step {step} and {twin} is {other[step]:.4g}; "
                    f"at {counted(len(both) - 1, 'other validation')} they are equal",
                    "read the answers of that validation, and check whether partial credit or a penalty begins there",
                    step,
                )
                return


def _undisputed(evidence: Evidence, key: str) -> dict[int, float]:
    """Return the finite values of a metric, without those on which the run's own records disagree (RLX709)."""
    several = disputed(evidence, key)
    return {step: value for step, value in finite(series(evidence, key)).items() if step not in several}


def _twins(evidence: Evidence, key: str) -> list[str]:
    """List the metrics of the same validation data and statistic that a run is not judged by."""
    names = (name for name in metric_names(evidence) if name.startswith(validation_prefixes()) and not is_core(name))
    return sorted(name for name in names if (source(name), statistic(name)) == (source(key), statistic(key)))


def _throughput(given: CheckInput) -> Iterator[CheckFinding]:
    """Check tokens = tokens per second and device x seconds x devices, with the same devices at all steps.

    A constant factor may be a fork's own definition of its speed: a warning.
    """
    evidence = given.evidence
    name, speeds = _series(evidence, Role.TOKENS_A_SECOND_AND_DEVICE)
    _, tokens = _series(evidence, Role.TOKENS)
    times = step_times(evidence)
    devices = {
        step: tokens[step] / (times[step] * speed)
        for step, speed in speeds.items()
        if speed > 0 and tokens.get(step, 0) > 0 and times.get(step, 0) > 100 * _ROUNDING
    }
    if not devices:
        return
    usual = median(devices.values())
    # The number of devices is an integer.
    whole = max(1.0, float(round(usual)))
    odd = [step for step, found in devices.items() if abs(found / whole - 1) > _SPEED_SLACK]
    if not odd:
        return
    step = odd[0]
    message = (
        f"{name} is {speeds[step]:.4g} at {at_steps(odd)}; {tokens[step]:g} tokens in {times[step]:.4g} s mean "
        f"{devices[step]:.3g} devices, but the run has {whole:g}"
    )
    if all(abs(found / usual - 1) <= _SPEED_SLACK for found in devices.values()):
        yield remark("RLX754", Severity.WARNING, message, _OTHER_FILES, step)
    else:
        yield contradiction("RLX754", message, _OTHER_FILES, step)


def _staleness(given: CheckInput) -> Iterator[CheckFinding]:
    """Check that synchronous training generated with the weights of the step."""
    name, logged = _series(given.evidence, Role.STALENESS)
    stale = [step for step, value in logged.items() if value > _MOST_STALE]
    if 2 * len(stale) > len(logged):
        yield contradiction(
            "RLX756",
            f"{name} is {median(logged[step] for step in stale):.3g} at {at_steps(stale)}, but the configuration is "
            "that of synchronous training",
            "find out which trainer ran, or declare the asynchronous one in every arm",
            stale[0],
        )


def _training_rows(given: CheckInput) -> Iterator[CheckFinding]:
    """Compare the rows with the recipe's, except for rows that a filter of long prompts removes."""
    found, data = given.evidence.totals.train_rows, given.setup.recipe.get("data")
    planned = data.get("train_rows") if isinstance(data, Mapping) else None
    if found is None or not isinstance(planned, int):
        return
    grammar = by_kind().get(given.evidence.backend)
    limit, row_filter = (grammar.row_limit_setting, grammar.row_filter_setting) if grammar else ("", "")
    most = setting(given.setup.configuration, limit)
    planned = min(planned, most) if isinstance(most, int) and most > 0 else planned
    if found == planned:
        return
    message = f"the recipe says {counted(planned, 'training row')}, the log says {found}"
    fix = "set data.train_rows to the rows that the filter of long prompts keeps, or check the file"
    filters = setting(given.setup.configuration, row_filter) is not False
    if filters and planned > found > planned / 2:
        yield remark("RLX759", Severity.NOTE, message, fix)
    else:
        yield unverified("RLX759", message, fix)


def _failed_rewards(given: CheckInput) -> Iterator[CheckFinding]:
    """Warn of answers without a reward: the trainer scores them 0, which is not visible in a mean."""
    for fault in given.evidence.faults:
        if fault.kind is FaultKind.REWARD:
            yield remark(
                "RLX757",
                Severity.WARNING,
                f"the log shows {counted(fault.number, 'failed reward')}, whose answers count as 0: {fault.first}",
                "call the reward function with such an answer; rlx logs --grep 'eward computation' shows all",
            )


def _optimizer_state(given: CheckInput) -> Iterator[CheckFinding]:
    """Report a resumed training whose optimizer started anew: that is a different training."""
    for fault in given.evidence.faults:
        if fault.kind is FaultKind.OPTIMIZER and (given.evidence.restarts or given.evidence.begun):
            yield unverified(
                "RLX758",
                f"the training continued without its optimizer state: {fault.first}",
                "save and load the optimizer with each checkpoint, and start the run again",
            )


def _series(evidence: Evidence, role: Role) -> tuple[str, dict[int, float]]:
    """Return the name and the finite values of a role from step 1 on; none where the back-end does not log it."""
    if not names_of(role, evidence.backend):
        return "", {}
    name = metric_of(evidence, role)
    return name, {step: value for step, value in series(evidence, name).items() if step > 0 and math.isfinite(value)}


EQUATIONS = (
    Equation(_lasted, _STEP_BY_STEP),
    Equation(_logged_step_rises),
    Equation(_logged_step_is_the_step, ALL_MODES - {Mode.ASYNCHRONOUS}),
    Equation(_epoch_rises, _STEP_BY_STEP - {Mode.RESUMED}),
    Equation(_accuracies),
    Equation(_twin_metrics),
    Equation(_throughput, _STEP_BY_STEP - {Mode.RESUMED}),
    Equation(_staleness, _STEP_BY_STEP),
    Equation(_training_rows),
    Equation(_failed_rewards),
    Equation(_optimizer_state),
)
