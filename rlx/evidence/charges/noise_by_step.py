"""Sort the noise on rollout weights by step, beside what was planned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rlx.evidence.charges.promised_noise import planned_sigmas, sigma_at, training_steps
from rlx.evidence.run_evidence import LOG, ROLLOUT, Evidence, NoiseEvent
from rlx.model import NoiseSchedule


@dataclass(frozen=True)
class Application:
    """The noise on rollout weights, by step, beside what was planned.

    `sigmas[s - 1]` is the plan for step s; `due` are the logged steps that were promised noise, `quiet` those
    promised none. `events` are the syncs whose step is known; `unplaced` the applications whose step is not. `unread`:
    the largest sigma in lines whose wording rlx does not know. `has_lost_lines`: of the payload's own record.
    `is_adaptive`: sigma follows a measurement, so that it is no dose that the run was given.
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
        """Noise on rollout weights that the payload itself wrote down, with its step, by step."""
        return tuple((step, event) for step, event in self.all_events() if event.is_noisy and event.source != LOG)

    def all_events(self) -> Iterator[tuple[int, NoiseEvent]]:
        """The syncs with their steps, by step."""
        return ((step, event) for step in sorted(self.events) for event in self.events[step])

    def at(self, step: int) -> Sequence[NoiseEvent]:
        return self.events.get(step, ())

    def last_effect(self) -> NoiseEvent:
        """The latest event that changed a weight. Raises IndexError where there is none."""
        return [event for event in self.at(self.effective[-1]) if event.had_effect][-1]

    def strength(self, step: int) -> float:
        """The noise that arrived at a step: its effective standard deviation where counted, else sigma."""
        effects = [event for event in self.at(step) if event.had_effect]
        return max(event.sigma if event.effective_std is None else event.effective_std for event in effects)


def application(evidence: Evidence, noise: NoiseSchedule) -> Application:
    """Sort the evidence by step."""
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
