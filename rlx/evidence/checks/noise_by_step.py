"""Compute the planned sigma of each step, and sort the recorded noise by step.

A fork whose lines name no step (zhshgmail/verl up to cfb21db5) gets its steps from the order of its lines: weights are
synced when a step begins to generate, so that lines after the line of step a are of the rollout of step a + 1. A
validation syncs once more, before the line of its step, with the noise of the next. Sigma is the one that the trainer
announces for the step, if it does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rlx.evidence.grammars import validation_prefixes
from rlx.evidence.metrics import metric_names, steps_with, validated_steps
from rlx.evidence.run_evidence import LOG, ROLLOUT, VALIDATION, Evidence, NoiseEvent
from rlx.model import AdaptiveSigma, NoiseExpectation, NoiseSchedule

# The fork prints sigma with six decimals: half of the last one, and a margin for binary fractions. The payload writes
# all decimals.
_PRINTED = 0.51e-6
_RELATIVE = 1e-3
BUILTIN = "builtin"
STEPS_BY_ORDER_SINCE = 3
"""The first version of the rules that reads steps from the order of lines."""


@dataclass(frozen=True)
class Application:
    """The noise on rollout weights by step, with the plan.

    `sigmas[s - 1]` is the plan for step s; `due` are the logged steps with planned noise, `quiet` those without.
    `events` are the syncs whose step is known; `unplaced` those whose step is not. `unread`: the largest sigma in lines
    whose wording rlx does not know. `has_lost_lines`: of the payload's own record. `is_adaptive`: sigma follows a
    measurement, so that it is not a dose that the run was given.
    """

    sigmas: tuple[float, ...]
    due: tuple[int, ...]
    quiet: tuple[int, ...]
    events: Mapping[int, Sequence[NoiseEvent]]
    unplaced: tuple[NoiseEvent, ...]
    unread: float = 0.0
    has_lost_lines: bool = False
    is_adaptive: bool = False

    @cached_property
    def noisy(self) -> tuple[int, ...]:
        """Due steps at which noise reached some layer."""
        return tuple(step for step in self.due if any(event.is_noisy for event in self.at(step)))

    @cached_property
    def effective(self) -> tuple[int, ...]:
        """Due steps at which some weight still differed after rounding."""
        return tuple(step for step in self.due if any(event.had_effect for event in self.at(step)))

    @cached_property
    def recorded(self) -> tuple[tuple[int, NoiseEvent], ...]:
        """Noise on rollout weights that the payload itself recorded, with its step, by step."""
        return tuple((step, event) for step, event in self.all_events() if event.is_noisy and event.source != LOG)

    def all_events(self) -> Iterator[tuple[int, NoiseEvent]]:
        """Yield the syncs with their steps, by step."""
        return ((step, event) for step in sorted(self.events) for event in self.events[step])

    def at(self, step: int) -> Sequence[NoiseEvent]:
        return self.events.get(step, ())

    def last_effect(self) -> NoiseEvent:
        """Return the latest event that changed a weight. Raises IndexError where there is none."""
        return [event for event in self.at(self.effective[-1]) if event.had_effect][-1]

    def strength(self, step: int) -> float:
        """Return the noise at a step: its effective standard deviation where counted, else sigma."""
        effects = [event for event in self.at(step) if event.had_effect]
        return max(event.sigma if event.effective_std is None else event.effective_std for event in effects)


def application(evidence: Evidence, noise: NoiseSchedule) -> Application:
    """Sort the noise of a run by step."""
    sigmas = planned_sigmas(noise, evidence)
    steps = training_steps(evidence)
    events: dict[int, list[NoiseEvent]] = defaultdict(list)
    for event in evidence.noise:
        if event.phase == ROLLOUT and event.step is not None and event.step <= len(sigmas):
            events[event.step].append(event)
    return Application(
        sigmas=sigmas,
        due=tuple(step for step in steps if sigma_at(sigmas, step) > 0),
        quiet=tuple(step for step in steps if step <= len(sigmas) and sigma_at(sigmas, step) == 0),
        events=events,
        unplaced=tuple(event for event in evidence.noise if event.step is None),
        unread=max((said.sigma for said in evidence.announced if said.step is None and said.sigma > 0), default=0.0),
        has_lost_lines=any(count.lost for count in evidence.records),
        is_adaptive=noise.adaptive is not None,
    )


def planned_sigmas(noise: NoiseSchedule, evidence: Evidence) -> tuple[float, ...]:
    """Return sigma of each step from 1: for the payload as planned; for a fork, over the run's own number of steps.

    Sigma that follows a measurement is computed from the recorded measurements, step by step.

    The fork divides its own total, which a filtered data set makes differ from the plan's, and does so in floats, which
    shifts some borders by one step (verl/utils/noise_injection.py, get_sigma_by_step). These are still the plan's
    sigmas, so neither counts as a wrong sigma; the differing total is a separate finding.
    """
    if noise.adaptive is not None:
        return _followed(noise, noise.adaptive, evidence)
    by_stage, total_steps = tuple(dict.fromkeys(noise.sigmas)), evidence.total_steps
    if noise.provider != BUILTIN or len(by_stage) != noise.stages or not total_steps:
        return noise.sigmas
    width = total_steps / noise.stages
    return tuple(by_stage[min(noise.stages - 1, int(index // width))] for index in range(total_steps))


def _followed(noise: NoiseSchedule, rule: AdaptiveSigma, evidence: Evidence) -> tuple[float, ...]:
    """Compute adaptive sigmas. A resumed run restarts them, so its recorded ones are used, with a finding (RLX698)."""
    own = {event.step: event for event in evidence.noise if event.phase == ROLLOUT and event.source != LOG}
    if is_resumed(evidence):
        steps = enumerate(noise.sigmas, start=1)
        return tuple(own[step].sigma if planned and step in own else planned for step, planned in steps)
    measured = {step - 1: event.measured for step, event in own.items() if step and event.measured is not None}
    return rule.follow(noise.sigmas, measured)


def is_resumed(evidence: Evidence) -> bool:
    """Tell whether processes of the run were started again."""
    return evidence.attempts > 1 or bool(evidence.restarts)


def noise_expectation(noise: NoiseSchedule) -> NoiseExpectation:
    """Return what the plan expects beyond sigma; nothing, for a plan of rlx 0.1 or 0.2."""
    return noise.promise or NoiseExpectation()


def sigma_at(sigmas: Sequence[float], step: int) -> float:
    """Return sigma at a step counted from 1; 0.0 outside."""
    return sigmas[step - 1] if 1 <= step <= len(sigmas) else 0.0


def same_sigma(seen: float, planned: float, *, printed: bool) -> bool:
    """Compare up to the printed precision, where sigma comes from a printed line. NaN equals nothing."""
    return math.isclose(seen, planned, rel_tol=_RELATIVE, abs_tol=_PRINTED if printed else 0.0)


def training_steps(evidence: Evidence) -> list[int]:
    """List the steps with a rollout in the log. A resumed run also logs a line with only a validation."""
    prefixes = validation_prefixes()
    keys = (key for key in metric_names(evidence) if not key.startswith(prefixes))
    return [step for step in steps_with(evidence, keys) if step > 0]


def with_steps_by_order(evidence: Evidence, noise: NoiseSchedule | None) -> Evidence:
    """Add steps by the order of lines; unchanged where the lines name steps, or their order is not known.

    Lines that Ray folded are no longer in their place.
    """
    if noise is None or noise.provider != BUILTIN:
        return evidence
    events = list(evidence.noise)
    if not events or any(event.step is not None or event.follows is None or event.folded for event in events):
        return evidence
    sigmas, validated = planned_sigmas(noise, evidence), set(validated_steps(evidence, None))
    # Lines of noise are printed only for a sigma above 0, so an announced sigma of 0 is not that of such a line.
    announced = {said.step: said.sigma for said in evidence.announced if said.step is not None and said.sigma > 0}
    return replace(evidence, noise=tuple(_placed(event, sigmas, validated, announced) for event in events))


def _placed(event: NoiseEvent, sigmas: Sequence[float], validated: set[int], announced: dict[int, float]) -> NoiseEvent:
    step = (event.follows or 0) + 1
    if step in validated and sigma_at(sigmas, step) == 0 and sigma_at(sigmas, step + 1) > 0:
        return replace(event, phase=VALIDATION, step=step, sigma=announced.get(step + 1, math.nan))
    return replace(event, step=step, sigma=announced.get(step, math.nan))


def is_by_order(event: NoiseEvent) -> bool:
    """Tell whether the step of an event follows from the order of lines."""
    return event.follows is not None and event.step is not None
