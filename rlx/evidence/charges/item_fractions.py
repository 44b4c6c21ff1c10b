"""Check values against the number of items, because a mean of right and wrong answers is a whole number over n.

What fits no number of answers is not what it claims to be: n is another, answers are missing, or it is no accuracy.
Then the run is not valid. Scores with partial credit are told apart by three things together: the recipe has a reward
function of its own, all answers of that validation were kept, and most values of the run do not fit either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from rlx.evidence.charges.check_input import CheckInput
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
from rlx.evidence.reading.backend_settings import has_own_reward
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Charge, at_steps, incomplete, remark, unverified
from rlx.model import Expectations, Severity
from rlx.model.post_metric import is_post

_EXACT = 1e-9
_IS_IT = "is the validation set really of that size, and the metric right or wrong per answer?"


def check(given: CheckInput) -> Iterator[Charge]:
    evidence, expectations = given.evidence, given.expectations
    promised, logged = row_counts(evidence, expectations, core_metric(evidence, expectations) or expectations.metric)
    if rows := logged or promised:
        yield from _answers(evidence, expectations, rows)
        yield from _fractions(evidence, expectations, rows)


def _answers(evidence: Evidence, expectations: Expectations, rows: int) -> Iterator[Charge]:
    """A reward function that raises costs answers, not the run: the trainer goes on and averages what is left."""
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


def _fractions(evidence: Evidence, expectations: Expectations, rows: int) -> Iterator[Charge]:
    """Find fitting numbers of rows. Of several data sources the log does not say how rows are split among them."""
    metric = core_metric(evidence, expectations)
    if len(data_sources(evidence, metric)) > 1:
        yield from _of_several_sources(evidence, rows)
        return
    if metric is None or not _is_mean_of_answers(metric):
        return
    answers, values = rows * samples(metric), finite(series(evidence, metric))
    # verl <= 0.4.1 prints three decimals only; a lone 0.796 among longer values of any metric is no rounded one.
    logged = (*values.values(), *evidence.metrics.get(evidence.last_step, {}).values())
    rounded = all(value == round(value, 3) for value in logged if math.isfinite(value))
    odd = [step for step, value in values.items() if not _is_share(value, answers, rounded)]
    message = f"{metric} at {at_steps(odd)} is no multiple of 1/{answers}"
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


def _of_several_sources(evidence: Evidence, rows: int) -> Iterator[Charge]:
    """Each source has at least as many rows as make all of its values shares; together they are `rows`."""
    by_statistic: dict[str, dict[str, int]] = {}
    for key in (key for key in core_keys(evidence) if _is_mean_of_answers(key) and not is_post(key)):
        by_statistic.setdefault(statistic(key), {})[key] = _fewest(evidence, key, rows)
    for fewest in by_statistic.values():
        if sum(fewest.values()) > rows:
            needs = "; ".join(f"{key} {need if need <= rows else 'fits none'}" for key, need in fewest.items())
            yield unverified(
                "RLX708",
                f"the values of {len(fewest)} data sources fit no split of {rows} rows among them; at least "
                f"these many each: {needs}",
                _IS_IT,
            )


def _fewest(evidence: Evidence, key: str, rows: int) -> int:
    """Find the fewest rows that fit; more than `rows` where none up to that does. Three printed decimals fit any."""
    values = [value for value in finite(series(evidence, key)).values() if value != round(value, 3)]
    k = samples(key)
    shares = [Fraction(value).limit_denominator(rows * k) for value in values]
    if any(abs(value - share) > _EXACT for value, share in zip(values, shares, strict=True)):
        return rows + 1
    return math.lcm(*(_rows_of(share, k) for share in shares)) if shares else 1


def _rows_of(share: Fraction, k: int) -> int:
    return share.denominator // math.gcd(share.denominator, k)


def _is_mean_of_answers(metric: str) -> bool:
    return variable(metric) == "acc" and statistic(metric).startswith("mean@")


def _is_share(value: float, answers: int, rounded: bool) -> bool:
    if not 0 <= value <= 1:
        return False
    exact = value * answers
    tolerance = answers * (5.1e-4 if rounded else 1e-6)
    return math.isclose(exact, round(exact), abs_tol=tolerance, rel_tol=0)
