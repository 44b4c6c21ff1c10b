"""Choose the values that the axis must reach: those before training may lie so low that they would hide others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlx.report.picture import CurvePoint, Picture

# How many times the height of all later values the gap to those before training must be.
_FAR = 1.5


def reached_values(drawn: Picture, *, bands: bool) -> list[float]:
    """The values to scale by, with the bounds of the intervals that are drawn if `bands`; [0, 1] where there is none.

    What is left out is to be named (`foot_note`), and lines come from where it is (`above`).
    """
    later = [value for step, value in _values(drawn, bands) if step > 0]
    before = [value for step, value in _values(drawn, bands) if step <= 0]
    far = later and before and min(later) - max(before) > _FAR * (max(later) - min(later))
    return (later if far else later + before) or [0.0, 1.0]


def foot_note(drawn: Picture, low: float) -> str:
    """Word what lies below the axis, which starts at `low`; "" where nothing does."""
    below = [(p.value, curve.struck) for curve in drawn.curves for p in curve.points if p.value < low]
    if not below:
        return ""
    # A struck number stands nowhere without its word.
    results = sorted(value for value, struck in below if not struck)
    texts = dict.fromkeys(drawn.value_text(value) for value in (*results[:1], *results[-1:]))
    return f"below the axis, before training: {' to '.join(texts) or 'values that are no result'}"


def above(values: Iterable[tuple[int, float]], low: float) -> list[tuple[float, float]]:
    """(step, value) of a line as far as it is not below `low`, from and to the steps where it crosses it."""
    shown: list[tuple[float, float]] = []
    before: tuple[int, float] | None = None
    for step, value in values:
        if before is not None and (before[1] < low) != (value < low):
            shown.append((before[0] + (step - before[0]) * (low - before[1]) / (value - before[1]), low))
        if value >= low:
            shown.append((step, value))
        before = (step, value)
    return shown


def _values(drawn: Picture, bands: bool) -> Iterator[tuple[int, float]]:
    for curve in drawn.curves:
        for point in curve.points:
            yield from ((point.step, value) for value in _drawn(point, bands and not curve.struck))
        yield from (pair for seed in curve.seeds for pair in seed.items())


def _drawn(point: CurvePoint, bands: bool) -> list[float]:
    bounds = [point.low, point.high] if bands else []
    return [value for value in (point.value, *bounds) if value is not None]
