"""Lay a picture out as a drawing: validation above, noise beneath, on one axis of steps.

`schedule_scene` draws the noise of recipes alone, before a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10

from rlx.report.picture import Curve, CurvePoint, NoiseTrack, Picture, above, foot_note, reached_values
from rlx.report.shapes import (
    DASHES,
    SERIES,
    XY,
    Drawing,
    DrawnText,
    FilledArea,
    HoverLine,
    HoverStrip,
    Mark,
    Panel,
    Scale,
    Shape,
    Stroke,
    decade_text,
    decades,
    fitted,
    round_ticks,
    step_axis,
    text_width,
    tick,
    tick_text,
)

WIDE, NARROW = 760.0, 350.0
_LEFT, _RIGHT = 54.0, 14.0
_GAP, _FOOT = 66.0, 44.0
_SAMPLE, _SPACE, _ROW = 30.0, 22.0, 20.0
# Radius of the marks, and how many a curve has at most.
_LARGE, _SMALL = (4.0, 150), (3.0, 6)
HEIGHT = 130.0
_ZERO_LANE = 22.0
_LEAST_PIXELS = 3.0
_NOISE_LEFT, _NOISE_RIGHT, _TITLE, _NOISE_FOOT = 54.0, 14.0, 44.0, 44.0


def scene(drawn: Picture, width: float = WIDE) -> Drawing:
    """Lay the picture out at `width` pixels; its height depends on its content."""
    shapes, top = _head(drawn, width)
    styles = [style_of(index, curve) for index, curve in enumerate(drawn.curves)]
    x = Scale(0, max(1, drawn.last_step), _LEFT, width - _RIGHT)
    curves = _curve_panel(drawn, x, top, height=min(300.0, 0.62 * width))
    shapes += [*value_grid(drawn, curves), *curve_shapes(drawn, styles, curves)]
    noise = noise_panel(drawn, x, curves.bottom + _GAP) if drawn.has_noise else None
    shapes += noise_shapes(drawn, styles, noise) if noise else []
    foot = (noise or curves).bottom
    shapes += step_axis(x, foot, about=8 if width > NARROW else 4)
    return Drawing(
        width=width,
        height=foot + _FOOT,
        shapes=tuple(shapes),
        columns=tuple(columns(drawn, curves, noise)),
        title=f"{drawn.metric} by training step{_interim(drawn)}",
        description=_description(drawn),
    )


def _interim(drawn: Picture) -> str:
    return " · interim" if drawn.interim else ""


def _head(drawn: Picture, width: float) -> tuple[list[Shape], float]:
    """Draw title, notes and legend; return where they end."""
    title = fitted(drawn.metric, width - 30 - 80 * drawn.interim, 14)
    shapes: list[Shape] = [DrawnText((10, 20), f"{title}{_interim(drawn)}", size=14, bold=True)]
    runs = "thin lines: the runs" if any(curve.seeds for curve in drawn.curves) else ""
    notes = [note for note in (drawn.intervals, runs, foot_note(drawn, value_ticks(drawn)[0])) if note]
    shapes += [
        DrawnText((10, 38.0 + 16 * row), fitted(note, width - 20, 11), "muted", size=11)
        for row, note in enumerate(notes)
    ]
    marks, end = legend(drawn.curves, 10, 44.0 + 16 * len(notes), width - 10)
    return [*shapes, *marks], end + 20


def _curve_panel(drawn: Picture, x: Scale, top: float, height: float) -> Panel:
    ticks = value_ticks(drawn)
    return Panel(top, top + height, x, Scale(ticks[0], ticks[-1], top + height, top))


def _description(drawn: Picture) -> str:
    ends = [
        f"{curve.name} ends at {drawn.value_text(curve.points[-1].value)} at step {curve.points[-1].step}"
        for curve in drawn.curves
        if curve.points
    ]
    noise = "; the planned and applied noise of each step is drawn beneath" if drawn.has_noise else ""
    return f"Line chart: {'; '.join(ends) or 'no values'}{noise}."


@dataclass(frozen=True, slots=True)
class Style:
    """Ink, sign and dashes of an arm. Filled marks are for valid runs only."""

    ink: str
    sign: int
    dash: str
    filled: bool

    @property
    def mark(self) -> tuple[int, str, bool]:
        return self.sign, self.ink, self.filled


def style_of(index: int, curve: Curve) -> Style:
    """Choose the style. Excluded: grey, dashed, hollow. The sign stays, so that excluded arms can be distinguished."""
    sign = (index + index // SERIES) % SERIES
    if curve.excluded:
        return Style("excluded", sign, DASHES, filled=False)
    return Style(f"s{index % SERIES}", sign, "", filled=not curve.word)


def legend(curves: Sequence[Curve], left: float, y: float, right: float) -> tuple[list[Shape], float]:
    """Draw a sample, the name and the word of each arm, in as many rows as needed; return the y of the last row."""
    shapes: list[Shape] = []
    x = left
    for index, curve in enumerate(curves):
        style = style_of(index, curve)
        # The word says more than the end of a long name.
        word = f" ({curve.word})" if curve.word else ""
        name = fitted(curve.label, right - left - _SAMPLE - text_width(word, 12) - 6, 12) + word
        width = _SAMPLE + text_width(name, 12)
        if x > left and x + width > right:
            x, y = left, y + _ROW
        shapes += [
            Stroke(((x, y - 4), (x + 24, y - 4)), style.ink, 2, style.dash),
            Mark((x + 12, y - 4), *style.mark),
            DrawnText((x + _SAMPLE, y), name, "muted" if curve.excluded else "text"),
        ]
        x += width + _SPACE
    return shapes, y


def value_ticks(drawn: Picture, about: int = 5) -> list[float]:
    """Choose the ticks of the values; the first and the last are the ends of their axis."""
    values = reached_values(drawn, bands=True)
    return round_ticks(min(values), max(values), about)


def value_grid(drawn: Picture, panel: Panel, about: int = 5) -> Iterator[Shape]:
    """Draw a grid line with its value at each tick."""
    factor, unit = (100, " %") if drawn.is_share else (1, "")
    ticks = value_ticks(drawn, about)
    for value in ticks:
        yield from tick(panel, panel.y(value), tick_text(factor * value, factor * (ticks[1] - ticks[0])) + unit)


def curve_shapes(drawn: Picture, styles: Sequence[Style], panel: Panel, small: bool = False) -> Iterator[Shape]:
    """Draw bands below all lines, lines below all marks, and excluded arms below the others."""
    order = sorted(zip(drawn.curves, styles, strict=True), key=lambda each: not each[0].excluded)
    for curve, style in order:
        yield from _band(curve, style, panel)
    for curve, style in order:
        for seed in curve.seeds:
            yield Stroke(_path(panel, seed.items()), style.ink, 1, style.dash, opacity=0.5)
        yield Stroke(_path(panel, ((p.step, p.value) for p in curve.points)), style.ink, 2, style.dash)
    for curve, style in order:
        yield from _marks(curve, style, panel, *(_SMALL if small else _LARGE))


def _path(panel: Panel, values: Iterable[tuple[int, float]]) -> tuple[XY, ...]:
    """Let a line enter the panel where it crosses its lower edge."""
    return tuple((panel.x(step), panel.y(value)) for step, value in above(values, panel.y.low))


def _marks(curve: Curve, style: Style, panel: Panel, radius: float, most: int) -> Iterator[Shape]:
    """Mark each point, or as many as can be distinguished, always including the last one."""
    every = max(1, -(-len(curve.points) // most))
    for point in curve.points[::-every][::-1]:
        if point.value >= panel.y.low:
            yield Mark((panel.x(point.step), panel.y(point.value)), *style.mark, radius)


def _band(curve: Curve, style: Style, panel: Panel) -> Iterator[Shape]:
    """Draw the band; none for an excluded arm, whose values are not a result."""
    bounds = [(p.step, p.low, p.high) for p in curve.points if p.low is not None and p.high is not None]
    if len(bounds) > 1 and not curve.excluded:
        upper = _path(panel, ((step, high) for step, _, high in bounds))
        lower = _path(panel, ((step, low) for step, low, _ in bounds))
        yield FilledArea((*upper, *reversed(lower)), style.ink, 0.14)


def noise_panel(drawn: Picture, x: Scale, top: float) -> Panel:
    """Lay out the lower panel: a logarithmic scale, and 0 in a lane of its own below it."""
    exponents = _exponents(drawn)
    return Panel(top, top + HEIGHT, x, Scale(exponents[0], exponents[-1], top + HEIGHT - _ZERO_LANE, top))


def noise_shapes(drawn: Picture, styles: Sequence[Style], panel: Panel) -> Iterator[Shape]:
    """Draw title, grid, and the tracks, those of excluded arms below the others."""
    yield from _noise_title(drawn, panel)
    exponents = _exponents(drawn)
    for exponent in exponents[:: 1 + len(exponents) // 5]:
        yield from tick(panel, panel.y(exponent), decade_text(exponent))
    yield from tick(panel, panel.bottom, "0")
    tracks = [(track, style) for track, style in zip(drawn.noise, styles, strict=True) if track]
    for track, style in sorted(tracks, key=lambda each: each[1].ink != "excluded"):
        yield Stroke(_staircase(track, panel), style.ink, 7, opacity=0.4)
        for recorded, radius, filled in ((track.applied, 2.0, True), (track.in_validation, 5.0, False)):
            yield from (Mark(at, style.sign, style.ink, filled, radius) for at in _places(recorded, panel))


def _exponents(drawn: Picture) -> list[int]:
    sigmas = [sigma for track in drawn.noise if track for sigma in track.sigmas if sigma > 0]
    return decades(sigmas or [0.01])


def _noise_title(drawn: Picture, panel: Panel) -> Iterator[Shape]:
    tracks = [track for track in drawn.noise if track]
    unplaced = sum(track.unplaced for track in tracks)
    words = "pale line: planned" + (", points: applied" if any(track.applied for track in tracks) else "")
    words += ", rings: in validation" if any(track.in_validation for track in tracks) else ""
    words += f"; {unplaced} without step or sigma not drawn" if unplaced else ""
    title, y = "noise sigma", panel.top - 14
    at = 22 + text_width(title, 13)
    yield DrawnText((10, y), title, bold=True)
    yield DrawnText((at, y), fitted(words, panel.x.end - at, 11), "muted", size=11)


def _staircase(track: NoiseTrack, panel: Panel) -> tuple[XY, ...]:
    """Draw sigma for the whole step: from half a step before to half a step after it."""
    line: list[XY] = []
    for step, sigma in enumerate(track.planned, start=1):
        y = _y(panel, sigma)
        if len(line) > 1 and line[-1][1] == y == line[-2][1]:
            line.pop()
        line += [(panel.x(step - 0.5), y), (min(panel.x.end, panel.x(step + 0.5)), y)]
    return tuple(line)


def _places(recorded: Sequence[tuple[int, float]], panel: Panel) -> list[XY]:
    """Return one mark per pixel at most; a gap is a gap in the record."""
    places = ((panel.x(step), _y(panel, sigma)) for step, sigma in recorded)
    return list({(round(x), round(y)): (x, y) for x, y in places}.values())


def _y(panel: Panel, sigma: float) -> float:
    return panel.y(log10(sigma)) if sigma > 0 else panel.bottom


def columns(drawn: Picture, curves: Panel, noise: Panel | None) -> Iterator[HoverStrip]:
    """Yield the hover strips of both panels."""
    rows = _curve_rows(drawn)
    yield from _strips([(step, step) for step in sorted(rows)], [rows[step] for step in sorted(rows)], curves)
    if noise is not None:
        yield from columns_of_noise(drawn, noise)


def columns_of_noise(drawn: Picture, panel: Panel) -> Iterator[HoverStrip]:
    """Yield the strips of the lower panel, one for each range of steps with one planned sigma."""
    stages = _stages([track for track in drawn.noise if track])
    yield from _strips(stages, [list(_noise_rows(drawn, *stage)) for stage in stages], panel)


def _strips(
    spans: Sequence[tuple[int, int]], rows: Sequence[Sequence[HoverLine]], panel: Panel
) -> Iterator[HoverStrip]:
    """Make one strip per range, up to the middle between neighbours; ranges that are too close share the first's."""
    kept: list[tuple[float, tuple[int, int], Sequence[HoverLine]]] = []
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
        yield HoverStrip(at, left, right, panel.top, panel.bottom, title, tuple(lines))


