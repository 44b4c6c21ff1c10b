"""Describe a comparison's picture as values: curves with intervals, noise planned and applied. Knows no pixel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rlx.compare import ComparedArm, Comparison
from rlx.compare.metric import are_counts, why_not_binary
from rlx.compare.proportions import wilson_interval
from rlx.evidence import JudgedRun
from rlx.evidence.metrics import data_sources
from rlx.report.arm_noise import NoiseTrack, noise_track
from rlx.table import marked


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One validation; `low` and `high` bound its 95 % interval, None where the values allow none."""

    step: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """The validations of one arm. `word` is its verdict, or its state while it goes on; "" for a valid arm.

    `struck`: its numbers are no result, so it is drawn as such and carries the word. `seeds` are the series of its
    runs where there are several; `points` are then their means.
    """

    label: str
    word: str
    struck: bool
    points: tuple[CurvePoint, ...]
    seeds: tuple[Mapping[int, float], ...] = ()

    @property
    def name(self) -> str:
        """The label with the word, which must be seen before the number."""
        return marked(self.label, self.word)


@dataclass(frozen=True, slots=True)
class Picture:
    """`noise[i]` belongs to `curves[i]`; None for an arm that has nothing to do with noise.

    `intervals` says what the bands are, in words; "" where there are none.
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
        """The end of the axis of steps: the last one with a value, or planned or applied noise."""
        steps = [point.step for curve in self.curves for point in curve.points]
        for track in self.noise:
            if track:
                steps += [len(track.planned), *(step for step, _ in track.applied + track.in_validation)]
        return max(steps, default=1)

    def value_text(self, value: float) -> str:
        return f"{100 * value:.2f} %" if self.is_share else f"{value:.5g}"

    def bound_text(self, value: float) -> str:
        """A bound of an interval: a digit less than its value."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:.4g}"


def picture(comparison: Comparison, judged: Sequence[JudgedRun]) -> Picture:
    """The picture of a comparison. `judged` are its runs with their evidence, in any order."""
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
    """Student's interval of the mean over the runs of an arm; that of a share ends where shares do."""
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
    """n of a single run whose values are shares of right answers out of n, else None."""
    run, n = arm.runs[0], arm.runs[0].items.n
    why_not = why_not_binary(metric, len(data_sources(evidence[run.run_id].evidence, metric)))
    return n if n and len(arm.runs) == 1 and not why_not and are_counts(run.series.values(), n) else None


def _intervals(arms: Sequence[ComparedArm], counts: Sequence[int | None]) -> str:
    """Say in words what the bands are."""
    sizes = sorted({n for n in counts if n})
    seeds = sorted({len(arm.runs) for arm in arms if arm.has_seeds})
    items = f"over {' and '.join(map(str, sizes))} items (Wilson)" if sizes else ""
    runs = f"over {' and '.join(map(str, seeds))} seeds (Student's t)" if seeds else ""
    return f"bands: 95 % intervals {'; '.join(filter(None, (items, runs)))}" if items or runs else ""
