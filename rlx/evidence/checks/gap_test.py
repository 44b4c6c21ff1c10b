"""Test whether the gap between rollout and actor responds to the recorded noise, by step.

**Dose and response.** A schedule orders the doses in time: first none, then the strongest, then weaker ones. So "larger
than before the noise" would also be true of a gap that only rises, and "falls with sigma" of one that only falls.
Agreement requires both: the strongest doses give more than all others (Mann-Whitney, exact, one-sided, 1 %), than the
weaker doses alone (5 %), and than the steps without noise in three pairs of four, which one odd step among four cannot
change. Each difference must be at least a quarter, the amount by which the gap may vary without noise. If all doses are
equal, the largest lasting rise of the run must be where the noise begins (medians of three steps before and after each
step), or a control must have removed what changes with time.

Disagreement is the claim that the noise was absent. It requires power: independent contributions to the gap add in
squares, so that noise which adds `least` to a floor f gives hypot(f, least). `least` is subtracted at each step where
it is large enough against the floor to be visible. If even then the noisy steps are below the others (Mann-Whitney at
0.1 %, and their median a tenth below that of the steps without noise and of the weaker ones), and were not a quarter
above the clean ones before, noise of that size cannot have been present. Everything else is inconclusive. Error rates:
benchmarks/false_dissent.py, docs/dev/calibration.md.

**Alignment.** Only the borders of stages can show that a record is one step off. If noise comes a step late, the first
step of each stage still has the level of the stage before. If the record is right, the values of a stage may be in any
order: ranked by their distance from the level of the neighbouring stage, the first has each rank with equal
probability. The ranks of all borders are summed, and the probability of so small a sum is exact (a rank test in blocks,
after P. van Elteren, Bull. Inst. Int. Statist. 37 (1960) 351-361, with one treated value per block). Only borders
between levels that differ by half count; at least two of them, and three quarters, must be on their neighbour's side.

**Ranks.** One-sided Mann-Whitney test: H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables
is stochastically larger than the other", Ann. Math. Statist. 18 (1947) 50-60. It needs no threshold and no normality:
without a difference, every assignment of the observed ranks to the two samples is equally likely. Ties get the mean of
their ranks. Above _EXACT values in total, the normal approximation with tie and continuity correction is used (E. L.
Lehmann, Nonparametrics, 1975, ch. 1.5); scipy.stats.mannwhitneyu gives the same numbers.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from statistics import median

from rlx.evidence.checks.noise_by_step import Application, sigma_at
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_of, series
from rlx.evidence.run_evidence import Evidence

# The least gap that noise of standard deviation 1 gives: half of the least that was measured at the strongest sigma of
# a schedule, 6.0e-3 at 0.05 on the five norms of the tiny model (0.4 to 1.1 on larger ones). Fewer layers give less.
LEAST_GAP = 0.06
_LEAST_LAYERS = 5
# The same for the mean log ratio, which goes with the square: 3e-3 was the least at 0.05, and 1e-5 at 0.0005.
LEAST_LOG_RATIO = 0.6
ALPHA = 0.01
_DOSE = 0.05
_DISAGREEMENT = 0.001
_STRONG = 0.5  # of the largest dose
_SUPERIOR = 0.75
_CLEARLY = 1.25
_SHORT = 0.9
_POWER = 0.4
_WINDOW = 3
_SHIFTED = 0.004
_NEARER = 0.7
_LEVELS_DIFFER = math.log(1.5)
_SHORTEST = 3
_FEWEST = 2
_MOST = 0.75  # of the borders
_EXACT = 40


@dataclass(frozen=True, slots=True)
class GapTest:
    """The response of the gap to the recorded noise, and by how many steps the two are shifted; 0 for none."""

    response: DoseResponse
    off: int
    unit: str = ""  # of the values: none as logged
    metric: str = ""
    broken: tuple[int, ...] = ()  # noisy steps at which it is logged as no number

    @property
    def p(self) -> float:
        return self.response.p_value

    @property
    def outcome(self) -> GapOutcome:
        return GapOutcome.DISAGREES if self.off else self.response.outcome


def gap_test(
    evidence: Evidence, found: Application, control: Mapping[int, float] | None = None, substitute: str = ""
) -> GapTest:
    """Compare the gap of each step with its dose. `control`: the control's gap by step.

    `substitute`: the role of the metric that replaces the gap in this run (`Expectations.witness`).
    A mean log ratio, which may replace the gap, has a sign and is about 0 in a control, so the control's is not a unit.
    """
    control = None if substitute else control
    gaps = gaps_of(evidence, control, substitute)
    effective, clean = (
        set(found.effective),
        {step for step in found.quiet if not any(event.is_noisy for event in found.at(step))},
    )
    # Where sigma follows a measurement all noise is one dose, because sigma may fall when the gap is large.
    strongest = max(found.sigmas, default=0.0) if found.is_adaptive else 0.0
    steps = [
        DosedStep(
            step,
            gap,
            (strongest or sigma_at(found.sigmas, step)) if step in effective else 0.0,
            least_gap(found, step, control, substitute) if step in effective else 0.0,
        )
        for step, gap in sorted(gaps.items())
        if step in effective or step in clean
    ]
    unit, metric = "" if control is None else " × the control's", gap_metric(evidence, substitute)
    logged = series(evidence, metric)
    broken = tuple(step for step in found.effective if not math.isfinite(logged.get(step, 0.0)))
    response = DoseResponse(steps, is_relative=control is not None)
    return GapTest(response, steps_off(steps), unit, metric, broken)


def least_gap(found: Application, step: int, control: Mapping[int, float] | None, substitute: str = "") -> float:
    """Return the least that the noise at an effective step adds to the gap, in squares, and in the gap's unit."""
    layers = max(event.layers for event in found.at(step) if event.had_effect)
    strength = found.strength(step)
    if not math.isfinite(strength):
        return 0.0
    least = LEAST_LOG_RATIO * strength**2 if substitute else LEAST_GAP * strength
    return least * math.sqrt(min(layers / _LEAST_LAYERS, 1.0)) / (1.0 if control is None else control[step])


