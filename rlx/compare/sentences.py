"""The sentences of a comparison. Words follow numbers: nothing here decides what the numbers do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlx.compare.comparison_values import Contrast, Pair
from rlx.compare.error_rates import ALPHA
from rlx.compare.factors import credited, listed
from rlx.compare.findings import one_seed_words
from rlx.compare.statistic import Statistic
from rlx.compare.unit import Unit
from rlx.evidence.metrics import is_validation
from rlx.evidence.verdict import counted

_NAMED = 4


def sentences(pair: Pair, contrast: Contrast, is_share: bool, treatments_tested: int) -> tuple[str, ...]:
    """Say what may be said of one treatment: the numbers, what they mean, and what one seed of an arm leaves open."""
    said = (*_sentences(pair, contrast, Unit(is_share), treatments_tested), *together(pair))
    return said if pair.has_seeds else (*said, one_seed_words(pair))


def _sentences(pair: Pair, contrast: Contrast, unit: Unit, treatments_tested: int) -> tuple[str, ...]:
    if not contrast.is_result(*pair.arms):
        return (f"{'interim' if _only_unfinished(pair, contrast) else 'no result'}: {contrast.no_test}",)
    caveat = unverified_words(pair.unverified)
    numbers = tuple(f"{caveat}{words}" for words in numbers_sentences(pair, contrast, unit))
    later = tuple(later_steps(pair))
    if contrast.test is None or contrast.p_value is None:
        return (f"{numbers[0]}; no p-value: {contrast.no_test}", *later)
    return (
        *numbers,
        *later,
        f"{caveat}{test_sentence(pair, contrast.test, contrast.p_value, unit, treatments_tested)}",
    )


def together(pair: Pair) -> Iterator[str]:
    """Name all factors of a treatment that has several: no test tells which of them a difference is due to."""
    if pair.measure.systems:
        found = counted(len(pair.differences), "difference")
        yield f"whole systems are compared, with {found}: no one of them is credited"
    elif len(pair.factors) > 1:
        yield (
            f"{pair.treatment.label} differs from {pair.control.label} in {len(pair.factors)} factors by declaration: "
            f"{listed(pair.factors)}; a difference belongs to all of them together"
        )


def numbers_sentences(pair: Pair, contrast: Contrast, unit: Unit) -> tuple[str, ...]:
    """`at step 116: +2.4 points, 95 % interval -1.1 to +5.9; n = 1319 from the plan and the log`.

    A test of two checkpoints has a sentence of its own where an arm has more runs than the one that is tested.
    """
    text = f"at step {contrast.step}: {'' if contrast.difference is None else unit.change(contrast.difference)}"
    test = contrast.test
    if len(pair.runs) == 2:
        return (f"{text}, {interval_text(pair, test, unit)}" if test else text,)
    means = f"{text} between the means of {runs_text(pair)}"
    if test is None or test.is_of_arms:
        return (f"{means}, {interval_text(pair, test, unit)}" if test else means,)
    two = " and ".join(run.label for run in pair.checkpoints)
    return means, f"{two}: {unit.change(test.difference)}, {interval_text(pair, test, unit)}"


def later_steps(pair: Pair) -> Iterator[str]:
    """Name who has values after the step that is compared: that one did not choose the end of its training."""
    later = [run for run in pair.runs if run.final and pair.step is not None and run.final.step > pair.step]
    if later:
        ends = ", ".join(f"{run.label} has them up to step {run.final.step}" for run in later if run.final)
        yield f"later values are not compared: {ends}"


def interval_text(pair: Pair, test: Statistic, unit: Unit) -> str:
    """The interval, and what the test counted with."""
    return f"95 % interval {unit.signed(test.low)} to {unit.signed(test.high)}{test.counted_words(pair.items)}"


def test_sentence(pair: Pair, test: Statistic, p_value: float, unit: Unit, treatments_tested: int = 1) -> str:
    """Say what the test found on two checkpoints or arms. `p_value` is corrected for the treatments tested."""
    corrected = f" corrected for {treatments_tested} treatments" if treatments_tested > 1 else ""
    numbers = f"p {p_text(p_value)}{corrected}, {test.sample_words(runs_text(pair))}"
    if p_value < ALPHA:
        return f"{_differ(pair, test)} ({unit.change(test.difference)}, {numbers})"
    where = "" if is_validation(pair.metric) else f" {_where(pair)}"
    return f"no significant difference between {_compared(pair, test)}{where} ({numbers}; {power_text(test, unit)})"


def power_text(test: Statistic, unit: Unit) -> str:
    """Say what these items or runs can show, and how many of them the observed difference would take."""
    if unit.in_points and test.detectable >= 1:
        return f"so few {test.unit_of_sample} show no difference at all with 80 % power"
    seen = f"{unit.size(test.detectable)} would be seen with 80 % power"
    needed = test.needed_words()
    return f"{seen}, {unit.bare(test.difference)} with {needed}" if needed else seen


def runs_text(pair: Pair) -> str:
    """`3 and 3 seeds`, `2 seeds and 1 seed`; `3 and 3 runs` where some are repeats of one seed."""
    control, treatment = (len(arm.runs) for arm in pair.arms)
    unit = "run" if any(arm.repeats for arm in pair.arms) else "seed"
    if 1 in (control, treatment):
        return f"{counted(control, unit)} and {counted(treatment, unit)}"
    return f"{control} and {treatment} {unit}s"


def p_text(p_value: float) -> str:
    """`= 0.18`; as many digits as it takes to stand on the right side of the threshold."""
    if p_value < 0.0001:
        return "< 0.0001"
    texts = (f"{p_value:.{digits}g}" for digits in (2, 3, 4, 6))
    return "= " + next((text for text in texts if (float(text) < ALPHA) == (p_value < ALPHA)), repr(p_value))


def _differ(pair: Pair, test: Statistic) -> str:
    if test.is_of_arms:
        return f"{credited(pair.treatment.label, pair.factors)} differs from {pair.control.label} {_where(pair)}"
    return f"these checkpoints differ {_where(pair)}"


def _where(pair: Pair) -> str:
    """Name what a difference of this metric is about."""
    if is_validation(pair.metric):
        return "on this test set"
    return f"in {pair.metric}, which says nothing of held-out items"


def _compared(pair: Pair, test: Statistic) -> str:
    if test.is_of_arms:
        return f"{pair.control.label} and {credited(pair.treatment.label, pair.factors)}"
    return "these two checkpoints"


def _only_unfinished(pair: Pair, contrast: Contrast) -> bool:
    return not (pair.finished or contrast.errors or any(run.struck for run in pair.runs))


def unverified_words(names: Sequence[str]) -> str:
    """`unverified (aqn-s1, aqn-s2): `, the words before whatever rests on unverified runs; "" without any."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"unverified ({', '.join(names[:_NAMED])}{more}): " if names else ""
