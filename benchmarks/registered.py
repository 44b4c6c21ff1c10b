"""The tests of registered questions, and four ways of choosing, held against simulated runs whose truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rlx.compare.registered_design import (
    Claim,
    Design,
    MultiplicityCorrection,
    claim_statistic,
    contrasts_of,
    corrected,
    dunnett_limit,
    power,
    smallest_effect,
    smallest_margin,
    tested,
    textbook_power,
)
from rlx.compare.seed_test import mean_test
from rlx.compare.statistic import ALPHA

DESIGN_HEAD = "| what | false alarms | coverage | found | said | textbook |\n|---|---:|---:|---:|---:|---:|"
CHOICE_HEAD = "| way of choosing | looked at each | registered |\n|---|---:|---:|"
SEEDS = (3, 5, 8)
RATIOS = (1, 2, 4)
TREATMENTS = 3
_FAR = 4.0
"""The margin in standard deviations: far enough that the other end of it has no say."""
_MOST_ALARMS = 0.06
_LEAST_COVERAGE = 0.01
_CAUTIOUS = (0.04, 0.015)

Floats = NDArray[np.float64]
Truths = Sequence[float]


@dataclass(frozen=True, slots=True)
class DesignLine:
    """Shares of the replications: the claim shown where it is just not true (of several treatments any), and intervals
    that hold the truth (after Dunnett all of them).

    `power`: with an effect or margin that `rlx power` says is shown with 80 % power, how often it is, what `rlx power`
    says, and what a noncentral t says of one treatment. `known`: the docs say that it errs here.
    """

    what: str
    replications: int
    level: float
    false_alarms: float
    coverage: float
    power: tuple[float, ...] = ()
    known: bool = False

    @property
    def errs(self) -> bool:
        least = self.level - _LEAST_COVERAGE
        return self.false_alarms > _MOST_ALARMS + self._slack(_MOST_ALARMS) or self.coverage < least - self._slack(
            least
        )

    @property
    def broken(self) -> bool:
        """It errs, and nobody is told."""
        return self.errs and not self.known

    def __str__(self) -> str:
        shares = [self.false_alarms, self.coverage, *self.power]
        cells = [*(f"{100 * share:.1f} %" for share in shares), *[""] * (5 - len(shares))]
        return f"| {', '.join([self.what, *self._notes()])} | {' | '.join(cells)} |"

    def _notes(self) -> Iterator[str]:
        if self.errs:
            yield "errs, known" if self.known else "**broken**"
        elif self.false_alarms < _CAUTIOUS[0] or self.coverage > self.level + _CAUTIOUS[1]:
            yield "cautious"

    def _slack(self, share: float) -> float:
        """Twice the standard error of the simulation."""
        return 2 * float(np.sqrt(share * (1 - share) / self.replications))


@dataclass(frozen=True, slots=True)
class ChoiceLine:
    """How often a difference is reported where there is none: by choosing, and by the rule that was registered."""

    what: str
    replications: int
    chosen: float
    registered: float

    @property
    def broken(self) -> bool:
        return self.registered > _MOST_ALARMS + 2 * float(np.sqrt(_MOST_ALARMS * 0.94 / self.replications))

    def __str__(self) -> str:
        mark = ", **broken**" if self.broken else ""
        return f"| {self.what}{mark} | {100 * self.chosen:.1f} % | {100 * self.registered:.1f} % |"


def tables(rng: Generator, replications: int) -> Iterator[tuple[str, str, Iterator[DesignLine] | Iterator[ChoiceLine]]]:
    """Title, head and lines of each table."""
    for claim in Claim:
        yield f"Registered: {claim.value}, one treatment", DESIGN_HEAD, _one(rng, replications, claim)
    for claim in Claim:
        title = f"Registered: {claim.value}, {TREATMENTS} treatments"
        yield title, DESIGN_HEAD, _several(rng, replications, claim)
    yield "Registered: blocks", DESIGN_HEAD, _in_blocks(rng, replications)
    yield "Four ways of choosing", CHOICE_HEAD, choices(rng, replications)


def _one(rng: Generator, replications: int, claim: Claim) -> Iterator[DesignLine]:
    for runs, ratio in product(SEEDS, RATIOS):
        what = f"Welch, {runs} seeds, spreads 1 to {ratio}"
        yield design_line(rng, replications, what, _design(claim, ratio), runs, (1, ratio))


def _several(rng: Generator, replications: int, claim: Claim) -> Iterator[DesignLine]:
    for several, runs, ratio in product(MultiplicityCorrection, SEEDS, RATIOS):
        design = _design(claim, ratio, several=several)
        for place, sds in _spreads(ratio).items():
            what = f"{several.value.capitalize()}, {runs} seeds{place}"
            known = several is MultiplicityCorrection.DUNNETT and ratio > 1
            yield design_line(rng, replications, what, design, runs, sds, known=known)


def _spreads(ratio: int) -> dict[str, tuple[float, ...]]:
    """Standard deviations of the arms, the control first, by the words for them."""
    if ratio == 1:
        return {", like spreads": (1.0,) * (1 + TREATMENTS)}
    return {
        f", the control {ratio} times as wide": (ratio, *[1.0] * TREATMENTS),
        f", one treatment {ratio} times as wide": (1.0, ratio, *[1.0] * (TREATMENTS - 1)),
    }


def _in_blocks(rng: Generator, replications: int) -> Iterator[DesignLine]:
    for claim, runs, ratio in product((Claim.SUPERIORITY, Claim.EQUIVALENCE), SEEDS, (1, 4)):
        what = f"paired t, {claim.value}, {runs} blocks, spreads 1 to {ratio}"
        yield design_line(rng, replications, what, _design(claim, ratio, blocked=True), runs, (1, ratio))
    for runs in SEEDS:
        what = f"Dunnett within blocks, superiority, {runs} blocks"
        yield design_line(rng, replications, what, _design(Claim.SUPERIORITY, 1, blocked=True), runs, (1.0,) * 4)


def _design(
    claim: Claim,
    ratio: float,
    several: MultiplicityCorrection = MultiplicityCorrection.DUNNETT,
    *,
    blocked: bool = False,
) -> Design:
    margin = None if claim is Claim.SUPERIORITY else _FAR * float(np.sqrt((1 + ratio**2) / 2))
    return Design(claim, margin, several, blocked)


def design_line(
    rng: Generator,
    replications: int,
    what: str,
    design: Design,
    runs: int,
    sds: Sequence[float],
    *,
    known: bool = False,
) -> DesignLine:
    """Simulate the design where its claim is just not true and, with like spreads, where it should be shown."""
    truths = _just_not(design, len(sds) - 1)
    shown, holds = _simulated(rng, replications, design, runs, sds, truths)
    simultaneous = design.is_dunnett(len(sds) - 1)
    coverage = (holds.all(axis=0) if simultaneous else holds).mean()
    found = _power(rng, replications, design, runs, len(sds) - 1) if len({*sds}) == 1 else ()
    return DesignLine(what, replications, design.level, float(shown.any(axis=0).mean()), float(coverage), found, known)


def _just_not(design: Design, treatments: int) -> Truths:
    """The true differences at which a false alarm is most likely: none, or those at the margin."""
    if design.margin is None:
        return [0.0] * treatments
    if design.claim is Claim.NON_INFERIORITY:
        return [-design.margin] * treatments
    return [design.margin * (-1) ** index for index in range(treatments)]


def _power(rng: Generator, replications: int, design: Design, runs: int, treatments: int) -> tuple[float, ...]:
    """Found, said and (of one treatment) by the textbook, where 80 % are said, of the first treatment."""
    effect = smallest_effect(design, 1.0, runs, treatments) if design.margin is None else 0.0
    if design.margin is not None:
        margin = smallest_margin(design, 1.0, runs, treatments)
        design = Design(design.claim, margin, design.several, design.blocked)
    truths = [effect] + [0.0 if design.margin is None else -_FAR * design.margin] * (treatments - 1)
    shown, _ = _simulated(rng, replications, design, runs, [1.0] * (treatments + 1), truths)
    said = power(design, effect, 1.0, runs, treatments)
    found = float(shown[0].mean())
    return (found, said, textbook_power(design, effect, 1.0, runs)) if treatments == 1 else (found, said)


def _simulated(
    rng: Generator, replications: int, design: Design, runs: int, sds: Sequence[float], truths: Truths
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(treatments, replications): the claim is shown, and the interval holds the truth."""
    block = rng.normal(size=(replications, runs)) if design.blocked else 0.0
    arms = [sd * rng.normal(size=(replications, runs)) + block for sd in sds]
    treatments = [arm + truth for arm, truth in zip(arms[1:], truths, strict=True)]
    shown, contrasts, half = decided(design, arms[0], treatments)
    off = [abs(test.difference - truth) for test, truth in zip(contrasts, truths, strict=True)]
    return shown, np.stack([each <= reach for each, reach in zip(off, half, strict=True)])


