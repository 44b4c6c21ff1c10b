"""The sentences of a comparison. Words follow numbers: nothing here decides what the numbers do not."""

from __future__ import annotations

from rlx.compare.proportions import ALPHA, TwoProportions
from rlx.compare.values import Contrast, Pair
from rlx.evidence import VerdictStatus


def sentences(pair: Pair, contrast: Contrast, is_share: bool, treatments_tested: int) -> tuple[str, ...]:
    """What may be said of one treatment: the numbers, what they mean, and what one seed per arm leaves open."""
    seed = f"one seed per arm: nothing follows about the treatment ({contrast.treatment})"
    if not contrast.reportable:
        return (f"{'interim' if _only_unfinished(pair, contrast) else 'no result'}: {contrast.no_test}", seed)
    numbers = numbers_sentence(pair, contrast, is_share)
    if contrast.test is None or contrast.p_value is None:
        return (f"{numbers}; no p-value: {contrast.no_test}", seed)
    words = test_sentence(contrast.test, contrast.p_value, treatments_tested)
    return (numbers, f"{_caveat(pair)}{words}", seed)


def numbers_sentence(pair: Pair, contrast: Contrast, is_share: bool) -> str:
    """`at step 116: +2.4 points, 95 % interval -1.1 to +5.9; n = 1319 from the plan and the log`."""
    text = f"at step {contrast.step}: {difference_text(contrast.difference, is_share)}"
    if contrast.test is None:
        return text
    interval = f"95 % interval {points(contrast.test.low)} to {points(contrast.test.high)}"
    return f"{text}, {interval}; n = {contrast.test.n} from {pair.items.source}"


def test_sentence(test: TwoProportions, p_value: float, treatments_tested: int = 1) -> str:
    """What the test says about two checkpoints. `p_value` is corrected for the number of treatments tested."""
    corrected = f" corrected for {treatments_tested} treatments" if treatments_tested > 1 else ""
    numbers = f"p {p_text(p_value)}{corrected}, n = {test.n}"
    if p_value < ALPHA:
        return f"these checkpoints differ on this test set ({points(test.difference)} points, {numbers})"
    return f"no significant difference between these two checkpoints ({numbers}; {power_text(test)})"


def power_text(test: TwoProportions) -> str:
    """What this n can show, and the n that the observed difference would take."""
    if test.detectable >= 1:
        return "so few items show no difference at all with 80 % power"
    seen = f"{100 * test.detectable:.1f} points would be seen with 80 % power"
    if test.items_needed is None:
        return seen
    return f"{seen}, {100 * abs(test.difference):.1f} with {test.items_needed} items"


def difference_text(difference: float | None, is_share: bool) -> str:
    if difference is None:
        return ""
    return f"{points(difference)} points" if is_share else f"{difference:+.4g}"


def points(fraction: float) -> str:
    """0.0242 as +2.4: a difference of shares in points, with its sign."""
    return f"{100 * fraction:+.1f}"


def p_text(p_value: float) -> str:
    """`= 0.18`; as many digits as it takes to stand on the right side of the threshold."""
    if p_value < 0.0001:
        return "< 0.0001"
    texts = (f"{p_value:.{digits}g}" for digits in (2, 3, 4, 6))
    return "= " + next((text for text in texts if (float(text) < ALPHA) == (p_value < ALPHA)), repr(p_value))


def _only_unfinished(pair: Pair, contrast: Contrast) -> bool:
    return not (pair.finished or contrast.errors or any(run.struck for run in pair.runs))


def _caveat(pair: Pair) -> str:
    unverified = [run.label for run in pair.runs if run.verdict.status is VerdictStatus.UNVERIFIED]
    return f"unverified ({', '.join(unverified)}): " if unverified else ""
