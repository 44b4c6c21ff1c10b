"""How fast a run was: seconds per step, tokens per second, and all of its steps together.

Sources: verl/trainer/ppo/metric_utils.py (`timing_s/step`, `perf/time_per_step`; `perf/total_num_tokens` counts prompts
and answers of a step on all devices, `perf/throughput` is that per second and device); MindSpeed-RL's iteration lines
(`timing/all`, `e2e_tps`; as its source has them, not seen in a real log).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from rlx.evidence import Evidence, series

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
    seconds = _first(evidence, _SECONDS)
    complete = set(seconds) >= set(range(1, evidence.last_step + 1))
    return Pace(
        seconds_per_step=_median(seconds.values()),
        tokens_per_second=_median(_rates(evidence, seconds, devices)),
        training_seconds=sum(seconds.values()) if complete and seconds else None,
    )


def _rates(evidence: Evidence, seconds: Mapping[int, float], devices: int) -> Iterable[float]:
    tokens, shares = _first(evidence, (_TOKENS,)), _first(evidence, (_TOKENS_A_DEVICE,))
    by_share = {step: share * devices for step, share in shares.items()}
    by_count = {step: tokens[step] / seconds[step] for step in tokens.keys() & seconds.keys()}
    return (by_share | by_count | _first(evidence, _TOKENS_A_SECOND)).values()


def _first(evidence: Evidence, names: tuple[str, ...]) -> dict[int, float]:
    """By step, the first of these metrics that is a positive, finite number."""
    found: dict[int, float] = {}
    for name in reversed(names):
        found |= {step: value for step, value in series(evidence, name).items() if 0 < value < float("inf")}
    return dict(sorted(found.items()))


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None
