"""Training that went wrong without an error: what its metrics show, as warnings with the step at which it began.

All rules are held against every healthy log in the tests. They compare medians over a few steps, so that one wild
step says nothing, and they want the change to last until the end of what is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from statistics import median

from rlx.evidence.metrics import VALIDATION_PREFIXES, core_keys, finite, series
from rlx.evidence.values import Evidence
from rlx.plan import Finding, Severity

_WINDOW = 5
_FEWEST = 4 * _WINDOW
# A mean KL per token near this is nonsense in any estimator: the policies have nothing in common any more.
_KL_NONSENSE = 10.0


def collapses(evidence: Evidence) -> list[Finding]:
    """What went wrong, by step."""
    rules = (_not_finite, _kl, _score, _validation, _entropy, _length, _gradient)
    return sorted((found for rule in rules for found in rule(evidence)), key=lambda finding: finding.step or 0)


def _warning(id: str, message: str, fix: str, step: int) -> Finding:
    return Finding(id, Severity.WARNING, message, fix, step=step)


def _not_finite(evidence: Evidence) -> Iterator[Finding]:
    broken: dict[str, list[int]] = {}
    for step, values in evidence.metrics.items():
        for key, value in values.items():
            if not math.isfinite(value) and any(part in key for part in ("loss", "grad_norm", "kl", "entropy")):
                broken.setdefault(key, []).append(step)
    if broken:
        key, steps = min(broken.items(), key=lambda item: (item[1][0], item[0]))
        others = f", and {len(broken) - 1} more metrics" if len(broken) > 1 else ""
        yield _warning(
            "RLX893",
            f"{key} is not a number from step {steps[0]} on, in {len(steps)} of {len(evidence.metrics)} steps{others}",
            "a lower learning rate or stricter clipping; float32 where bfloat16 overflows",
            steps[0],
        )


def _kl(evidence: Evidence) -> Iterator[Finding]:
    """One step is enough: no noise takes a KL there."""
    steps = [(step, key, value) for key in _keys(evidence, _is_kl) for step, value in _beyond(evidence, key)]
    if steps:
        step, key, value = min(steps)
        yield _warning(
            "RLX894",
            f"{key} is {value:.4g} at step {step}: the policy has left its reference",
            "a lower learning rate or a larger KL coefficient; what was trained after that step is lost",
            step,
        )


def _is_kl(key: str) -> bool:
    name = key.rpartition("/")[2]
    return "coef" not in name and not key.startswith("rollout_corr") and ("kl" in name.split("_") or name == "kl")


def _beyond(evidence: Evidence, key: str) -> Iterator[tuple[int, float]]:
    values = finite(series(evidence, key))
    usual = median(abs(value) for value in values.values()) if len(values) >= _FEWEST else 0.0
    for step, value in values.items():
        if abs(value) >= max(_KL_NONSENSE, 20 * usual):
            yield step, value


def _score(evidence: Evidence) -> Iterator[Finding]:
    for key in ("critic/score/mean", "critic/rewards/mean", "grpo/score/mean"):
        medians = _medians(evidence, key)
        best = max(medians.values(), default=0.0)
        start = next(iter(medians.values()), 0.0)
        if best - start < 0.0 or best < 0.1:
            continue
        fell = _lasting(medians, lambda value, best=best: value < 0.4 * best)  # type: ignore[misc]
        if fell and _after_best(medians, fell, best):
            yield _warning(
                "RLX895",
                f"{key} fell from {best:.3g} to {medians[max(medians)]:.3g}, for good from about step {fell} on",
                "look at answers of that time; a lower learning rate, or an earlier checkpoint",
                fell,
            )
            return


def _validation(evidence: Evidence) -> Iterator[Finding]:
    """The last validations lost half of what there was, and at least ten points: no noise of a test set does that."""
    for key in core_keys(evidence):
        values = finite(series(evidence, key))
        if not values or "/std@" in key:
            continue
        last = values[max(values)]
        best_step = max(values, key=lambda step: (values[step], -step))
        best = values[best_step]
        # Within the first fifth of a run a policy may still find its way.
        if last < 0.6 * best and best - last > 0.1 and best_step > min(values) and best_step < max(values):
            fell = next(
                later for earlier, later in pairwise(values) if later > best_step and values[later] < 0.6 * best
            )
            yield _warning(
                "RLX895",
                f"{key} fell from {best:.4g} at step {best_step} to {last:.4g} at step {max(values)}",
                "the final value is no result of this run's best training; look for what changed at that step",
                fell,
            )
            return


def _entropy(evidence: Evidence) -> Iterator[Finding]:
    medians = _medians(evidence, "actor/entropy")
    start = next(iter(medians.values()), 0.0)
    fell = _lasting(medians, lambda value: value < 0.02 * start and value < 0.005)
    if fell:
        yield _warning(
            "RLX896",
            f"actor/entropy fell from {start:.3g} to {medians[max(medians)]:.2g} by step {fell}: "
            "every answer to a prompt is the same, so there is nothing left to learn from",
            "a higher temperature, an entropy coefficient, or clip-higher",
            fell,
        )
    rose = _lasting(medians, lambda value: value > 5 * start and value > 2.0)
    if rose:
        yield _warning(
            "RLX896",
            f"actor/entropy rose from {start:.3g} to {medians[max(medians)]:.3g} by step {rose}: "
            "the policy writes noise",
            "a lower learning rate, or a larger KL coefficient",
            rose,
        )


def _length(evidence: Evidence) -> Iterator[Finding]:
    medians = _medians(evidence, "response_length/mean")
    start = next(iter(medians.values()), 0.0)
    shrank = _lasting(medians, lambda value: value < 0.1 * start and start > 20)
    if shrank:
        last = medians[max(medians)]
        yield _warning(
            "RLX897",
            f"response_length/mean shrank from {start:.4g} to {last:.3g} tokens by step {shrank}",
            "does the reward pay for short or empty answers?",
            shrank,
        )
    clipped = _medians(evidence, "response_length/clip_ratio")
    at_limit = _lasting(clipped, lambda value: value > 0.95)
    if at_limit and next(iter(clipped.values())) < 0.5:
        yield _warning(
            "RLX897",
            f"from about step {at_limit} on nearly all answers end at the length limit "
            f"(response_length/clip_ratio {clipped[max(clipped)]:.2g})",
            "does the reward pay for long answers, or has the policy lost its end token?",
            at_limit,
        )


def _gradient(evidence: Evidence) -> Iterator[Finding]:
    for key in ("actor/grad_norm", "grad_norm"):
        medians = _medians(evidence, key)
        usual = median(medians.values()) if medians else 0.0
        grew = _lasting(medians, lambda value, usual=usual: value > 50 * max(usual, 1e-6) and value > 10)  # type: ignore[misc]
        if grew:
            first, last = next(iter(medians.values())), medians[max(medians)]
            yield _warning(
                "RLX898",
                f"{key} grew from {first:.3g} to {last:.3g}, from about step {grew} on",
                "a lower learning rate, or stricter clipping",
                grew,
            )


def _medians(evidence: Evidence, key: str) -> Mapping[int, float]:
    """step -> median over it and the steps before it; empty for a run that is too short to say anything."""
    values = finite(series(evidence, key))
    steps = list(values)
    if len(steps) < _FEWEST:
        return {}
    return {
        steps[at]: median(values[step] for step in steps[at - _WINDOW + 1 : at + 1])
        for at in range(_WINDOW - 1, len(steps))
    }


def _lasting(medians: Mapping[int, float], is_so: Callable[[float], bool]) -> int | None:
    """From which step on it is so until the end, for a window at least."""
    since: list[int] = []
    for step, value in medians.items():
        since = [*since, step] if is_so(value) else []
    return since[0] if len(since) >= _WINDOW else None


def _after_best(medians: Mapping[int, float], step: int, best: float) -> bool:
    return any(value == best and earlier < step for earlier, value in medians.items())


def _keys(evidence: Evidence, wanted: Callable[[str], bool]) -> list[str]:
    found = {key for values in evidence.metrics.values() for key in values if wanted(key)}
    return sorted(key for key in found if not key.startswith(VALIDATION_PREFIXES))