def _curve_rows(drawn: Picture) -> dict[int, list[HoverLine]]:
    """Write the lines of each validated step."""
    rows: dict[int, list[HoverLine]] = defaultdict(list)
    for index, curve in enumerate(drawn.curves):
        for point in curve.points:
            rows[point.step].append(_hint_row(index, curve, point_text(drawn, point)))
    return rows


def _hint_row(index: int, curve: Curve, said: str) -> HoverLine:
    style = style_of(index, curve)
    return HoverLine(curve.name, said, style.ink, style.sign, style.filled, curve.excluded)


def point_text(drawn: Picture, point: CurvePoint) -> str:
    """Write a value with its interval: `68.16 % (65.6 to 70.6)`."""
    value = drawn.value_text(point.value)
    if point.low is None or point.high is None:
        return value
    return f"{value} ({drawn.bound_text(point.low)} to {drawn.bound_text(point.high)})"


def _stages(tracks: Sequence[NoiseTrack]) -> list[tuple[int, int]]:
    """List the ranges of steps with unchanged planned sigmas, as (first, last); one where there is no plan."""
    plans = [track.planned for track in tracks]
    total = max([*map(len, plans), *(step for track in tracks for step, _ in track.applied)], default=0)
    sigmas = [tuple(plan[step - 1] if step <= len(plan) else None for plan in plans) for step in range(1, total + 1)]
    starts = [step for step in range(1, total + 1) if step == 1 or sigmas[step - 1] != sigmas[step - 2]]
    return [(first, after - 1) for first, after in pairwise([*starts, total + 1])]


