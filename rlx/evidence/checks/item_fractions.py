"""Check that values are possible: a mean of right and wrong answers is a whole number over the number of items.

A value that fits no number of answers is not what it claims to be: the number of items differs, answers are missing, or
it is not an accuracy. Then the run is not valid. Scores with partial credit are recognised by three conditions
together: the recipe has its own reward function, all answers of that validation were kept, and most values of the run
do not fit either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.metrics import (
    core_keys,
    core_metric,
    data_sources,
    finite,
    row_counts,
    samples,
    series,
    statistic,
    validated_steps,
    variable,
)
from rlx.evidence.run_configuration import has_own_reward
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import CheckFinding, at_steps, incomplete, remark, unverified
from rlx.model import Expectations, Severity
from rlx.model.post_metric import is_post

_EXACT = 1e-9
_IS_IT = "check that the validation set has that size, and that each answer is right or wrong"


def check(given: CheckInput) -> Iterator[CheckFinding]:
    evidence, expectations = given.evidence, given.expectations
    promised, logged = row_counts(evidence, expectations, core_metric(evidence, expectations) or expectations.metric)
    if rows := logged or promised:
        yield from _answers(evidence, expectations, rows)
        yield from _fractions(evidence, expectations, rows)


def _answers(evidence: Evidence, expectations: Expectations, rows: int) -> Iterator[CheckFinding]:
    """Report missing answers: if a reward function raises, the trainer continues and averages the remaining ones."""
    due = rows * expectations.validation_samples
    short = {
        step: kept
        for step in validated_steps(evidence, core_metric(evidence, expectations))
        if (kept := evidence.answers.get(step)) is not None and kept != due
    }
    if short:
        step, kept = next(iter(short.items()))
        yield incomplete(
            "RLX712",
            f"the validation at {at_steps(short)} does not cover its set: {kept} of {due} answers at step {step}",
            "search the log for errors of the reward function: rlx logs --grep Error",
            step,
        )


def _fractions(evidence: Evidence, expectations: Expectations, rows: int) -> Iterator[CheckFinding]:
    """Check the number of rows. Of several data sources the log does not say how the rows are divided."""
    metric = core_metric(evidence, expectations)
    if len(data_sources(evidence, metric)) > 1:
        yield from _of_several_sources(evidence, rows)
        return
    if metric is None or not _is_mean_of_answers(metric):
        return
    answers, values = rows * samples(metric), finite(series(evidence, metric))
    # verl <= 0.4.1 prints only three decimals; a single 0.796 among longer values of any metric is not rounded.
    logged = (*values.values(), *evidence.metrics.get(evidence.last_step, {}).values())
    rounded = all(value == round(value, 3) for value in logged if math.isfinite(value))
    odd = [step for step, value in values.items() if not _is_share(value, answers, rounded)]
    message = f"{metric} at {at_steps(odd)} is not a multiple of 1/{answers}"
    if not odd:
        return
    if 2 * len(odd) > len(values) and _all_kept(evidence, odd, rows * expectations.validation_samples):
        message += ": the recipe's own reward function gives partial credit"
        yield remark("RLX708", Severity.NOTE, message, step=odd[0])
    else:
        yield unverified("RLX708", f"{message}: no {answers} right or wrong answers have that mean", _IS_IT, odd[0])


def _all_kept(evidence: Evidence, steps: Sequence[int], due: int) -> bool:
    """Tell whether the values are of all answers, and of a reward that need not be right or wrong."""
    return has_own_reward(evidence.settings) and all(evidence.answers.get(step) == due for step in steps)


def _of_several_sources(evidence: Evidence, rows: int) -> Iterator[CheckFinding]:
    """Check that the sources, each with as many rows as its values need, have at most `rows` together."""
    by_statistic: dict[str, dict[str, int]] = {}
    for key in (key for key in core_keys(evidence) if _is_mean_of_answers(key) and not is_post(key)):
        by_statistic.setdefault(statistic(key), {})[key] = _fewest(evidence, key, rows)
    for fewest in by_statistic.values():
        if sum(fewest.values()) > rows:
            needs = "; ".join(f"{key} {need if need <= rows else 'fits none'}" for key, need in fewest.items())
            yield unverified(
                "RLX708",
                f"the values of {len(fewest)} data sources fit no division of {rows} rows among them; each needs at "
                f"least: {needs}",
                _IS_IT,
            )


def _fewest(evidence: Evidence, key: str, rows: int) -> int:
    """Find the fewest rows that fit; more than `rows` where none up to that does. Three printed decimals fit any."""
    values = [value for value in finite(series(evidence, key)).values() if value != round(value, 3)]
    k = samples(key)
    shares = [Fraction(value).limit_denominator(rows * k) for value in values]
    if any(abs(value - share) > _EXACT for value, share in zip(values, shares, strict=True)):
        return rows + 1
    return math.lcm(*((share.denominator // math.gcd(share.denominator, k)) for share in shares)) if shares else 1


def _is_mean_of_answers(metric: str) -> bool:
    return variable(metric) == "acc" and statistic(metric).startswith("mean@")


def _is_share(value: float, answers: int, rounded: bool) -> bool:
    if not 0 <= value <= 1:
        return False
    exact = value * answers
    tolerance = answers * (5.1e-4 if rounded else 1e-6)
    return math.isclose(exact, round(exact), abs_tol=tolerance, rel_tol=0)
