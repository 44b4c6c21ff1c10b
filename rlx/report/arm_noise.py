"""The noise of one arm by step: what was planned, and what its record shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlx.evidence import Evidence, JudgedRun, NoiseEvent
from rlx.evidence.charges.promised_noise import planned_sigmas
from rlx.evidence.run_evidence import VALIDATION


@dataclass(frozen=True, slots=True)
class NoiseTrack:
    """`planned[s - 1]` is sigma of step s. `applied` and `in_validation` are (step, sigma), each once, by step.

    `unplaced` counts the applications whose step or sigma no record says: they cannot be drawn.
    """

    planned: tuple[float, ...]
    applied: tuple[tuple[int, float], ...]
    in_validation: tuple[tuple[int, float], ...]
    unplaced: int

    @property
    def sigmas(self) -> tuple[float, ...]:
        """Every sigma there is to draw."""
        return self.planned + tuple(sigma for _, sigma in self.applied + self.in_validation)


def noise_track(runs: Sequence[JudgedRun]) -> NoiseTrack | None:
    """The noise of the runs of one arm; None where none was planned and none is recorded."""
    evidence = [run.evidence for run in runs]
    planned = _planned(runs[0])
    noisy = [event for each in evidence for event in each.noise if event.is_noisy]
    if not planned and not noisy:
        return None
    return NoiseTrack(
        planned=planned,
        applied=_placed(event for each in evidence for event in _reached(each)),
        in_validation=_placed(event for event in noisy if event.phase == VALIDATION),
        unplaced=sum(not _is_placed(event) for event in noisy),
    )


def _planned(run: JudgedRun) -> tuple[float, ...]:
    noise = run.plan.expectations.noise
    return planned_sigmas(noise, run.evidence) if noise else ()


def _reached(evidence: Evidence) -> Iterable[NoiseEvent]:
    """Weight syncs for rollouts. The last one prepares a step that never comes, so it is left out."""
    return (
        event
        for event in evidence.noise
        if event.phase != VALIDATION and (event.step is None or event.step <= evidence.last_step)
    )


def _is_placed(event: NoiseEvent) -> bool:
    return event.step is not None and math.isfinite(event.sigma)


def _placed(events: Iterable[NoiseEvent]) -> tuple[tuple[int, float], ...]:
    """A sync that matched no layer applied sigma 0, whatever it announced."""
    return tuple(
        sorted(
            {
                (event.step, event.sigma if event.layers else 0.0)
                for event in events
                if event.step is not None and math.isfinite(event.sigma)
            }
        )
    )