def decided(design: Design, control: Floats, treatments: Sequence[Floats]) -> tuple[NDArray[np.bool_], list, list]:
    """(treatments, replications) of claims shown, the contrasts, and half of their intervals, in each replication."""
    if not design.is_dunnett(len(treatments)):
        found = tested(design, control, treatments)
        return np.stack(found.p_values) < ALPHA, found.contrasts, found.half
    contrasts = contrasts_of(design, control, treatments)
    limit = dunnett_limit(design, [arm.shape[-1] for arm in (control, *treatments)])
    shown = np.stack([claim_statistic(design, each) for each in contrasts]) > limit
    return shown, contrasts, [limit * each.error for each in contrasts]


def choices(rng: Generator, replications: int) -> Iterator[ChoiceLine]:
    """Report the best of several looks at runs that differ by nothing, in four ways, and as it was registered."""
    control, treatment = rng.normal(size=(2, replications, 5))
    subsets = [list(kept) for size in (3, 4, 5) for kept in combinations(range(5), size)]
    best = np.stack([mean_test(control[:, kept], treatment[:, kept]).p_value for kept in subsets])
    yield _choice("the best three or more of five seeds", replications, best, best[-1])

    again = rng.normal(size=(5, replications, 5))
    launches = np.stack([mean_test(control, arm).p_value for arm in again])
    yield _choice("relaunching the treatment, up to five times", replications, launches, launches[0])

    control, treatment = rng.normal(size=(2, replications, 8))
    looks = np.stack([mean_test(control[:, :n], treatment[:, :n]).p_value for n in range(3, 9)])
    yield _choice("looking after each seed, from three to eight", replications, looks, looks[-1])

    pairs = rng.normal(size=(5, 2, replications, 5))
    single = np.stack([mean_test(*pair).p_value for pair in pairs])
    yield _choice("five benchmarks one by one", replications, single, np.stack(corrected(list(single))).min(axis=0))


def _choice(what: str, replications: int, looks: Floats, registered: Floats) -> ChoiceLine:
    """`looks`: p-values in rows, of which the smallest is reported; `registered`: the one p-value that counts."""
    return ChoiceLine(what, replications, float((looks.min(axis=0) < ALPHA).mean()), float((registered < ALPHA).mean()))
