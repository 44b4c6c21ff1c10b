"""The lower panel: sigma by step on a logarithmic scale, what was planned as a line, what was applied as points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10

from rlx.report.arm_noise import NoiseTrack
from rlx.report.axes import Scale, decade_text, decades
from rlx.report.legend import Style
from rlx.report.panel import Panel, tick
from rlx.report.picture import Picture
from rlx.report.shapes import XY, Label, Line, Mark, Shape, fitted, text_width

HEIGHT = 130.0
_ZERO_LANE = 22.0


def noise_panel(drawn: Picture, x: Scale, top: float) -> Panel:
    """0 has no logarithm, so it has a lane of its own below the scale."""
    exponents = _exponents(drawn)
    return Panel(top, top + HEIGHT, x, Scale(exponents[0], exponents[-1], top + HEIGHT - _ZERO_LANE, top))


def noise_shapes(drawn: Picture, styles: Sequence[Style], panel: Panel) -> Iterator[Shape]:
    """Title, grid, and the tracks, those of struck arms below the others."""
    yield from _title(drawn, panel)
    exponents = _exponents(drawn)
    for exponent in exponents[:: 1 + len(exponents) // 5]:
        yield from tick(panel, panel.y(exponent), decade_text(exponent))
    yield from tick(panel, panel.bottom, "0")
    tracks = [(track, style) for track, style in zip(drawn.noise, styles, strict=True) if track]
    for track, style in sorted(tracks, key=lambda each: each[1].ink != "struck"):
        yield Line(_staircase(track, panel), style.ink, 7, opacity=0.4)
        for recorded, radius, filled in ((track.applied, 2.0, True), (track.in_validation, 5.0, False)):
            yield from (Mark(at, style.sign, style.ink, filled, radius) for at in _places(recorded, panel))


def _exponents(drawn: Picture) -> list[int]:
    sigmas = [sigma for track in drawn.noise if track for sigma in track.sigmas if sigma > 0]
    return decades(sigmas or [0.01])


def _title(drawn: Picture, panel: Panel) -> Iterator[Shape]:
    tracks = [track for track in drawn.noise if track]
    unplaced = sum(track.unplaced for track in tracks)
    words = "pale line: planned" + (", points: applied" if any(track.applied for track in tracks) else "")
    words += ", rings: in validation" if any(track.in_validation for track in tracks) else ""
    words += f"; {unplaced} without step or sigma not drawn" if unplaced else ""
    title, y = "noise sigma", panel.top - 14
    at = 22 + text_width(title, 13)
    yield Label((10, y), title, bold=True)
    yield Label((at, y), fitted(words, panel.x.end - at, 11), "muted", size=11)


def _staircase(track: NoiseTrack, panel: Panel) -> tuple[XY, ...]:
    """Sigma holds for the whole step: from half a step before to half a step after it."""
    line: list[XY] = []
    for step, sigma in enumerate(track.planned, start=1):
        y = _y(panel, sigma)
        if len(line) > 1 and line[-1][1] == y == line[-2][1]:
            line.pop()
        line += [(panel.x(step - 0.5), y), (min(panel.x.end, panel.x(step + 0.5)), y)]
    return tuple(line)


def _places(recorded: Sequence[tuple[int, float]], panel: Panel) -> list[XY]:
    """One a pixel at most, so that ten thousand steps do not become as many marks; a gap is a gap in the record."""
    places = ((panel.x(step), _y(panel, sigma)) for step, sigma in recorded)
    return list({(round(x), round(y)): (x, y) for x, y in places}.values())


def _y(panel: Panel, sigma: float) -> float:
    return panel.y(log10(sigma)) if sigma > 0 else panel.bottom
