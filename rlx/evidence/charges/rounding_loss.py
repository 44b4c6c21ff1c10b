"""Measure how much of the noise survived rounding, because what counts is by how much the weights really moved.

A weight in bfloat16 has 8 significant bits, so noise far below half of its last bit changes nothing, and a little of
it changes a few weights by a whole bit. The payload counts both. How strong the noise is that arrives is its effective
standard deviation over what was asked for; the share of weights that changed alone would mislead, since few weights
that move far are as much noise as many that move little.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import sigma_at
from rlx.evidence.verdict import Charge, at_steps, counted, invalid, percent, remark, unverified
from rlx.model import Severity

# "Most" of the noise, and of the steps. A definition, not a measured border between noise and none.
_HALF = 0.5
_RAISE_SIGMA = "raise sigma, or keep the noisy weights in float32"


@dataclass(frozen=True, slots=True)
class Stage:
    """The noisy steps of one sigma. `changed`: share of the elements; `std`: root mean square of what they moved by.

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
    """The stages in which noise was added and counted, by step. Empty for a source that does not count."""
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
    """The root mean square of values, each for so many elements; infinite where a square is beyond all numbers."""
    return math.sqrt(sum(count * (value * value) for count, value in parts) / sum(count for count, _ in parts))


def check(given: CheckInput) -> Iterator[Charge]:
    if given.noise is None:
        return
    found = given.noise.application
    if found.noisy and not found.effective:
        yield invalid(
            "RLX607",
            f"noise on {counted(len(found.noisy), 'step')} changed no weight: sigma is below what the dtype resolves",
            _RAISE_SIGMA,
            found.noisy[0],
        )
        return
    seen = stages(found)
    weak = [step for stage in seen if stage.is_weak for step in stage.steps]
    if len(weak) > _HALF * len(found.noisy):
        yield unverified(
            "RLX614",
            f"most of the planned noise was rounded away: at {len(weak)} of {counted(len(found.noisy), 'noisy step')} "
            f"less than half of it arrived ({'; '.join(map(_words, seen))})",
            _RAISE_SIGMA,
            weak[0],
        )
    for stage in seen:
        if stage.is_weak:
            yield _below_resolution(stage)


def _below_resolution(stage: Stage) -> Charge:
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


def sentence(found: Application) -> Iterator[str]:
    """Say in one line for the verdict what arrived over all, then every stage that lost most of it."""
    seen = stages(found)
    if not seen:
        yield "what survived rounding is not counted"
        return
    first, last = seen[0], seen[-1]
    share = sum(stage.changed * len(stage.steps) for stage in seen) / sum(len(stage.steps) for stage in seen)
    yield f"{percent(share)} of the elements changed, effective std {first.std:.3g} → {last.std:.3g}"
    yield from (_loss(stage) for stage in seen if stage.is_weak)


def _loss(stage: Stage) -> str:
    where = f"sigma {stage.sigma:.3g} ({at_steps(stage.steps)})"
    return f"{where} changed nothing" if stage.is_dead else f"{where} mostly rounded away: {_left(stage)}"


def _words(stage: Stage) -> str:
    """`sigma 0.0005: 3 % of the elements changed, effective std 4e-05`."""
    return f"sigma {stage.sigma:.3g}: {_left(stage)}"


def _left(stage: Stage) -> str:
    return f"{percent(stage.changed)} of the elements changed, effective std {stage.std:.2g}"