def _noise_rows(drawn: Picture, first: int, last: int) -> Iterator[HoverLine]:
    for index, (curve, track) in enumerate(zip(drawn.curves, drawn.noise, strict=True)):
        if track:
            yield _hint_row(index, curve, f"{_planned_words(track, first)}, {_applied_words(track, first, last)}")


def _planned_words(track: NoiseTrack, step: int) -> str:
    """Write the planned sigma; a log that was imported without a recipe has no plan."""
    if not track.planned:
        return "no known plan"
    return f"planned {track.planned[step - 1] if step <= len(track.planned) else 0.0:.3g}"


def _applied_words(track: NoiseTrack, first: int, last: int) -> str:
    seen = {step: sigma for step, sigma in track.applied if first <= step <= last}
    if not seen:
        return "no record"
    low, high = min(seen.values()), max(seen.values())
    sigmas = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
    return f"applied {sigmas} at {len(seen)} of {last - first + 1} steps"


def schedule_scene(sigmas: Mapping[str, Sequence[float]], width: float = WIDE) -> Drawing:
    """Draw the planned sigma of each arm by step, from step 1."""
    drawn = Picture(
        metric="planned noise",
        is_share=False,
        interim=False,
        curves=tuple(Curve(name, "", excluded=False, points=()) for name in sigmas),
        noise=tuple(NoiseTrack(tuple(own), (), (), 0) for own in sigmas.values()),
        intervals="",
    )
    marks, end = legend(drawn.curves, 10, _TITLE, width - 10)
    panel = noise_panel(drawn, Scale(0, drawn.last_step, _NOISE_LEFT, width - _NOISE_RIGHT), end + 40)
    styles = [style_of(index, curve) for index, curve in enumerate(drawn.curves)]
    shapes = [DrawnText((10, 20), drawn.metric, size=14, bold=True), *marks, *noise_shapes(drawn, styles, panel)]
    return Drawing(
        width=width,
        height=panel.bottom + _NOISE_FOOT,
        shapes=(*shapes, *step_axis(panel.x, panel.bottom, about=8)),
        columns=tuple(columns_of_noise(drawn, panel)),
        title="planned noise sigma by training step",
        description=f"Line chart: planned noise of {', '.join(sigmas)}.",
    )
