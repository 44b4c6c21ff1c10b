"""Check that noise was added: to which layers, with which sigma, at which steps, and whether it survived rounding.

A weight in bfloat16 has 8 significant bits, so noise far below half of its last bit changes nothing, and a little of it
changes a few weights by a whole bit. The payload counts both. The strength of the noise is its effective standard
deviation over the planned one; the share of changed weights alone would mislead, because few weights that change much
are as much noise as many that change little.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import Application, is_by_order, same_sigma, sigma_at
from rlx.evidence.grammars import grammars
from rlx.evidence.run_evidence import LOG, NoiseEvent
from rlx.evidence.verdict import CheckFinding, at_steps, counted, invalid, percent, remark, unverified
from rlx.model import RunState, Severity

_CHECK_TARGETS = "compare aqn.layer_types, aqn.targets and aqn.exclude with the module names of the rollout's model"
_CHECK_SCHEDULE = "check that the noise step advances, and that aqn.* and the total steps reach the rollout"
_FOLDED = "Ray folded lines of several processes into one, so they may be missing only in the log"
_LOST = "lines of the record are lost, which may include it"
_UNFOLD = "launch with RAY_DEDUP_LOGS=0, or use aqn.provider: payload, which writes its own record"
# "Most" of the noise, and of the steps: a definition, not a measured threshold.
_HALF = 0.5
_RAISE_SIGMA = "raise sigma, or keep the noisy weights in float32"


def check_applied(given: CheckInput) -> Iterator[CheckFinding]:
    """Report everything wrong with noise on rollouts. None is due in the first stage, which is free of noise."""
    if given.noise is None:
        return
    found = given.noise.application
    yield from _zero_layers(found)
    # What was not due before the run finished will never be due.
    if given.state is RunState.FINISHED and not found.due:
        yield invalid("RLX601", "no noise was applied: the run ended before the first step that should have it")
    elif found.due and not found.noisy:
        yield from _nothing_applied(found)
    else:
        yield from _missing(found)
        yield from _taken_off(found)
    yield from _wrong_sigma(found)
    yield from _unknown_sigma(found)
    noisy = [step for step, event in found.all_events() if event.is_noisy and sigma_at(found.sigmas, step) == 0]
    if noisy:
        yield invalid("RLX605", f"noise at {at_steps(noisy)}, in the stage without noise", _CHECK_SCHEDULE, noisy[0])
    yield from _other_layers(found)


def _zero_layers(found: Application) -> Iterator[CheckFinding]:
    placed = [step for step, event in found.all_events() if event.layers == 0 and event.sigma != 0]
    unplaced = [event for event in found.unplaced if event.layers == 0]
    if placed or unplaced:
        where = f" at {at_steps(placed)}" if placed else f" ({counted(len(unplaced), 'line')})"
        yield invalid(
            "RLX602", f"noise was due but matched 0 layers{where}", _CHECK_TARGETS, placed[0] if placed else None
        )


def _nothing_applied(found: Application) -> Iterator[CheckFinding]:
    unplaced = [event for event in found.unplaced if event.is_noisy]
    if unplaced:
        yield unverified(
            "RLX604",
            f"the log shows noise on {unplaced[-1].layers} layers {len(unplaced)} times, without steps and sigma",
            "judge the run directory, whose event files say both",
        )
        return
    if found.unread:
        yield unverified(
            "RLX604",
            f"the log mentions noise in lines that rlx does not know (sigma {found.unread:g} at most)",
            "use aqn.provider: payload, which writes its own record",
        )
        return
    yield invalid(
        "RLX601",
        f"no noise was applied in any of the {counted(len(found.due), 'step')} that should have it",
        "log lines with enabled or applying are no proof; " + _CHECK_TARGETS,
        found.due[0],
    )


def _missing(found: Application) -> Iterator[CheckFinding]:
    """Report steps at which a process with other records had no noise. One without any record is RLX672."""
    processes = {event.process.place: event.process for _, event in found.all_events()}
    missing = {step: sorted(processes.keys() - _disturbed(found.at(step))) for step in found.due}
    bare = [step for step, lacking in missing.items() if lacking]
    if not bare:
        return
    lacking = sorted({place for step in bare for place in missing[step]})
    who = "" if len(processes) == 1 else f" on {'; '.join(str(processes[place]) for place in lacking)}"
    message = f"no noise at {at_steps(bare)}{who}, where it was due"
    if any(event.folded for _, event in found.all_events()):
        yield unverified("RLX604", f"{message}; {_FOLDED}", _UNFOLD, bare[0])
    elif found.has_lost_lines:
        yield unverified("RLX604", f"{message}; {_LOST}", _CHECK_SCHEDULE, bare[0])
    else:
        yield invalid("RLX604", message, _CHECK_SCHEDULE, bare[0])


def _disturbed(events: Sequence[NoiseEvent]) -> set[tuple[int, int, int]]:
    """Return the processes that were given noise; one that matched no layer is reported as RLX602."""
    return {event.process.place for event in events if event.sigma != 0}


def _taken_off(found: Application) -> Iterator[CheckFinding]:
    """Report steps whose last sync in some process brought clean weights, after one that added noise."""
    last = {(step, event.process.place): event for step, event in found.all_events() if event.source != LOG}
    bare = [
        step
        for (step, place), event in last.items()
        if step in found.noisy and event.sigma == 0 and place in _disturbed(found.at(step))
    ]
    if bare:
        yield invalid(
            "RLX604",
            f"noise was removed again at {at_steps(bare)}: the last sync before its rollout sent clean weights",
            _CHECK_SCHEDULE,
            bare[0],
        )


def _wrong_sigma(found: Application) -> Iterator[CheckFinding]:
    wrong = {
        step: event.sigma
        for step, event in found.all_events()
        if event.is_noisy
        and not (is_by_order(event) and math.isnan(event.sigma))
        and (due := sigma_at(found.sigmas, step)) > 0
        and not same_sigma(event.sigma, due, printed=event.source == LOG)
    }
    if wrong:
        step, seen = next(iter(wrong.items()))
        yield invalid(
            "RLX603",
            f"sigma differs from the schedule at {at_steps(wrong)}: "
            f"{seen:.4g} at step {step}, planned {sigma_at(found.sigmas, step):.4g}",
            _CHECK_SCHEDULE,
            step,
        )


def _unknown_sigma(found: Application) -> Iterator[CheckFinding]:
    """Report noise with steps by the order of its lines and unknown sigma."""
    unknown = [step for step, event in found.all_events() if is_by_order(event) and math.isnan(event.sigma)]
    if unknown:
        yield unverified(
            "RLX604",
            f"the log shows noise at {at_steps(unknown)} by the order of its lines, but no sigma",
            "keep the lines of the fork that announce sigma, or use aqn.provider: payload",
            unknown[0],
        )


def _other_layers(found: Application) -> Iterator[CheckFinding]:
    """Report layer counts that vary: one schedule and one set of targets give the same layers at every step."""
    seen = [(step, event) for step, event in found.all_events() if event.is_noisy]
    counts: dict[tuple[int, str], Counter[int]] = defaultdict(Counter)
    for _, event in seen:
        counts[event.replica, event.kind][event.layers] += 1
    usual = {who: layers.most_common(1)[0][0] for who, layers in counts.items()}
    odd = {step: event for step, event in seen if event.layers != usual[event.replica, event.kind]}
    if odd:
        step, event = next(iter(odd.items()))
        yield invalid(
            "RLX613",
            f"noise reached {event.layers} layers at {at_steps(odd)}, and {usual[event.replica, event.kind]} at the "
            "other steps",
            _CHECK_TARGETS,
            step,
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """The noisy steps of one sigma. `changed`: share of the elements; `std`: root mean square of their changes.

    `asked`: what `std` would be without rounding: sigma, with the factors of the layers.
    """

    sigma: float
    steps: tuple[int, ...]
    changed: float
    std: float
    asked: float

    @property
    def is_dead(self) -> bool:
        return self.changed == 0

    @property
    def is_weak(self) -> bool:
        return self.std < _HALF * self.asked


def stages(found: Application) -> tuple[Stage, ...]:
    """Return the stages in which noise was added and counted, by step. Empty for a source that does not count."""
    steps: dict[float, list[int]] = defaultdict(list)
    for step in found.noisy:
        steps[sigma_at(found.sigmas, step)].append(step)
    return tuple(stage for sigma, own in steps.items() if (stage := _stage(found, sigma, own)) is not None)


def _stage(found: Application, sigma: float, steps: list[int]) -> Stage | None:
    events = [event for step in steps for event in found.at(step) if event.is_noisy and event.elements]
    elements = sum(event.elements or 0 for event in events)
    if not events or any(event.changed is None or event.effective_std is None for event in events):
        return None
    changed = sum(event.changed or 0 for event in events)
    std = _mean_root([(event.elements or 0, event.effective_std or 0.0) for event in events])
    asked = _mean_root([(event.elements or 0, event.asked_std or sigma) for event in events])
    return Stage(sigma, tuple(steps), changed / elements, std, asked)


def _mean_root(parts: Sequence[tuple[int, float]]) -> float:
    """Return the root mean square of values, each for so many elements; infinite where a square is too large."""
    return math.sqrt(sum(count * (value * value) for count, value in parts) / sum(count for count, _ in parts))


def check_rounding(given: CheckInput) -> Iterator[CheckFinding]:
    if given.noise is None:
        return
    found = given.noise.application
    if found.noisy and not found.effective:
        yield invalid(
            "RLX607",
            f"noise on {counted(len(found.noisy), 'step')} changed no weight: sigma is below the resolution of the "
            "dtype",
            _RAISE_SIGMA,
            found.noisy[0],
        )
        return
    seen = stages(found)
    weak = [step for stage in seen if stage.is_weak for step in stage.steps]
    words = "; ".join(f"sigma {stage.sigma:.3g}: {_left(stage)}" for stage in seen)
    if len(weak) > _HALF * len(found.noisy):
        yield unverified(
            "RLX614",
            f"most of the planned noise was rounded away: at {len(weak)} of {counted(len(found.noisy), 'noisy step')} "
            f"less than half of it remained ({words})",
            _RAISE_SIGMA,
            weak[0],
        )
    for stage in seen:
        if stage.is_weak:
            yield _below_resolution(stage)


def _below_resolution(stage: Stage) -> CheckFinding:
    where = f"sigma {stage.sigma:.3g} ({at_steps(stage.steps)})"
    return remark(
        "RLX607",
        Severity.WARNING,
        f"{where} changed no weight after rounding"
        if stage.is_dead
        else f"most of {where} was rounded away: {_left(stage)}",
        "these steps ran without the planned noise; raise aqn.sigma_end",
        stage.steps[0],
    )


def rounding_sentence(found: Application) -> Iterator[str]:
    """State what remained overall, then every stage that lost most of its noise."""
    seen = stages(found)
    if not seen:
        yield "what survived rounding was not counted"
        return
    first, last = seen[0], seen[-1]
    share = sum(stage.changed * len(stage.steps) for stage in seen) / sum(len(stage.steps) for stage in seen)
    yield f"{percent(share)} of the elements changed, effective std {first.std:.3g} → {last.std:.3g}"
    for stage in seen:
        if stage.is_weak:
            where = f"sigma {stage.sigma:.3g} ({at_steps(stage.steps)})"
            yield f"{where} changed nothing" if stage.is_dead else f"{where} mostly rounded away: {_left(stage)}"


def _left(stage: Stage) -> str:
    return f"{percent(stage.changed)} of the elements changed, effective std {stage.std:.2g}"


def check_faults_of_forks(given: CheckInput) -> Iterator[CheckFinding]:
    """Report known faults of forks that their own lines show, so that a verdict names the cause."""
    if given.noise is None:
        return
    for each in grammars(given.evidence.backend):
        yield from each.noise_faults(given.evidence, given.noise.application)