def gap_metric(evidence: Evidence, substitute: str = "") -> str:
    """Find the name of the gap, or of its replacement, in this log; "" where no back-end has a name for it."""
    return metric_of(evidence, Role(substitute or Role.PROBABILITY_GAP))


def gaps_of(evidence: Evidence, control: Mapping[int, float] | None, substitute: str = "") -> dict[int, float]:
    """Return the gap by step, in units of the control's at the same step where that is given; finite values only.

    The replacement of the gap is a mean with a sign, which is about 0 in a control, so the control's is not a unit.
    """
    gaps = series(evidence, gap_metric(evidence, substitute))
    if control is None or substitute:
        return {step: abs(gap) for step, gap in gaps.items() if math.isfinite(gap)}
    return {
        step: gap / control[step]
        for step, gap in gaps.items()
        if math.isfinite(gap) and math.isfinite(control.get(step, math.nan)) and control[step] > 0
    }


class GapOutcome(StrEnum):
    """What the gap shows of a record of noise."""

    AGREES = "agrees"
    INCONCLUSIVE = "inconclusive"
    DISAGREES = "disagrees"


@dataclass(frozen=True, slots=True)
class DosedStep:
    """One step: the measured gap, the recorded dose (0: none), and the least that such a dose adds in squares.

    `gap` and `least` have one unit; both are finite, and `gap` is not negative.
    """

    step: int
    gap: float
    dose: float
    least: float = 0.0


