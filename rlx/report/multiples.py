"""Training curves as small multiples: a picture for each metric, with one curve an arm, and what is not drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlx.compare import Comparison
from rlx.compare.training_curves import Chosen, SeedBand, TrainingCurves, training_curves
from rlx.evidence import JudgedRun, VerdictStatus
from rlx.report.picture import Curve, CurvePoint, Picture

EXPLORATORY = "exploratory: for reading, by training step, without a test"
MEANS, BANDS = "lines: means over the seeds of an arm", "bands: from its lowest to its highest seed"


@dataclass(frozen=True, slots=True)
class DrawnArm:
    """The runs of an arm with the word that must be read before their numbers; `struck`: they are no result."""

    label: str
    word: str
    struck: bool
    runs: Sequence[JudgedRun]


@dataclass(frozen=True, slots=True)
class Multiples:
    """`pictures` have the same arms in the same order. `notes` say how to read them, and what is not drawn and why."""

    pictures: tuple[Picture, ...]
    notes: tuple[str, ...]


def multiples(arms: Sequence[DrawnArm], patterns: Sequence[str] = ()) -> Multiples:
    """The curves of all metrics that the patterns name; without patterns, of those that show how a training goes.

    Raises UsageError for patterns that fit no metric of any log.
    """
    chosen = training_curves([arm.runs for arm in arms], patterns)
    return Multiples(tuple(_picture(each, arms) for each in chosen.curves), tuple(_notes(chosen, arms)))


def drawn_arms(comparison: Comparison | None, judged: Sequence[JudgedRun]) -> list[DrawnArm]:
    """The arms of a comparison; of runs that cannot be compared, those of their recipe."""
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
    drawn = [Curve(arm.label, arm.word, arm.struck, _points(own)) for arm, own in zip(arms, curves.arms, strict=True)]
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
        yield f"not drawn, for no arm has two steps of them: {'; '.join(chosen.missing)}"
    if chosen.zero:
        yield f"not drawn, for they are 0 at every step: {'; '.join(chosen.zero)}"
    if chosen.more:
        yield f"{len(chosen.more)} more metrics have such names and are not drawn"


def _notes_of(arm: DrawnArm, curves: Sequence[tuple[str, SeedBand | None]]) -> Iterator[str]:
    without = [title for title, own in curves if own is None]
    if without:
        yield f"{arm.label} has no two steps of {'; '.join(without)}"
    if lost := max((own.lost for _, own in curves if own is not None), default=0):
        yield f"{arm.label} has no value at up to {lost} steps, at which one of its seeds has none"
