"""The factors of a treatment: what its arm changes by design, and how each arm shows it.

All keys of the noise are one factor, and so are those of the KL penalty; every other key is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rlx.compare.arms import ComparedArm, ComparedRun
from rlx.compare.difference_areas import CONFIG, FOLLOWS_FROM, ConfigDifference, DifferenceArea
from rlx.evidence.checks.recipe_settings import NOISE
from rlx.evidence.traces import KeyTrace, TraceStatus

_SECTIONS = (NOISE, "algorithm.kl")


def factor_of(key: str) -> str:
    """Return the factor that a declared difference is of: a section, the key itself, or the key of a recorded fact."""
    own = FOLLOWS_FROM.get(key, key)
    return next((name for name in _SECTIONS if f"{own}.".startswith(f"{name}.")), own)


def factors_of(differences: Iterable[ConfigDifference]) -> tuple[str, ...]:
    """Return the factors in which two arms differ by declaration.

    Another path to the same bytes does not count, nor what the engine composed of a variable or an argument.
    """
    own = (item for item in differences if not item.key.startswith(f"{CONFIG} "))
    declared = (item for item in own if item.declared and item.area is not DifferenceArea.INCIDENTAL)
    return tuple(dict.fromkeys(factor_of(item.key) for item in declared))


def credited(treatment: str, factors: Sequence[str]) -> str:
    """Name what a difference is credited to: `aqn`, or `aqn (aqn and train.lr together)`."""
    return f"{treatment} ({listed(factors)} together)" if len(factors) > 1 else treatment


def listed(names: Sequence[str]) -> str:
    """`train.lr`, `aqn and train.lr`, `aqn, rollout.n and train.lr`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def shown_factors(control: ComparedArm, treatment: ComparedArm, factors: Sequence[str]) -> tuple[str, ...]:
    """Say of each factor how each arm shows it: `train.lr shown by actor/lr`, in one sentence where both do alike."""
    # If noise is the only factor, the verdicts say how it shows.
    return tuple(_shown(control, treatment, factor) for factor in factors if tuple(factors) != (NOISE,))


def _shown(control: ComparedArm, treatment: ComparedArm, factor: str) -> str:
    if factor == NOISE:
        cells = [dict.fromkeys(run.verdict.noise or "?" for run in arm.runs) for arm in (control, treatment)]
        return f"{factor}: {' and '.join(cells[0])} in {control.label}, {' and '.join(cells[1])} in {treatment.label}"
    traces = {trace.by for run in treatment.runs for trace in _of(run, factor)} - {""}
    words = [" and ".join(dict.fromkeys(_words(arm, factor, traces))) for arm in (control, treatment)]
    if words[0] == words[1]:
        return f"{factor} {words[0]}"
    return f"{factor} {words[0]} in {control.label}, {words[1]} in {treatment.label}"


def _words(arm: ComparedArm, factor: str, traces: set[str]) -> Iterator[str]:
    for run in arm.runs:
        # A run that does not change the factor files its traces under the first key of their rows.
        found = [*_of(run, factor)] or [trace for trace in run.verdict.traces if trace.by in traces]
        if found:
            yield from map(_trace_words, found)
        else:
            yield str(TraceStatus.COMPOSED) if run.verdict.traces else str(TraceStatus.NOT_OBSERVABLE)


def _of(run: ComparedRun, factor: str) -> Iterator[KeyTrace]:
    return (trace for trace in run.verdict.traces if f"{trace.key}.".startswith(f"{factor}."))


def _trace_words(trace: KeyTrace) -> str:
    if trace.shown is TraceStatus.SHOWN:
        return f"shown by {trace.by}"
    if trace.shown is TraceStatus.SILENT:
        return f"not shown by {trace.by}"
    if trace.shown is TraceStatus.CONTRADICTED:
        return f"contradicted by {trace.by}"
    return str(trace.shown)
