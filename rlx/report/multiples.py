"""Draw training curves as small multiples: a picture per metric with a curve per arm, separately or together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlx.compare import Comparison
from rlx.compare.training_curves import Chosen, SeedBand, TrainingCurves, training_curves
from rlx.evidence import JudgedRun, VerdictStatus
from rlx.report.drawing import WIDE, curve_shapes, legend, style_of, value_grid, value_ticks
from rlx.report.picture import Curve, CurvePoint, Picture
from rlx.report.shapes import Drawing, DrawnText, Panel, Scale, Shape, fitted, step_axis

EXPLORATORY = "exploratory: informational, by training step, without a test"
MEANS, BANDS = "lines: means over the seeds of an arm", "bands: from its lowest to its highest seed"
SMALL = 280.0
_LEFT, _RIGHT, _HEAD, _FOOT = 58.0, 12.0, 30.0, 26.0
_GAP, _TICKS = 14.0, 3


@dataclass(frozen=True, slots=True)
class DrawnArm:
    """The runs of an arm with the word that is shown before their numbers; `excluded`: they are not a result."""

    label: str
    word: str
    excluded: bool
    runs: Sequence[JudgedRun]


@dataclass(frozen=True, slots=True)
class Multiples:
    """`pictures` have the same arms in the same order. `notes`: how to read them, and what is not drawn and why."""

    pictures: tuple[Picture, ...]
    notes: tuple[str, ...]


def multiples(arms: Sequence[DrawnArm], patterns: Sequence[str] = ()) -> Multiples:
    """Draw all metrics that the patterns match; without patterns, those that show how a training is going.

    Raises UsageError for patterns that match no metric of any log.
    """
    chosen = training_curves([arm.runs for arm in arms], patterns)
    return Multiples(tuple(_picture(each, arms) for each in chosen.curves), tuple(_notes(chosen, arms)))


def drawn_arms(comparison: Comparison | None, judged: Sequence[JudgedRun]) -> list[DrawnArm]:
    """Return the arms of a comparison; of runs that cannot be compared, those of their recipe."""
    if comparison is None:
        return [_uncompared(arm, judged) for arm in dict.fromkeys(run.arm for run in judged)]
    known: Mapping[str, JudgedRun] = {run.run_id: run for run in judged}
    return [
        DrawnArm(arm.label, arm.word, arm.is_excluded, [known[run.run_id] for run in arm.runs])
        for arm in comparison.arms
    ]


def _uncompared(arm: str, judged: Sequence[JudgedRun]) -> DrawnArm:
    runs = [run for run in judged if run.arm == arm]
    excluded = [word for run in runs if (word := run.verdict.exclusion(ended=run.state.is_terminal))]
    others = [run.verdict.word for run in runs if run.verdict.status is not VerdictStatus.VALID]
    return DrawnArm(arm, next(iter([*excluded, *others]), ""), bool(excluded), runs)


def _picture(curves: TrainingCurves, arms: Sequence[DrawnArm]) -> Picture:
    drawn = [Curve(arm.label, arm.word, arm.excluded, _points(own)) for arm, own in zip(arms, curves.arms, strict=True)]
    bands = BANDS if any(own is not None and own.runs > 1 for own in curves.arms) else ""
    return Picture(curves.title, False, False, tuple(drawn), (None,) * len(drawn), bands)


def _points(own: SeedBand | None) -> tuple[CurvePoint, ...]:
    if own is None:
        return ()
    several = own.runs > 1
    return tuple(
        CurvePoint(step, mean, low if several else None, high if several else None)
        for step, mean, low, high in zip(own.steps, own.mean, own.low, own.high, strict=True)
    )


def _notes(chosen: Chosen, arms: Sequence[DrawnArm]) -> Iterator[str]:
    bands = [own for curves in chosen.curves for own in curves.arms if own is not None]
    if any(own.runs > 1 for own in bands):
        yield from (MEANS, BANDS)
    if (width := max((own.width for own in bands), default=1)) > 1:
        yield f"each point is the mean of up to {width} steps"
    for index, arm in enumerate(arms):
        yield from _notes_of(arm, [(curves.title, curves.arms[index]) for curves in chosen.curves])
    if chosen.missing:
        yield f"not drawn, because no arm has two steps of them: {'; '.join(chosen.missing)}"
    if chosen.zero:
        yield f"not drawn, because they are 0 at every step: {'; '.join(chosen.zero)}"
    if chosen.more:
        yield f"{len(chosen.more)} more metrics match and are not drawn"


def _notes_of(arm: DrawnArm, curves: Sequence[tuple[str, SeedBand | None]]) -> Iterator[str]:
    without = [title for title, own in curves if own is None]
    if without:
        yield f"{arm.label} has no two steps of {'; '.join(without)}"
    if lost := max((own.lost for _, own in curves if own is not None), default=0):
        yield f"{arm.label} has no value at up to {lost} steps, at which one of its seeds has none"


def panel_scene(drawn: Picture) -> Drawing:
    """Draw one metric without a legend, which is the same for all."""
    shapes = tuple(_panel(drawn, 0, 0, SMALL))
    return Drawing(SMALL, _height(SMALL), shapes, (), f"{drawn.metric} by training step", _description(drawn))


def legend_scene(curves: Sequence[Curve], width: float) -> Drawing:
    """Draw the legend alone. Its text is not needed by screen readers, because each drawing describes its arms."""
    marks, end = legend(curves, 4, 18, width - 4)
    return Drawing(width, end + 10, tuple(marks), (), "legend", ", ".join(curve.name for curve in curves))


def multiples_scene(found: Multiples, width: float = WIDE) -> Drawing:
    """Draw all metrics in one drawing with its legend, one, two or three side by side."""
    shapes, top = _head(found, width)
    across = 1 if len(found.pictures) == 1 else 2 if len(found.pictures) <= 4 else 3
    each = (width - _GAP * (across - 1)) / across
    for index, drawn in enumerate(found.pictures):
        down, right = divmod(index, across)
        shapes += _panel(drawn, right * (each + _GAP), top + down * (_height(each) + _GAP), each)
    rows = -(-len(found.pictures) // across)
    description = " ".join(_description(drawn) for drawn in found.pictures)
    height = top + rows * (_height(each) + _GAP)
    return Drawing(width, height, tuple(shapes), (), "training curves by training step", description)


def _head(found: Multiples, width: float) -> tuple[list[Shape], float]:
    """Draw the legend and the notes; return where the panels begin."""
    marks, end = legend(found.pictures[0].curves if found.pictures else (), 10, 20, width - 10)
    words = [EXPLORATORY, *found.notes]
    notes = [
        DrawnText((10, end + 20 + 16 * row), fitted(note, width - 20, 11), "muted", size=11)
        for row, note in enumerate(words)
    ]
    return [*marks, *notes], end + 20 + 16 * len(words)


def _height(width: float) -> float:
    return _HEAD + _plot_height(width) + _FOOT


def _plot_height(width: float) -> float:
    return min(260.0, 0.45 * width)


def _panel(drawn: Picture, left: float, top: float, width: float) -> Iterator[Shape]:
    x = Scale(0, max(1, drawn.last_step), left + _LEFT, left + width - _RIGHT)
    head, foot = top + _HEAD, top + _HEAD + _plot_height(width)
    ticks = value_ticks(drawn, _TICKS)
    panel = Panel(head, foot, x, Scale(ticks[0], ticks[-1], foot, head))
    yield DrawnText((left + 10, top + 16), fitted(drawn.metric, width - 20, 12), size=12, bold=True)
    yield from value_grid(drawn, panel, _TICKS)
    yield from curve_shapes(drawn, [style_of(*each) for each in enumerate(drawn.curves)], panel, small=True)
    yield from step_axis(x, foot, about=4, name="")


def _description(drawn: Picture) -> str:
    ends = [
        f"{curve.name} {drawn.value_text(curve.points[-1].value)} at step {curve.points[-1].step}"
        for curve in drawn.curves
        if curve.points
    ]
    return f"{drawn.metric} ends at: {'; '.join(ends)}."
