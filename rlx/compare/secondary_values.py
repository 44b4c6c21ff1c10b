"""The values that an experiment registered as secondary: they are shown, and decide nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rlx.compare.primary_value import primary_values
from rlx.compare.registered_result import RegisteredResult
from rlx.evidence import JudgedRun
from rlx.evidence.metrics import is_named, metric_names
from rlx.model import Registration
from rlx.model.registration import AREA

_MOST = 24


@dataclass(frozen=True, slots=True)
class SecondaryValues:
    """What one metric gave: for each arm, the control first, the values of its runs that have one, and of how many."""

    name: str
    arms: tuple[tuple[float, ...], ...]
    runs: tuple[int, ...]


def secondary_values(found: RegisteredResult, judged: Sequence[JudgedRun]) -> list[SecondaryValues]:
    """Each secondary metric as the primary one is taken (at the last step, of the last validations, or as an area).

    Only runs that stand for a registered one and are a result have a value; the others count among the runs.
    """
    counted = {run.run_id for run in found.runs if run.run_id and not run.lacks}
    runs = [run for run in judged if run.run_id in counted]
    return [_of(name, asked, found, runs) for name, asked in _asked(found.registration, runs)][:_MOST]


def _asked(asked: Registration, runs: Sequence[JudgedRun]) -> Iterator[tuple[str, Registration]]:
    """(name, what is asked) of every metric that the registered names and patterns mean."""
    logged = set().union(*(metric_names(run.evidence) for run in runs))
    for name in asked.secondary:
        if name == AREA:
            yield f"area under {asked.metric}", replace(asked, at=AREA)
            continue
        meant = [name] if name in logged else sorted(each for each in logged if is_named(each, [name]))
        yield from ((metric, replace(asked, metric=metric)) for metric in meant)


def _of(name: str, asked: Registration, found: RegisteredResult, runs: Sequence[JudgedRun]) -> SecondaryValues:
    values = list(zip(runs, primary_values(runs, asked), strict=True))
    arms = (asked.control, *asked.treatments)
    return SecondaryValues(
        name,
        tuple(tuple(own.value for run, own in values if run.arm == arm and own.value is not None) for arm in arms),
        tuple(sum(run.arm == arm for run in found.runs) for arm in arms),
    )
