"""What a comparison looks like, as values: curves with intervals, noise planned and applied. Knows no pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlx.compare import ComparedRun, Comparison
from rlx.compare.items import are_counts, why_not_binary
from rlx.compare.proportions import wilson_interval
from rlx.evidence import JudgedRun, VerdictStatus
from rlx.evidence.metrics import data_sources
from rlx.report.noise import NoiseTrack, noise_track


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

    `struck`: its numbers are no result, so it is drawn as such and carries the word.
    """

    label: str
    word: str
    struck: bool
    points: tuple[CurvePoint, ...]

    @property
    def name(self) -> str:
        """The label with the word, which must be seen before the number."""
        return f"{self.label} ({self.word})" if self.word else self.label


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

    def value_text(self, value: float) -> str:
        return f"{100 * value:.2f} %" if self.is_share else f"{value:.5g}"

    def bound_text(self, value: float) -> str:
        """A bound of an interval: a digit less than its value."""
        return f"{100 * value:.1f}" if self.is_share else f"{value:.4g}"


def picture(comparison: Comparison, judged: Sequence[JudgedRun]) -> Picture:
    """The picture of a comparison. `judged` are its runs with their evidence, in any order."""
    evidence = {run.run_id: run for run in judged}
    arms = [(run,) for run in comparison.runs]
    curves = [_curve(arm, comparison, evidence) for arm in arms]
    return Picture(
        metric=comparison.metric,
        is_share=comparison.is_share,
        interim=comparison.interim,
        curves=tuple(curves),
        noise=tuple(noise_track([evidence[run.run_id] for run in arm]) for arm in arms),
        intervals=_intervals(curves, arms),
    )


def word_of(run: ComparedRun) -> str:
    """What must be read before a number of this run; "" where nothing qualifies it."""
    if not run.finished and not run.struck:
        return run.state.value
    return "" if run.verdict.status is VerdictStatus.VALID else run.verdict.status.value


def _curve(arm: Sequence[ComparedRun], comparison: Comparison, evidence: Mapping[str, JudgedRun]) -> Curve:
    run = arm[0]
    n = _items(run, comparison.metric, evidence[run.run_id])
    points = (CurvePoint(step, value, *_wilson(value, n)) for step, value in run.series.items())
    return Curve(run.label, word_of(run), run.struck, tuple(points))


def _items(run: ComparedRun, metric: str, judged: JudgedRun) -> int | None:
    """n where every value is a share of right answers out of n, else None."""
    n = run.items.n
    why_not = why_not_binary(metric, len(data_sources(judged.evidence)))
    return n if n is not None and not why_not and are_counts(run.series.values(), n) else None


def _wilson(value: float, n: int | None) -> tuple[float | None, float | None]:
    return (None, None) if n is None else wilson_interval(round(value * n), n)


def _intervals(curves: Sequence[Curve], arms: Sequence[Sequence[ComparedRun]]) -> str:
    banded = [arm for arm, curve in zip(arms, curves, strict=True) if any(p.low is not None for p in curve.points)]
    sizes = sorted({run.items.n for arm in banded for run in arm if run.items.n is not None})
    return f"bands: 95 % intervals over {' and '.join(map(str, sizes))} items (Wilson)" if sizes else ""
