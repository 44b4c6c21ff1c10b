"""How fast a run was: seconds per step, tokens per second, and all of its steps together.

Sources: verl/trainer/ppo/metric_utils.py (`timing_s/step`, `perf/time_per_step`; `perf/total_num_tokens` counts prompts
and answers of a step on all devices, `perf/throughput` is that per second and device); MindSpeed-RL's iteration lines
(`timing/all`, `e2e_tps`; as its source has them, not seen in a real log).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from rlx.evidence import Evidence

_SECONDS = ("perf/time_per_step", "timing_s/step", "timing/all")
_TOKENS = "perf/total_num_tokens"
_TOKENS_A_DEVICE = "perf/throughput"
_TOKENS_A_SECOND = ("e2e_tps",)


@dataclass(frozen=True, slots=True)
class Pace:
    """Medians over the steps of a run; None where it did not log them.

    `tokens_per_second`: of prompts and answers, on all devices. `training_seconds`: all steps together, without start
    and end; None unless every step up to the last one says how long it took.
    """

    seconds_per_step: float | None = None
    tokens_per_second: float | None = None
    training_seconds: float | None = None


def pace(evidence: Evidence, devices: int) -> Pace:
    """The pace of a run on `devices` devices."""
    seconds = {step: value for step, values in evidence.metrics.items() if (value := _first(values, _SECONDS))}
    complete = set(seconds) >= set(range(1, evidence.last_step + 1))
    return Pace(
        seconds_per_step=_median(seconds.values()),
        tokens_per_second=_median(_rates(evidence, seconds, devices)),
        training_seconds=sum(seconds.values()) if complete and seconds else None,
    )


def _rates(evidence: Evidence, seconds: Mapping[int, float], devices: int) -> Iterator[float]:
    for step, values in evidence.metrics.items():
        if (rate := _first(values, _TOKENS_A_SECOND)) is not None:
            yield rate
        elif (tokens := _first(values, (_TOKENS,))) is not None and step in seconds:
            yield tokens / seconds[step]
        elif (share := _first(values, (_TOKENS_A_DEVICE,))) is not None:
            yield share * devices


def _first(values: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    """The first of these metrics that is a positive, finite number."""
    return next((values[name] for name in names if 0 < values.get(name, 0.0) < float("inf")), None)


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None
