"""Find runs that are one run, or that trained alike to the last digit: a copy, or a seed or treatment without effect.

Two trainings of their own differ in the last digits from the first update on, even with one seed in most engines; where
they do not, the times of their steps still are their own. A run whose times were rounded or left out was copied.
Runs that are equal for some steps, such as a first stage without noise, are not equal here: all common steps count.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, islice
from pathlib import Path

from rlx.evidence import Evidence, JudgedRun
from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import column, metric_of
from rlx.evidence.reading.metric_table import MetricColumn
from rlx.model.run_dir import VALIDATION_DIR

_OF_THE_WEIGHTS = (
    Role.GRAD_NORM,
    Role.POLICY_LOSS,
    Role.ENTROPY,
    Role.SCORE,
    Role.RESPONSE_LENGTH,
    Role.PROBABILITY_GAP,
    Role.POLICY_KL,
    Role.ROLLOUT_ENTROPY,
)
"""What follows from the weights of a step. Lengths of prompts do not: two runs of one data order share them."""
_FEWEST_SERIES, _FEWEST_STEPS, _DIGITS = 3, 10, 6
_MOST_DECIMALS = 3
# Rounded times tell runs apart only where they differ by more than their last decimal.
_SPREAD = 5
_IDS, _HEAD_BYTES, _FEWEST_CHARACTERS = 8, 64 << 10, 16
# Rounded seconds may agree by chance.
_DECIMALS = 2


class Times(StrEnum):
    """How the times of the steps of two runs differ."""

    OWN = "own"
    ROUNDED = "equal after rounding"
    UNKNOWN = "left out"


@dataclass(frozen=True, slots=True)
class EqualRuns:
    """Two runs, by their labels, that are equal: in `series` metrics at `steps` steps, both 0 for none, or by the
    unique ids of all outputs that both kept (`same_ids`)."""

    one: str
    two: str
    series: int
    steps: int
    times: Times
    same_ids: bool

    @property
    def words(self) -> str:
        """By what they are equal: `8 metrics are equal to the last digit at 20 steps, their times after rounding`."""
        parts = [f"{self.series} metrics are equal to the last digit at {self.steps} steps"] if self.series else []
        parts += [f"the times are {self.times}"] if self.series and self.times is not Times.OWN else []
        parts += ["the unique ids of their outputs are equal"] if self.same_ids else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class _Record:
    label: str
    series: Mapping[str, MetricColumn]
    times: Mapping[str, MetricColumn]
    outputs: Path | None


def equal_runs(runs: Sequence[JudgedRun], labels: Sequence[str]) -> tuple[EqualRuns, ...]:
    """Return the pairs of ended runs that are equal. A running run may be in a stage that is equal by design."""
    ended = [(run, label) for run, label in zip(runs, labels, strict=True) if run.state.is_terminal]
    records = [_record(run, label) for run, label in ended]
    by_ids = _same_ids(records)
    found = (_equal(one, two, (one.label, two.label) in by_ids) for one, two in combinations(records, 2))
    return tuple(pair for pair in found if pair)


def _record(run: JudgedRun, label: str) -> _Record:
    metrics = (metric_of(run.evidence, role) for role in _OF_THE_WEIGHTS)
    found = {name: column(run.evidence, name) for name in metrics if name}
    series = {name: each for name, each in found.items() if len(each.steps) >= _FEWEST_STEPS}
    return _Record(label, series, step_seconds(run.evidence), run.latest / VALIDATION_DIR if run.latest else None)


def _equal(one: _Record, two: _Record, same_ids: bool) -> EqualRuns | None:
    names = [name for name in one.series if name in two.series]
    series, steps = 0, 0
    if len(names) >= _FEWEST_SERIES:
        series, steps = _equal_series([(one.series[name], two.series[name]) for name in names])
    if not (series or same_ids):
        return None
    return EqualRuns(one.label, two.label, series, steps, _times(one.times, two.times), same_ids)


def _equal_series(pairs: Sequence[tuple[MetricColumn, MetricColumn]]) -> tuple[int, int]:
    """Count the series that tell, and their steps; 0 where any differs, or too few tell. Most differ at the first."""
    if any(_differ_at_last(one, two) for one, two in pairs):
        return 0, 0
    counts = list[int]()
    for one, two in pairs:
        is_equal, steps = _compared(one, two)
        if not is_equal:
            return 0, 0
        if steps >= _FEWEST_STEPS and _tells(one):
            counts.append(steps)
    return (len(counts), max(counts)) if len(counts) >= _FEWEST_SERIES else (0, 0)


def _compared(one: MetricColumn, two: MetricColumn) -> tuple[bool, int]:
    """Tell whether two columns are equal at the steps that both have, and how many those are."""
    if one.equals(two):
        return True, len(one.steps)
    steps = 0
    for value, other in _common(one, two):
        if not _same(value, other):
            return False, steps
        steps += 1
    return True, steps


def _tells(column: MetricColumn) -> bool:
    """Tell whether it has enough values of six digits that are not all one."""
    exact = list(islice(filter(_is_exact, column.values), _FEWEST_STEPS))
    return len(exact) == _FEWEST_STEPS and any(value != exact[0] for value in exact)


def _differ_at_last(one: MetricColumn, two: MetricColumn) -> bool:
    """Compare the last common step first: nearly all of the 5,000 pairs of a hundred runs differ there."""
    step = min(one.steps[-1], two.steps[-1])
    values = one.at(step), two.at(step)
    return values[0] is not None and values[1] is not None and not _same(values[0], values[1])


def _common(one: MetricColumn, two: MetricColumn) -> Iterator[tuple[float, float]]:
    """Yield the values at the steps that both have, in their order."""
    if one.has_same_steps(two):
        yield from zip(one.values, two.values, strict=True)
        return
    for step, value in zip(one.steps, one.values, strict=True):
        if (other := two.at(step)) is not None:
            yield value, other


def _same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


def _is_exact(value: float) -> bool:
    """Tell whether it has six digits: values of fewer are equal by chance."""
    return value == value and len(repr(value).partition("e")[0].replace(".", "").strip("-0")) >= _DIGITS


def _times(one: Mapping[str, MetricColumn], two: Mapping[str, MetricColumn]) -> Times:
    shared = [(one[name], two[name]) for name in one if name in two]
    if not shared:
        return Times.UNKNOWN
    return Times.ROUNDED if any(_are_rounded(*pair) for pair in shared) else Times.OWN


def _are_rounded(one: MetricColumn, two: MetricColumn) -> bool:
    """Tell whether one of the two is the other with fewer decimals, up or down."""
    decimals = min(_decimals(one), _decimals(two))
    if decimals > _MOST_DECIMALS:
        return False
    unit, times = 10.0**-decimals, list(_common(one, two))
    spread = max(one.values) - min(one.values)
    return bool(times) and spread >= _SPREAD * unit and all(abs(a - b) <= 1.001 * unit for a, b in times)


def _decimals(column: MetricColumn) -> int:
    """Count the decimals of its values, at most `_MOST_DECIMALS + 1`, which stands for values that are not rounded."""
    if any(value != round(value, _MOST_DECIMALS) for value in column.values):
        return _MOST_DECIMALS + 1
    return max(len(repr(value).partition(".")[2].rstrip("0")) for value in column.values)


def _same_ids(records: Sequence[_Record]) -> set[tuple[str, str]]:
    """Return the pairs whose outputs have equal unique ids at each validation that both kept."""
    alike: dict[tuple[str, ...], list[_Record]] = defaultdict(list)
    for record in records:
        steps = _kept_steps(record)
        if steps and (ids := _ids(record, steps[-1])):
            alike[ids].append(record)
    return {
        (one.label, two.label)
        for group in alike.values()
        for one, two in combinations(group, 2)
        if all(_ids(one, step) == _ids(two, step) for step in set(_kept_steps(one)) & set(_kept_steps(two)))
    }


def _kept_steps(record: _Record) -> list[int]:
    try:
        names = [path.stem for path in record.outputs.glob("*.jsonl")] if record.outputs else []
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isdecimal() and len(name) < _FEWEST_CHARACTERS)


def _ids(record: _Record, step: int) -> tuple[str, ...]:
    """Return the unique ids of the first outputs; none where the trainer writes none, or numbers them."""
    if record.outputs is None:
        return ()
    try:
        with (record.outputs / f"{step}.jsonl").open("rb") as stream:
            lines = stream.read(_HEAD_BYTES).splitlines()[:_IDS]
    except OSError:
        return ()
    found = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            document = json.loads(line)
            found.append(document.get("uid") if isinstance(document, dict) else None)
    return tuple(id for id in found if isinstance(id, str) and len(id) >= _FEWEST_CHARACTERS)


def copies(runs: Sequence[JudgedRun], labels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of labels whose runs have one record: the same logs, or steps that took the same times.

    Equal values of a validation prove nothing: two runs of one seed may have them.
    """
    times = [step_seconds(run.evidence) for run in runs]
    logs = [run.provenance.get("logs") for run in runs]
    return tuple(
        (labels[one], labels[two])
        for one, two in combinations(range(len(runs)), 2)
        if (logs[one] and logs[one] == logs[two])
        or any(_agree(own, times[two][key]) for key, own in times[one].items() if key in times[two])
    )


def step_seconds(evidence: Evidence) -> Mapping[str, MetricColumn]:
    """Return the columns of a run that say how long its steps took, by their names."""
    found = {key: column(evidence, key) for key in names_of(Role.STEP_SECONDS, evidence.backend)}
    return {key: times for key, times in found.items() if times.steps}


def _agree(one: MetricColumn, two: MetricColumn) -> bool:
    """Step by step, for two runs mostly differ in the first: all values of a hundred runs take a second to gather."""
    measured = False
    for step, seconds in zip(one.steps, one.values, strict=True):
        others = two.at(step)
        if others is None:
            continue
        if seconds != others:
            return False
        measured |= seconds != round(seconds, _DECIMALS)
    return measured
