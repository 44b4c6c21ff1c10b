"""First witness: was noise added, to which layers, with which sigma, at which steps, and did it survive rounding?"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.line_order import is_by_order
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import same_sigma, sigma_at
from rlx.evidence.run_evidence import LOG, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, counted, invalid, unverified
from rlx.model import RunState

_CHECK_TARGETS = "check aqn.layer_types, aqn.targets and aqn.exclude against the module names of the rollout's model"
_CHECK_SCHEDULE = "was the noise step advanced, and do aqn.* and the total steps reach the rollout?"
_FOLDED = "Ray folded lines of several processes into one, so they may be missing from the log only"
_LOST = "lines of the record are lost, it may have stood there"
_UNFOLD = "launch with RAY_DEDUP_LOGS=0, or use aqn.provider: payload, which writes its own record"


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge everything wrong with noise on rollouts. Nothing is due in the first stage, which is free of noise."""
    if given.noise is None:
        return
    found = given.noise.application
    yield from _zero_layers(found)
    # What was not due until the run ended by itself never will be.
    if given.state is RunState.FINISHED and not found.due:
        yield invalid("RLX601", "no noise was applied: the run ended before the first step that should have it")
    elif found.due and not found.noisy:
        yield from _nothing_applied(found)
    else:
        yield from _missing(found)
        yield from _taken_off(found)
    yield from _wrong_sigma(found)
    yield from _unknown_sigma(found)
    yield from _where_none_may_be(found)
    yield from _other_layers(found)


def _zero_layers(found: Application) -> Iterator[Charge]:
    placed = [step for step, event in found.all_events() if event.layers == 0 and event.sigma != 0]
    unplaced = [event for event in found.unplaced if event.layers == 0]
    if placed or unplaced:
        where = f" at {at_steps(placed)}" if placed else f" ({counted(len(unplaced), 'line')})"
        yield invalid(
            "RLX602", f"noise was due but matched 0 layers{where}", _CHECK_TARGETS, placed[0] if placed else None
        )


def _nothing_applied(found: Application) -> Iterator[Charge]:
    unplaced = [event for event in found.unplaced if event.is_noisy]
    if unplaced:
        yield unverified(
            "RLX604",
            f"the log shows noise on {unplaced[-1].layers} layers {len(unplaced)} times, not at which steps or sigma",
            "judge the run directory, whose event files say both",
        )
        return
    if found.unread:
        yield unverified(
            "RLX604",
            f"the log tells of noise in words that rlx does not know (sigma {found.unread:g} at most)",
            "use aqn.provider: payload, which writes a record of its own",
        )
        return
    yield invalid(
        "RLX601",
        f"no noise was applied in any of the {counted(len(found.due), 'step')} that should have it",
        "lines that say enabled or applying prove nothing; " + _CHECK_TARGETS,
        found.due[0],
    )


def _missing(found: Application) -> Iterator[Charge]:
    """Charge steps at which a process that spoke elsewhere had no noise. One that never speaks is told by RLX672."""
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
    """Find the processes that were given noise; one that matched no layer is told by RLX602 already."""
    return {event.process.place for event in events if event.sigma != 0}


def _taken_off(found: Application) -> Iterator[Charge]:
    """Charge steps whose last sync in some process brought clean weights, after one that added noise."""
    last = {(step, event.process.place): event for step, event in found.all_events() if event.source != LOG}
    bare = [
        step
        for (step, place), event in last.items()
        if step in found.noisy and event.sigma == 0 and place in _disturbed(found.at(step))
    ]
    if bare:
        yield invalid(
            "RLX604",
            f"noise was taken off again at {at_steps(bare)}: the last sync before its rollout brought clean weights",
            _CHECK_SCHEDULE,
            bare[0],
        )


def _wrong_sigma(found: Application) -> Iterator[Charge]:
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


def _unknown_sigma(found: Application) -> Iterator[Charge]:
    """Charge noise whose steps follow from the order of its lines, and whose sigma nothing tells."""
    unknown = [step for step, event in found.all_events() if is_by_order(event) and math.isnan(event.sigma)]
    if unknown:
        yield unverified(
            "RLX604",
            f"the log shows noise at {at_steps(unknown)} by the order of its lines, and no sigma",
            "keep the lines of the fork that announce sigma, or use aqn.provider: payload",
            unknown[0],
        )


def _other_layers(found: Application) -> Iterator[Charge]:
    """One schedule and one set of targets give the same layers at every step. Which count is right is not known."""
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


def _where_none_may_be(found: Application) -> Iterator[Charge]:
    noisy = [step for step, event in found.all_events() if event.is_noisy and sigma_at(found.sigmas, step) == 0]
    if noisy:
        yield invalid("RLX605", f"noise at {at_steps(noisy)}, in the stage free of noise", _CHECK_SCHEDULE, noisy[0])
