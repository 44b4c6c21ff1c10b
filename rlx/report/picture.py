"""Describe the picture of a comparison as values: curves with intervals, and the noise of each arm. Knows no pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rlx.compare import ComparedArm, Comparison
from rlx.compare.metric import are_counts, why_not_binary
from rlx.compare.proportions import wilson_interval
from rlx.evidence import Evidence, JudgedRun, NoiseEvent
from rlx.evidence.checks.noise_by_step import planned_sigmas
from rlx.evidence.metrics import data_sources
from rlx.evidence.run_evidence import VALIDATION
from rlx.table import marked

# How many times the height of all later values the gap to those before training must be.
_FAR = 1.5


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One validation; `low` and `high` bound its 95 % interval, None where the values allow none."""

    step: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """The validations of one arm. `word` is its verdict, or its state while it runs; "" for a valid arm.

    `excluded`: its numbers are excluded, so it is drawn as such and carries the word. `seeds`: the series of its runs
    where there are several; `points` are then their means.
    """

    label: str
    word: str
    excluded: bool
    points: tuple[CurvePoint, ...]
    seeds: tuple[Mapping[int, float], ...] = ()

    @property
    def name(self) -> str:
        """The label with the word, which must precede the number."""
        return marked(self.label, self.word)


@dataclass(frozen=True, slots=True)
class Picture:
    """`noise[i]` belongs to `curves[i]`; None for an arm without noise.

    `intervals`: the meaning of the bands, in words; "" where there are none.
    """

    metric: str
    is_share: bool
    interim: bool
    curves: tuple[Curve, ...]
    noise: tuple[NoiseTrack | None, ...]
    intervals: str

    @property
    def has_noise(self) -> bool:
        return any(track is not None for track in self.noise)

    @property
    def last_step(self) -> int:
        """The end of the axis of steps: the last one with a value, or with planned or applied noise."""
        steps = [point.step for curve in self.curves for point in curve.points]
        for track in self.noise:
            if track:
                steps += [len(track.planned), *(step for step, _ in track.applied + track.in_validation)]
        return max(steps, default=1)

    def value_text(self, value: float) -> str:
        return f"{100 * value:.2f} %" if self.is_share else f"{value:.5g}"

    def bound_text(self, value: float) -> str:
        """Write a bound of an interval with one digit less than its value."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:.4g}"


def picture(comparison: Comparison, judged: Sequence[JudgedRun]) -> Picture:
    """Describe a comparison. `judged` are its runs with their evidence, in any order."""
    evidence = {run.run_id: run for run in judged}
    counts = [_item_count(arm, comparison.metric, evidence) for arm in comparison.arms]
    curves = [_curve(arm, n, comparison.is_share) for arm, n in zip(comparison.arms, counts, strict=True)]
    return Picture(
        metric=comparison.metric,
        is_share=comparison.is_share,
        interim=comparison.interim,
        curves=tuple(map(_without_bands, curves) if comparison.withheld else curves),
        noise=tuple(noise_track([evidence[run.run_id] for run in arm.runs]) for arm in comparison.arms),
        intervals="" if comparison.withheld else _intervals(comparison.arms, counts),
    )


def _curve(arm: ComparedArm, n: int | None, is_share: bool) -> Curve:
    points = _seed_points(arm, is_share) if arm.has_seeds else _item_points(arm.series, n)
    seeds = tuple(run.series for run in arm.runs) if len(arm.runs) > 1 else ()
    word = ", ".join(filter(None, (arm.word, "repeats of one seed" if arm.repeats else "")))
    return Curve(arm.label, word, arm.is_excluded, tuple(points), seeds)


def _without_bands(curve: Curve) -> Curve:
    return replace(curve, points=tuple(replace(point, low=None, high=None) for point in curve.points))


def _item_points(series: Mapping[int, float], n: int | None) -> Iterator[CurvePoint]:
    for step, value in series.items():
        yield CurvePoint(step, value, *((None, None) if n is None else wilson_interval(round(value * n), n)))


def _seed_points(arm: ComparedArm, is_share: bool) -> Iterator[CurvePoint]:
    """Compute Student's interval of the mean over the runs of an arm; that of a share is limited to 0 to 1."""
    from scipy import stats

    runs = len(arm.runs)
    factor = float(stats.t.ppf(0.975, runs - 1)) / math.sqrt(runs)
    for step, value in arm.series.items():
        half = factor * arm.spread[step]
        low, high = value - half, value + half
        bounds = (max(0.0, low), min(1.0, high)) if is_share else (low, high)
        # Equal values of all runs, as before training, bound nothing.
        yield CurvePoint(step, value, *(bounds if half else (None, None)))


def _item_count(arm: ComparedArm, metric: str, evidence: Mapping[str, JudgedRun]) -> int | None:
    """Return n of a single run whose values are shares of right answers out of n, else None."""
    run, n = arm.runs[0], arm.runs[0].items.n
    why_not = why_not_binary(metric, len(data_sources(evidence[run.run_id].evidence, metric)))
    return n if n and len(arm.runs) == 1 and not why_not and are_counts(run.series.values(), n) else None