@dataclass(frozen=True)
class DoseResponse:
    """The steps of a run in their order. `is_relative`: each gap is in units of a control's at the same step."""

    steps: Sequence[DosedStep]
    is_relative: bool = False

    @cached_property
    def clean(self) -> list[DosedStep]:
        return [step for step in self.steps if step.dose == 0]

    @cached_property
    def strong(self) -> list[DosedStep]:
        return [step for step in self.steps if step.dose > 0 and step.dose >= self._border]

    @cached_property
    def weak(self) -> list[DosedStep]:
        return [step for step in self.steps if 0 < step.dose < self._border]

    @cached_property
    def powered(self) -> list[DosedStep]:
        """The noisy steps whose noise must be visible above the floor of the clean ones."""
        floor = _middle(self.clean) if self.clean else 0.0
        return [step for step in self.steps if step.dose > 0 and shows(step.least, floor)] if self.clean else []

    @cached_property
    def _border(self) -> float:
        return _STRONG * max((step.dose for step in self.steps), default=0.0)

    @cached_property
    def p_value(self) -> float:
        """The p-value of the strongest doses against the weaker ones and the steps without noise."""
        return p_larger(_gaps(self.strong), _gaps(self.weak + self.clean))

    @cached_property
    def outcome(self) -> GapOutcome:
        if not self.clean or not self.strong:
            return GapOutcome.INCONCLUSIVE
        if self.p_value < ALPHA and self._is_above_both() and self._follows_dose():
            return GapOutcome.AGREES
        return GapOutcome.DISAGREES if self._falls_short() else GapOutcome.INCONCLUSIVE

    def _is_above_both(self) -> bool:
        floor = max(_middle(each) for each in (self.weak, self.clean) if each)
        return _middle(self.strong) >= _CLEARLY * floor and _superiority(self.strong, self.clean) >= _SUPERIOR

    def _follows_dose(self) -> bool:
        if self.weak:
            return p_larger(_gaps(self.strong), _gaps(self.weak)) <= _DOSE
        return self.is_relative or self._rises_at_onset()

    def _rises_at_onset(self) -> bool:
        """Tell whether the largest lasting rise is where noise begins, and at least a quarter."""
        doses = [step.dose for step in self.steps]
        onsets = [i for i in range(1, len(doses)) if doses[i] > 0 == doses[i - 1]]
        rises = self._rises()
        at = max((rises[i] for i in onsets if i in rises), default=0.0)
        elsewhere = (rise for i, rise in rises.items() if all(abs(i - onset) >= _WINDOW for onset in onsets))
        return at >= _CLEARLY and at > max(elsewhere, default=0.0)

    def _rises(self) -> dict[int, float]:
        """Return index of a step -> the median from it on over that of the steps before it, three each."""
        gaps, width = _gaps(self.steps), min(_WINDOW, len(self.clean))
        middles = [median(gaps[i : i + width]) for i in range(len(gaps) - width + 1)]
        return {i: _ratio(middles[i], middles[i - width]) for i in range(width, len(middles))}

    def _falls_short(self) -> bool:
        if not self.powered or _middle(self.powered) > _CLEARLY * _middle(self.clean):
            return False
        floor = _middle(self.clean)
        unseen = [step for step in self.steps if step.dose > 0 and not shows(step.least, floor)]
        clean, weak, short = _without_least(self.clean), _without_least(unseen), _without_least(self.powered)
        if any(median(short) > _SHORT * median(each) for each in (clean, weak) if each):
            return False
        return p_larger(clean + weak, short) < _DISAGREEMENT


def shows(least: float, floor: float) -> bool:
    """Tell whether noise that adds `least` must be visible above this floor, to which it adds in squares."""
    return least >= _POWER * floor


def _gaps(steps: Sequence[DosedStep]) -> list[float]:
    return [step.gap for step in steps]


def _middle(steps: Sequence[DosedStep]) -> float:
    return median(_gaps(steps))


def _ratio(value: float, base: float) -> float:
    return value / base if base else math.inf if value else 1.0


def _superiority(sample: Sequence[DosedStep], reference: Sequence[DosedStep]) -> float:
    """Return the share of pairs in which the first is larger: Mann and Whitney's U over the number of pairs."""
    below = sorted(_gaps(reference))
    larger = sum(bisect_left(below, step.gap) + bisect_right(below, step.gap) for step in sample)
    return larger / 2 / (len(sample) * len(below))


def _without_least(steps: Sequence[DosedStep]) -> list[float]:
    """Subtract the least contribution of its noise from each gap; negative where it was less than that."""
    squares = [step.gap**2 - step.least**2 for step in steps]
    return [math.copysign(math.sqrt(abs(square)), square) for square in squares]


