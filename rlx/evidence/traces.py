"""Traces: the metrics, records or digests by which a run shows that a setting of its recipe was applied.

Each back-end has a table of them (`LogGrammar.traces`). A setting without a row is shown by the composed configuration
only, as is one about which the metrics do not show more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from rlx.evidence.modes import ALL_MODES, Mode, named, setting
from rlx.evidence.reading.metric_table import MetricTable
from rlx.evidence.run_evidence import Evidence
from rlx.model import Expectations

_RELATIVE = 1e-4
"""Means over processes and mini-batches are taken in float32 at least."""
_FOUR_DIGITS = 0.51e-3
"""Half a unit of the last of four digits, of a number that begins with 1."""
_ROUNDED_DECIMALS = 6
_NOTHING = 1e-12


class TraceStatus(StrEnum):
    """How a run shows a setting, in words.

    CONTRADICTED: the run's own record differs. SILENT: the trace was due and is absent. COMPOSED: only the
    configuration shows it. NOT_OBSERVABLE: no check of it applies in a mode of this run.
    """

    CONTRADICTED = "contradicted"
    SILENT = "silent"
    NOT_OBSERVABLE = "not observable"
    COMPOSED = "in the composed configuration only"
    SHOWN = "shown"


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of a run; each part is empty where it is unknown.

    `recipe`: resolved, with all defaults. `treatment`: the dotted recipe keys that the arm changes. `configuration`:
    the tree that the engine composed; where it recorded none, that of the settings of the plan. `is_composed` tells
    which. `planned`: the dotted keys of the engine that the plan sets. `found`: what the run recorded of its host at
    its start: digests of data and model. `sent`: the digests of the files that were sent with it, by their paths.
    """

    recipe: Mapping[str, Any] = field(default_factory=dict)
    treatment: tuple[str, ...] = ()
    configuration: Mapping[str, Any] = field(default_factory=dict)
    is_composed: bool = False
    planned: frozenset[str] = frozenset()
    found: Mapping[str, Any] = field(default_factory=dict)
    sent: Mapping[str, str] = field(default_factory=dict)


UNKNOWN_SETUP = Setup()


@dataclass(frozen=True)
class TraceInput:
    """The data of a run that a trace reads."""

    evidence: Evidence
    expectations: Expectations
    setup: Setup
    modes: frozenset[Mode]

    def value(self, key: str) -> Any:
        """Return a setting of the engine; None where it is unknown."""
        return setting(self.setup.configuration, key)

    def number(self, key: str) -> float | None:
        """Return a setting that is a number; None for any other."""
        found = self.value(key)
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None

    def series(self, metric: str) -> dict[int, float]:
        """Return step -> finite value of a metric, from step 1 on: before the training nothing is applied."""
        metrics = self.evidence.metrics
        if isinstance(metrics, MetricTable):
            found = metrics.series(metric)
        else:
            found = {step: values[metric] for step, values in metrics.items() if metric in values}
        return {step: value for step, value in found.items() if step > 0 and math.isfinite(value)}

    @property
    def total_steps(self) -> int:
        """The number of planned steps, by the run's own record or by its plan; 0 where neither states it."""
        return self.evidence.total_steps or self.expectations.total_steps or 0

    @property
    def has_trained(self) -> bool:
        """Tell whether any step was logged."""
        return self.evidence.last_step > 0

    @cached_property
    def rounding(self) -> float:
        """Half a unit of the last printed decimal; 0 where all decimals are printed."""
        values = self.evidence.metrics.get(self.evidence.last_step, {}).values()
        decimals = max((len(repr(float(value)).partition(".")[2]) for value in values), default=0)
        return 0.51 * 10.0**-decimals if decimals <= _ROUNDED_DECIMALS else 0.0

    @cached_property
    def relative(self) -> float:
        """The share by which equal values may differ: some trainers print four digits of each number."""
        values = self.evidence.metrics.get(self.evidence.last_step, {}).values()
        has_four = bool(values) and all(value == float(f"{value:.4g}") for value in values if math.isfinite(value))
        return _FOUR_DIGITS if has_four else _RELATIVE

    def agree(self, logged: float, expected: float) -> bool:
        """Tell whether a logged value is the expected one, up to float32 and to how it was printed."""
        return math.isclose(logged, expected, rel_tol=self.relative, abs_tol=max(self.rounding, _NOTHING))


class TraceReading(NamedTuple):
    """What a trace shows. `words`: by what, or how it differs. `step`: the first that differs."""

    shown: TraceStatus
    words: str = ""
    step: int | None = None


COMPOSED_ONLY = TraceReading(TraceStatus.COMPOSED)


class Trace(NamedTuple):
    """A way in which a run shows settings.

    `keys`: of the recipe; the key of a section includes all keys below it. `by`: what shows it, in words. `read`: what
    it shows in one run. `modes`: those in which it applies, besides plain synchronous training.
    """

    keys: tuple[str, ...]
    by: str
    read: Callable[[TraceInput], TraceReading]
    modes: frozenset[Mode] = frozenset()

    def is_of(self, key: str) -> bool:
        """Tell whether it shows this key, a section that holds it, or a key below it."""
        return any(_is_within(key, own) or _is_within(own, key) for own in self.keys)


def _data(given: TraceInput) -> TraceReading:
    files = given.setup.found.get("data")
    digests = [_digest(each) for each in files.values()] if isinstance(files, Mapping) else []
    return (
        TraceReading(TraceStatus.SHOWN, "the digests of its files at the start")
        if all(digests) and digests
        else COMPOSED_ONLY
    )


def _weights(given: TraceInput) -> TraceReading:
    known = _digest(given.setup.found.get("model"))
    return TraceReading(TraceStatus.SHOWN, "the digest of its weights at the start") if known else COMPOSED_ONLY


def _digest(found: object) -> object:
    """Return the digest in a record of provenance; nothing where it says why there is none."""
    return (found.get("sha256") or found.get("sha256_of_headers_and_samples")) if isinstance(found, Mapping) else None


RECORDED = (
    Trace(("data.train",), "the digests of its files", _data, ALL_MODES),
    Trace(("model.path",), "the digest of its weights", _weights, ALL_MODES),
)
"""What every run records at its start, whatever its back-end."""


@dataclass(frozen=True, slots=True)
class KeyTrace:
    """How a run shows one setting. `by`: what shows it; "" if only the configuration does."""

    key: str
    shown: TraceStatus
    by: str = ""
    words: str = ""
    step: int | None = None


def read_traces(given: TraceInput, table: Iterable[Trace]) -> tuple[KeyTrace, ...]:
    """Read every row of the table, for the keys of the treatment that it shows, or else for its own first key.

    Keys of the treatment without a row follow.
    """
    rows = list(table)
    found = [_read(given, trace) for trace in rows]
    by_key = [
        replace(trace, key=key)
        for row, trace in zip(rows, found, strict=True)
        for key in (tuple(key for key in given.setup.treatment if row.is_of(key)) or row.keys[:1])
    ]
    others = [key for key in given.setup.treatment if not any(row.is_of(key) for row in rows)]
    return (*by_key, *(KeyTrace(key, TraceStatus.COMPOSED) for key in others))


def _read(given: TraceInput, trace: Trace) -> KeyTrace:
    if outside := named(given.modes - trace.modes):
        return KeyTrace(trace.keys[0], TraceStatus.NOT_OBSERVABLE, trace.by, outside)
    reading = trace.read(given)
    return KeyTrace(trace.keys[0], reading.shown, trace.by, reading.words, reading.step)


def _is_within(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")
