"""Measure how fast a run was: seconds per step, tokens per second, and all of its steps together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlx.evidence import Evidence
from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import column, step_times, usual_seconds

_BEYOND, _BEYOND_TIME = 1e6, 1e12


@dataclass(frozen=True, slots=True)
class Pace:
    """Medians over the steps of a run; None where it did not log them. What a step's time is: `step_times`.

    `tokens_per_second`: of prompts and answers, on all devices. `training_seconds`: all steps together, without start
    and end; None unless every step up to the last one says how long it took.
    """

    seconds_per_step: float | None = None
    tokens_per_second: float | None = None
    training_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HostLoad:
    """What a host was busy with before a run: mean runnable processes of a minute, and how many processors it has."""

    minute: float
    processors: int


def started(provenance: Mapping[str, Any]) -> float | None:
    """When a run was started, in seconds since 1970 by its host; None where it did not record that."""
    found = provenance.get("time")
    return float(found) if isinstance(found, int | float) and 0 < found < _BEYOND_TIME else None


def host_load(provenance: Mapping[str, Any]) -> HostLoad | None:
    """Return the load that a run recorded at its start; None where it did not, or what it says is none."""
    found = provenance.get("load")
    known = found if isinstance(found, dict) else {}
    minute, processors = known.get("minute"), known.get("processors")
    if not (isinstance(minute, int | float) and isinstance(processors, int)):
        return None
    return HostLoad(float(minute), processors) if 0 <= minute < _BEYOND and 0 < processors < _BEYOND else None


def pace(evidence: Evidence, devices: int) -> Pace:
    """Return the pace of a run on `devices` devices."""
    import numpy as np

    times = step_times(evidence)
    rates = _rates(evidence, times, devices)
    # As many from 1 on as there are steps: none is missing.
    complete = sum(step >= 1 for step in times) == evidence.last_step
    return Pace(
        seconds_per_step=usual_seconds([*times.values()]),
        tokens_per_second=float(np.median(rates)) if len(rates) else None,
        training_seconds=sum(times.values()) if complete and times else None,
    )


def _rates(evidence: Evidence, times: dict[int, float], devices: int) -> Any:
    """Return tokens per second at each step: as logged, else from tokens and step time, else from the devices' rate."""
    import numpy as np

    at, seconds = np.array([*times], np.int64), np.array([*times.values()])
    (counted, tokens), (shared, shares) = (
        _first(evidence, role) for role in (Role.TOKENS, Role.TOKENS_A_SECOND_AND_DEVICE)
    )
    both, left, right = np.intersect1d(counted, at, assume_unique=True, return_indices=True)
    logged, by_count = _first(evidence, Role.TOKENS_A_SECOND), (both, tokens[left] / seconds[right])
    return _best(logged, by_count, (shared, shares * devices))[1]


def _first(evidence: Evidence, role: Role) -> tuple[Any, Any]:
    """Return steps, and at each the first metric of this role that is a positive, finite number."""
    import numpy as np

    found = []
    for steps, values in (column(evidence, name) for name in names_of(role, evidence.backend)):
        own = np.asarray(values, np.float64)
        good = (own > 0) & (own < np.inf)
        found.append((np.asarray(steps, np.int64)[good], own[good]))
    return _best(*found)


def _best(*columns: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the steps of all columns, ascending, with the value of the first column that has it."""
    import numpy as np

    some = [column for column in columns if len(column[0])] or [(np.empty(0, np.int64), np.empty(0))]
    if len(some) == 1:
        return some[0]
    steps, first = np.unique(np.concatenate([steps for steps, _ in some]), return_index=True)
    return steps, np.concatenate([values for _, values in some])[first]