def _intervals(arms: Sequence[ComparedArm], counts: Sequence[int | None]) -> str:
    """Describe the bands in words."""
    sizes = sorted({n for n in counts if n})
    seeds = sorted({len(arm.runs) for arm in arms if arm.has_seeds})
    items = f"over {' and '.join(map(str, sizes))} items (Wilson)" if sizes else ""
    runs = f"over {' and '.join(map(str, seeds))} seeds (Student's t)" if seeds else ""
    return f"bands: 95 % intervals {'; '.join(filter(None, (items, runs)))}" if items or runs else ""


@dataclass(frozen=True, slots=True)
class NoiseTrack:
    """The noise of one arm by step. `planned[s - 1]` is sigma of step s.

    `applied` and `in_validation` are (step, sigma), each once, by step. `unplaced` counts the noise whose step or sigma
    is not recorded: it cannot be drawn.
    """

    planned: tuple[float, ...]
    applied: tuple[tuple[int, float], ...]
    in_validation: tuple[tuple[int, float], ...]
    unplaced: int

    @property
    def sigmas(self) -> tuple[float, ...]:
        """All sigmas to be drawn."""
        return self.planned + tuple(sigma for _, sigma in self.applied + self.in_validation)


def noise_track(runs: Sequence[JudgedRun]) -> NoiseTrack | None:
    """Collect the noise of the runs of one arm; None where none was planned and none is recorded."""
    evidence = [run.evidence for run in runs]
    planned = _planned_sigmas(runs[0])
    noisy = [event for each in evidence for event in each.noise if event.is_noisy]
    if not planned and not noisy:
        return None
    return NoiseTrack(
        planned=planned,
        applied=_placed(event for each in evidence for event in _synced(each)),
        in_validation=_placed(event for event in noisy if event.phase == VALIDATION),
        unplaced=sum(not (event.step is not None and math.isfinite(event.sigma)) for event in noisy),
    )


def _planned_sigmas(run: JudgedRun) -> tuple[float, ...]:
    noise = run.plan.expectations.noise
    return planned_sigmas(noise, run.evidence) if noise else ()


def _synced(evidence: Evidence) -> Iterable[NoiseEvent]:
    """Yield weight syncs for rollouts, without the last one, which prepares a step that is not run."""
    return (
        event
        for event in evidence.noise
        if event.phase != VALIDATION and (event.step is None or event.step <= evidence.last_step)
    )


def _placed(events: Iterable[NoiseEvent]) -> tuple[tuple[int, float], ...]:
    """List (step, sigma), each once; a sync that matched no layer applied sigma 0, whatever it announced."""
    return tuple(
        sorted(
            {
                (event.step, event.sigma if event.layers else 0.0)
                for event in events
                if event.step is not None and math.isfinite(event.sigma)
            }
        )
    )


def reached_values(drawn: Picture, *, bands: bool) -> list[float]:
    """Choose the values that the axis must include, with bounds if `bands`; [0, 1] where there is none.

    Values before training are left out where they are so low that they would hide the others; `foot_note` names them,
    and lines enter from there (`above`).
    """
    later = [value for step, value in _values_of(drawn, bands) if step > 0]
    before = [value for step, value in _values_of(drawn, bands) if step <= 0]
    far = later and before and min(later) - max(before) > _FAR * (max(later) - min(later))
    return (later if far else later + before) or [0.0, 1.0]


def foot_note(drawn: Picture, low: float) -> str:
    """Describe what is below the axis, which starts at `low`; "" where nothing is."""
    below = [(p.value, curve.excluded) for curve in drawn.curves for p in curve.points if p.value < low]
    if not below:
        return ""
    # An excluded number is never shown without its word.
    results = sorted(value for value, excluded in below if not excluded)
    texts = dict.fromkeys(drawn.value_text(value) for value in (*results[:1], *results[-1:]))
    return f"below the axis, before training: {' to '.join(texts) or 'values that are no result'}"


def above(values: Iterable[tuple[int, float]], low: float) -> list[tuple[float, float]]:
    """Return (step, value) of a line where it is not below `low`, with the points where it crosses it."""
    shown: list[tuple[float, float]] = []
    before: tuple[int, float] | None = None
    for step, value in values:
        if before is not None and (before[1] < low) != (value < low):
            shown.append((before[0] + (step - before[0]) * (low - before[1]) / (value - before[1]), low))
        if value >= low:
            shown.append((step, value))
        before = (step, value)
    return shown


def _values_of(drawn: Picture, bands: bool) -> Iterator[tuple[int, float]]:
    for curve in drawn.curves:
        for point in curve.points:
            yield from ((point.step, value) for value in _drawn(point, bands and not curve.excluded))
        yield from (pair for seed in curve.seeds for pair in seed.items())


def _drawn(point: CurvePoint, bands: bool) -> list[float]:
    bounds = [point.low, point.high] if bands else []
    return [value for value in (point.value, *bounds) if value is not None]
