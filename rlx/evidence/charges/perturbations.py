"""Hold the draws of a step against those planned, where each group of answers is generated under several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.run_evidence import LOG
from rlx.evidence.verdict import Charge, at_steps, invalid, unverified
from rlx.model import NoiseSchedule

_CHECK = "does the rollout change its noise between the answers of a group?"


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge steps at which draws are missing, or gave another number of answers than the others."""
    if given.noise is None or given.noise.schedule.perturbations == 1:
        return
    noise, found, _ = given.noise
    planned = range(noise.perturbations)
    answers = {step: _answers(found, step) for step in found.noisy}
    few = {step: by_draw for step, by_draw in answers.items() if by_draw.keys() != set(planned)}
    if few:
        step, by_draw = next(iter(few.items()))
        yield invalid(
            "RLX699",
            f"the noise of a step was to be drawn {noise.perturbations} times: not so at {at_steps(few)} "
            f"({len(by_draw)} at step {step})",
            _CHECK,
            step,
        )
    yield from _unequal({step: by_draw for step, by_draw in answers.items() if step not in few})


def _unequal(answers: dict[int, Counter[int]]) -> Iterator[Charge]:
    silent = [step for step, by_draw in answers.items() if not by_draw.total()]
    uneven = {step: by_draw for step, by_draw in answers.items() if len(set(by_draw.values())) > 1}
    if uneven:
        step, by_draw = next(iter(uneven.items()))
        counts = ", ".join(str(by_draw[draw]) for draw in sorted(by_draw))
        yield invalid(
            "RLX699",
            f"the draws of a step generated unequal parts of its answers: {at_steps(uneven)} ({counts} at step {step})",
            _CHECK,
            step,
        )
    if silent:
        yield unverified(
            "RLX699",
            f"nothing shows how many answers each draw generated at {at_steps(silent)}",
            "are lines of the record lost?",
            silent[0],
        )


def _answers(found: Application, step: int) -> Counter[int]:
    """Count the answers of each draw that this step had."""
    counts: Counter[int] = Counter()
    for event in found.at(step):
        if event.is_noisy and event.source != LOG:
            counts[event.draw] += event.answers or 0
    return counts


def sentence(noise: NoiseSchedule) -> Iterator[str]:
    """Say how many draws each group had, where it had several."""
    if noise.perturbations > 1:
        yield f"each group under {noise.perturbations} draws"
