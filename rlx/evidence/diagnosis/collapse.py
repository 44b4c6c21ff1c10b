"""Detect training that went wrong without an error, by its metrics, as warnings with the step at which it began.

All rules are tested on every healthy log in the tests. They compare medians over a few steps, so that one odd step does
not count, and they require the change to last until the end of the log.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import gt, lt
from statistics import median

from rlx.evidence.grammars import grammars, names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import core_keys, finite, metric_names, metric_of, series
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import counted, percent
from rlx.model import Finding, Severity

# A mean KL per token beyond these is nonsense in any estimator: the policies have nothing in common any more. The
# larger one is for a run that shows one step only.
_KL_LARGE = 10.0
_KL_NONSENSE = 50.0
# Of the answers of a step: engines abort single ones, and a task may have an answer or two of any length.
_ABORTED, _CUT = 0.25, 0.95
WINDOW = 5
"""An odd number, so that the median is one of the values."""
FEWEST = 4 * WINDOW
"""Fewer steps say nothing about a trend."""


def collapses(evidence: Evidence) -> list[Finding]:
    """Warn of everything that went wrong, by step."""
    rules = (_kl, _score, validation_collapses, _entropy, _length, _gradient, _unanswered)
    return sorted((found for rule in rules for found in rule(evidence)), key=lambda finding: finding.step or 0)


def _warning(id: str, message: str, fix: str, step: int) -> Finding:
    return Finding(id, Severity.WARNING, message, fix, step=step)


def _kl(evidence: Evidence) -> Iterator[Finding]:
    """Warn of a huge KL; one step is sufficient, because noise does not cause such a KL."""
    steps = [(step, key, value) for key in _kl_keys(evidence) for step, value in _beyond(evidence, key)]
    if steps:
        step, key, value = min(steps)
        yield _warning(
            "RLX894",
            f"{key} is {value:.4g} at step {step}: the policy has left its reference",
            "a lower learning rate or a larger KL coefficient; the training after that step is lost",
            step,
        )


def _kl_keys(evidence: Evidence) -> list[str]:
    """List the metrics of a KL; coefficients and the gap between rollout and actor are not among them."""
    keys = metric_names(evidence)
    others = tuple(start for each in grammars() for start in each.not_kl)
    words = {key: key.rpartition("/")[2].split("_") for key in keys if not key.startswith(others)}
    return sorted(key for key, parts in words.items() if "kl" in parts and "coef" not in parts)


def _beyond(evidence: Evidence, key: str) -> Iterator[tuple[int, float]]:
    """Compare with other steps, because some trainers sum over tokens: such a KL is large at every step."""
    values = finite(series(evidence, key))
    large = [(step, value) for step, value in values.items() if abs(value) >= _KL_LARGE]
    sizes = sorted(map(abs, values.values())) if large else []
    for step, value in large:
        if abs(value) >= (max(_KL_LARGE, 20 * _median_of_others(sizes, abs(value))) if sizes[1:] else _KL_NONSENSE):
            yield step, value


def _median_of_others(sizes: Sequence[float], size: float) -> float:
    """Return the median of ascending sizes without this one, without a copy, because it is needed for each step."""
    place, count = bisect_left(sizes, size), len(sizes) - 1
    low, high = (sizes[at + (at >= place)] for at in ((count - 1) // 2, count // 2))
    return (low + high) / 2


def _score(evidence: Evidence) -> Iterator[Finding]:
    for key in names_of(Role.SCORE, evidence.backend):
        values = medians(evidence, key)
        best = max(values.values(), default=0.0)
        fell = lasting(values, partial(gt, 0.4 * best)) if best >= 0.1 else None
        if fell and any(value == best for step, value in values.items() if step < fell):
            yield _warning(
                "RLX895",
                f"{key} fell from {best:.3g} to {last(values):.3g}, permanently from about step {fell}",
                "read answers of that time; a lower learning rate, or an earlier checkpoint",
                fell,
            )
            return


def validation_collapses(evidence: Evidence) -> Iterator[Finding]:
    """Warn if the last validation is far below the best one."""
    for key in core_keys(evidence):
        values = finite(series(evidence, key))
        best = max(values, key=lambda step: values[step], default=0)
        if "/std@" not in key and values and _is_collapse(values[best], last(values), evidence.totals.validation_rows):
            fell = next(step for step in values if step > best and values[step] < 0.6 * values[best])
            yield _warning(
                "RLX895",
                f"{key} fell from {values[best]:.4g} at step {best} to {last(values):.4g} at step {max(values)}",
                "the final value is not this run's best; find out what changed before it fell",
                fell,
            )
            return


def _is_collapse(best: float, final: float, rows: int | None) -> bool:
    """Require a value far below the best: ten points at least, and beyond what so few rows explain (z > 4)."""
    if best - final < 0.1 or final > (0.6 if rows else 0.5) * best:
        return False
    variance = sum(max(share * (1 - share), 0.0) for share in (best, final)) / (rows or math.inf)
    return best - final > 4 * math.sqrt(variance)


def _entropy(evidence: Evidence) -> Iterator[Finding]:
    key = metric_of(evidence, Role.ENTROPY)
    values = medians(evidence, key)
    start = first(values)
    if fell := lasting(values, partial(gt, min(0.02 * start, 0.005))):
        yield _warning(
            "RLX896",
            f"{key} fell from {start:.3g} to {last(values):.2g} by step {fell}: "
            "all answers to a prompt are equal, so there is nothing left to learn",
            "a higher temperature, an entropy coefficient, or clip-higher",
            fell,
        )
    if rose := lasting(values, partial(lt, max(5 * start, 2.0))):
        yield _warning(
            "RLX896",
            f"{key} rose from {start:.3g} to {last(values):.3g} by step {rose}: the policy writes random text",
            "a lower learning rate, or a larger KL coefficient",
            rose,
        )


def _length(evidence: Evidence) -> Iterator[Finding]:
    key = metric_of(evidence, Role.RESPONSE_LENGTH)
    values = medians(evidence, key)
    shrank = lasting(values, partial(gt, 0.1 * first(values))) if first(values) > 20 else None
    if shrank:
        yield _warning(
            "RLX897",
            f"{key} shrank from {first(values):.4g} to {last(values):.3g} tokens by step {shrank}",
            "does the reward favour short or empty answers?",
            shrank,
        )
    share = metric_of(evidence, Role.CLIP_RATIO)
    clipped = medians(evidence, share)
    at_limit = lasting(clipped, partial(lt, 0.95)) if first(clipped) < 0.5 else None
    if at_limit:
        yield _warning(
            "RLX897",
            f"nearly all answers end at the length limit from about step {at_limit} ({share} {last(clipped):.2g})",
            "does the reward favour long answers, or does the policy no longer end them?",
            at_limit,
        )


def _gradient(evidence: Evidence) -> Iterator[Finding]:
    for key in names_of(Role.GRAD_NORM, evidence.backend):
        values = medians(evidence, key)
        usual = median(values.values()) if values else 0.0
        if grew := lasting(values, partial(lt, max(50 * usual, 10.0))):
            yield _warning(
                "RLX898",
                f"{key} grew from {first(values):.3g} to {last(values):.3g}, from about step {grew}",
                "a lower learning rate, or stricter clipping",
                grew,
            )


def _unanswered(evidence: Evidence) -> Iterator[Finding]:
    """Warn of incomplete answers from the first steps on: nothing changes, so no trend shows them."""
    for role, least, words, fix in (
        (Role.ABORTED_SAMPLES, _ABORTED, "of the answers were aborted", "search the log for errors of the engine"),
        (Role.CLIP_RATIO, _CUT, "of the answers were cut at the length limit", "a longer data.max_response_tokens"),
    ):
        name = metric_of(evidence, role)
        shares = {step: value for step, value in finite(series(evidence, name)).items() if step > 0}
        high = {step: value for step, value in shares.items() if value >= least}
        early = sum(step in high for step in list(shares)[:WINDOW])
        if len(shares) >= WINDOW and 2 * early > WINDOW and 2 * len(high) > len(shares):
            message = f"{percent(median(high.values()))} {words} at {len(high)} of {counted(len(shares), 'step')}"
            yield _warning("RLX755", f"{message} ({name})", fix, min(high))


def medians(evidence: Evidence, key: str) -> Mapping[int, float]:
    """Return step -> median over it and the steps before it; empty for a run that is too short."""
    found = finite(series(evidence, key))
    steps, values = list(found), list(found.values())
    if len(steps) < FEWEST:
        return {}
    return {step: sorted(values[at : at + WINDOW])[WINDOW // 2] for at, step in enumerate(steps[WINDOW - 1 :])}


def lasting(values: Mapping[int, float], is_so: Callable[[float], bool]) -> int | None:
    """Find the step from which a condition holds until the end, for a window at least."""
    since: list[int] = []
    for step, value in values.items():
        if is_so(value):
            since.append(step)
        else:
            since.clear()
    return since[0] if len(since) >= WINDOW else None


def first(values: Mapping[int, float]) -> float:
    """Return the value at the start; 0 where there is none."""
    return next(iter(values.values()), 0.0)


def last(values: Mapping[int, float]) -> float:
    return values[max(values)]