@dataclass(frozen=True, slots=True)
class Border:
    """The first value of a stage: its rank among `size` by its distance from the neighbour's level, 1 the nearest.

    `beyond`: it is clearly nearer to the neighbour's level than to that of its own stage.
    """

    rank: int
    size: int
    beyond: bool


def steps_off(steps: Sequence[DosedStep]) -> int:
    """Return 1 where the noise came a step later than recorded, -1 where earlier, 0 where nothing shows either."""
    seen = (step for step in steps if step.gap > 0)
    stages = [[math.log(step.gap) for step in own] for _, own in groupby(seen, key=lambda step: step.dose)]
    told = [
        (one, other)
        for one, other in pairwise(stages)
        if (min(len(one), len(other)) >= _SHORTEST and abs(median(one) - median(other)) >= _LEVELS_DIFFER)
    ]
    if _are_shifted([_border(later, earlier) for earlier, later in told]):
        return 1
    return -1 if _are_shifted([_border(earlier[::-1], later) for earlier, later in told]) else 0


def _border(stage: Sequence[float], neighbour: Sequence[float]) -> Border:
    level = median(neighbour)
    distances = [abs(value - level) for value in stage]
    rank = 1 + sum(distance < distances[0] for distance in distances)
    return Border(rank, len(stage), distances[0] < _NEARER * abs(stage[0] - median(stage)))


def _are_shifted(borders: Sequence[Border]) -> bool:
    beyond = sum(border.beyond for border in borders)
    if beyond < max(_FEWEST, _MOST * len(borders)):
        return False
    return _chance(sum(border.rank for border in borders), [border.size for border in borders]) < _SHIFTED


def _chance(most: int, sizes: Sequence[int]) -> float:
    """Return the probability that ranks drawn at random, one from 1 to each size, have at most this sum."""
    ways = [1]
    for size in sizes:
        ways = [sum(ways[max(0, total - size) : total]) for total in range(len(ways) + size)]
    return sum(ways[: most + 1]) / math.prod(sizes)


def p_larger(sample: Sequence[float], reference: Sequence[float]) -> float:
    """Return the probability of ranks at least as high as those of `sample` if both came from one distribution.

    Finite values only. 1.0 where either is empty: no data, no evidence.
    """
    if not sample or not reference:
        return 1.0
    doubled = _doubled_ranks([*sample, *reference])
    if len(doubled) > _EXACT:
        return _normal_p(doubled, len(sample))
    return _exact_p(doubled, len(sample))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Double the rank of each value, ties averaged, so that sums are whole numbers."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    start = 1
    for _, group in groupby(order, key=values.__getitem__):
        tied = list(group)
        for index in tied:
            ranks[index] = 2 * start + len(tied) - 1
        start += len(tied)
    return ranks


def _exact_p(doubled: Sequence[int], size: int) -> float:
    counts = _subsets_by_sum(tuple(sorted(doubled)), size)
    observed = sum(doubled[:size])
    extreme = sum(ways for total, ways in counts.items() if total >= observed)
    return extreme / math.comb(len(doubled), size)


@lru_cache(maxsize=128)
def _subsets_by_sum(doubled: tuple[int, ...], size: int) -> dict[int, int]:
    """Count the subsets of `size` ranks by their sum, adding one rank after the other."""
    counts: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(size)]
    for rank in doubled:
        for taken in range(size, 0, -1):
            for total, ways in counts[taken - 1].items():
                counts[taken][total + rank] = counts[taken].get(total + rank, 0) + ways
    return counts[size]


def _normal_p(doubled: Sequence[int], size: int) -> float:
    everything = len(doubled)
    other = everything - size
    above_mean = (sum(doubled[:size]) - size * (everything + 1)) / 2
    ties = sum(count**3 - count for count in (len(list(group)) for _, group in groupby(sorted(doubled))))
    variance = size * other / 12 * (everything + 1 - ties / (everything * (everything - 1)))
    if variance <= 0:
        return 1.0
    return math.erfc((above_mean - 0.5) / math.sqrt(2 * variance)) / 2
