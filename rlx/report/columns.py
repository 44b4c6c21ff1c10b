"""Word what the drawing says under a pointer: each validated step, and each stretch of steps of one planned sigma."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rlx.report.arm_noise import NoiseTrack
from rlx.report.legend import style_of
from rlx.report.panel import Panel
from rlx.report.picture import Curve, CurvePoint, Picture
from rlx.report.shapes import Column, Row

_LEAST_PIXELS = 3.0


def columns(drawn: Picture, curves: Panel, noise: Panel | None) -> Iterator[Column]:
    """The columns of both panels."""
    rows = _curve_rows(drawn)
    yield from _strips([(step, step) for step in sorted(rows)], [rows[step] for step in sorted(rows)], curves)
    if noise is not None:
        yield from columns_of_noise(drawn, noise)


def columns_of_noise(drawn: Picture, panel: Panel) -> Iterator[Column]:
    """Make those of the lower panel, a column for each stretch of one planned sigma."""
    stages = _stages([track for track in drawn.noise if track])
    yield from _strips(stages, [list(_noise_rows(drawn, *stage)) for stage in stages], panel)


def _strips(spans: Sequence[tuple[int, int]], rows: Sequence[Sequence[Row]], panel: Panel) -> Iterator[Column]:
    """One strip a span, up to the middle between neighbours; spans nearer than some pixels share the first's."""
    kept: list[tuple[float, tuple[int, int], Sequence[Row]]] = []
    for span, lines in zip(spans, rows, strict=True):
        at = panel.x(sum(span) / 2)
        if lines and (not kept or at - kept[-1][0] >= _LEAST_PIXELS):
            kept.append((at, span, lines))
    if not kept:
        return
    middles = [(one[0] + other[0]) / 2 for one, other in pairwise(kept)]
    borders = [panel.x.start, *middles, panel.x.end]
    for (at, (first, last), lines), (left, right) in zip(kept, pairwise(borders), strict=True):
        title = f"step {first}" if first == last else f"steps {first}–{last}"
        yield Column(at, left, right, panel.top, panel.bottom, title, tuple(lines))


def _curve_rows(drawn: Picture) -> dict[int, list[Row]]:
    """Write what each validated step has to say."""
    rows: dict[int, list[Row]] = defaultdict(list)
    for index, curve in enumerate(drawn.curves):
        for point in curve.points:
            rows[point.step].append(_row(index, curve, point_text(drawn, point)))
    return rows


def _row(index: int, curve: Curve, said: str) -> Row:
    style = style_of(index, curve)
    return Row(curve.name, said, style.ink, style.sign, style.filled, curve.struck)


def point_text(drawn: Picture, point: CurvePoint) -> str:
    """A value with its interval: `68.16 % (65.6 to 70.6)`."""
    value = drawn.value_text(point.value)
    if point.low is None or point.high is None:
        return value
    return f"{value} ({drawn.bound_text(point.low)} to {drawn.bound_text(point.high)})"


def _stages(tracks: Sequence[NoiseTrack]) -> list[tuple[int, int]]:
    """Stretches of steps at which no plan changes its sigma, as (first, last); one where there is noise and no plan."""
    plans = [track.planned for track in tracks]
    total = max([*map(len, plans), *(step for track in tracks for step, _ in track.applied)], default=0)
    sigmas = [tuple(plan[step - 1] if step <= len(plan) else None for plan in plans) for step in range(1, total + 1)]
    starts = [step for step in range(1, total + 1) if step == 1 or sigmas[step - 1] != sigmas[step - 2]]
    return [(first, after - 1) for first, after in pairwise([*starts, total + 1])]


def _noise_rows(drawn: Picture, first: int, last: int) -> Iterator[Row]:
    for index, (curve, track) in enumerate(zip(drawn.curves, drawn.noise, strict=True)):
        if track:
            yield _row(index, curve, f"{_planned(track, first)}, {_applied(track, first, last)}")


def _planned(track: NoiseTrack, step: int) -> str:
    """A log that was taken in without a recipe has no plan."""
    if not track.planned:
        return "no plan known"
    return f"planned {track.planned[step - 1] if step <= len(track.planned) else 0.0:.3g}"


def _applied(track: NoiseTrack, first: int, last: int) -> str:
    seen = {step: sigma for step, sigma in track.applied if first <= step <= last}
    if not seen:
        return "no record"
    low, high = min(seen.values()), max(seen.values())
    sigmas = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
    return f"applied {sigmas} at {len(seen)} of {last - first + 1} steps"
