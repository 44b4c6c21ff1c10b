"""The answer to a registered question: kinds, intervals that match the test, corrections, and what allows no test."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.compare.registered_answer import AnswerKind, ClaimResult, answer, as_family
from rlx.compare.registered_design import Claim, Design, MultiplicityCorrection, corrected

BETTER = Design()
NOT_WORSE = Design(Claim.NON_INFERIORITY, 2.0)
ALIKE = Design(Claim.EQUIVALENCE, 2.0)
CONTROL = [0.70, 0.71, 0.69, 0.705, 0.695]
share = st.integers(800, 1000).map(lambda right: right / 1319)
arm = st.lists(share, min_size=4, max_size=4, unique=True)


def shifted(points: float) -> list[float]:
    return [value + points / 100 for value in CONTROL]


def only(design: Design, treatment: list[float], control: list[float] = CONTROL) -> ClaimResult:
    (found,) = answer(design, control, treatment)
    return found


@pytest.mark.parametrize(
    ("design", "points", "kind"),
    [
        (BETTER, 3.0, AnswerKind.YES),
        (BETTER, -3.0, AnswerKind.NO),
        (BETTER, 0.3, AnswerKind.CANNOT_TELL),
        (Design(higher_is_better=False), -3.0, AnswerKind.YES),
        (NOT_WORSE, 0.0, AnswerKind.YES),
        (NOT_WORSE, -4.0, AnswerKind.NO),
        (NOT_WORSE, -2.0, AnswerKind.CANNOT_TELL),
        (ALIKE, 0.0, AnswerKind.EQUIVALENT),
        (ALIKE, 4.0, AnswerKind.NO),
        (ALIKE, -4.0, AnswerKind.NO),
        (ALIKE, 1.5, AnswerKind.CANNOT_TELL),
    ],
)
def test_kinds(design: Design, points: float, kind: AnswerKind) -> None:
    found = only(design, shifted(points))
    assert found.kind is kind
    assert found.estimate == pytest.approx(points)
    assert (found.control_runs, found.treatment_runs) == (5, 5)


def test_the_numbers_of_superiority_are_those_of_welch(wording: SnapshotAssertion) -> None:
    found = only(BETTER, shifted(1.0))
    reference = scipy.stats.ttest_ind(shifted(1.0), CONTROL, equal_var=False)
    bounds = reference.confidence_interval()
    assert found.p_value == found.p_contrary == pytest.approx(reference.pvalue)
    assert (found.low, found.high) == pytest.approx((100 * bounds.low, 100 * bounds.high))
    assert found.level == 0.95 and "8.0" in found.method and found.method == wording
    assert found.sds == pytest.approx((0.7906, 0.7906), abs=1e-4)


def test_the_numbers_of_a_margin_are_those_of_one_sided_tests(wording: SnapshotAssertion) -> None:
    less = scipy.stats.ttest_ind(
        shifted(1.0), [value - 0.02 for value in CONTROL], equal_var=False, alternative="greater"
    )
    more = scipy.stats.ttest_ind(shifted(1.0), [value + 0.02 for value in CONTROL], equal_var=False, alternative="less")
    assert only(NOT_WORSE, shifted(1.0)).p_value == pytest.approx(less.pvalue)
    assert only(ALIKE, shifted(1.0)).p_value == pytest.approx(max(less.pvalue, more.pvalue))
    assert only(ALIKE, shifted(1.0)).level == pytest.approx(0.90)
    assert "TOST" in only(ALIKE, shifted(1.0)).method and only(ALIKE, shifted(1.0)).method == wording


@settings(deadline=None, max_examples=40)
@given(arm, arm, arm, st.sampled_from(Claim), st.sampled_from(MultiplicityCorrection), st.booleans(), st.integers(1, 2))
def test_interval_and_answer_agree(
    control: list[float],
    one: list[float],
    other: list[float],
    claim: Claim,
    several: MultiplicityCorrection,
    blocked: bool,
    treatments: int,
) -> None:
    """Holm's intervals are each for itself, so that they only ever say more than its p-values."""
    design = Design(claim, None if claim is Claim.SUPERIORITY else 2.5, several, blocked)
    for found in answer(design, control, *[one, other][:treatments]):
        if found.low is None or found.high is None or found.p_value is None:
            continue
        margin = design.margin or 0.0
        shown = {
            Claim.SUPERIORITY: found.low > 0 or found.high < 0,
            Claim.NON_INFERIORITY: found.low > -margin,
            Claim.EQUIVALENCE: found.low > -margin and found.high < margin,
        }[claim]
        assert found.low <= found.estimate <= found.high
        if treatments == 1 or several is MultiplicityCorrection.DUNNETT:
            assert shown == (found.p_value < 0.05)
        else:
            assert shown or found.p_value >= 0.05


def test_dunnett_is_scipys(wording: SnapshotAssertion) -> None:
    control = [7.40, 8.50, 7.20, 8.24, 9.84, 8.32]
    drugs = [9.76, 8.80, 7.68, 9.36], [12.80, 9.68, 12.16, 9.20, 10.55]
    reference = scipy.stats.dunnett(*drugs, control=control, rng=1)
    bounds = reference.confidence_interval(0.95)
    found = answer(Design(scale=1.0), control, *drugs)
    assert [each.p_value for each in found] == pytest.approx(list(reference.pvalue), abs=2e-4)
    assert [each.low for each in found] == pytest.approx(list(bounds.low), abs=0.01)
    assert [each.high for each in found] == pytest.approx(list(bounds.high), abs=0.01)
    assert "Dunnett" in found[0].method and "12.0" in found[0].method and found[0].method == wording


def test_holm_corrects_welchs_p_values() -> None:
    treatments = shifted(1.0), shifted(1.5), shifted(0.5)
    raw = [only(BETTER, arm).p_value for arm in treatments]
    found = answer(Design(several=MultiplicityCorrection.HOLM), CONTROL, *treatments)
    steps = [raw[1] * 3, raw[0] * 2, raw[2]]  # type: ignore[operator]
    assert [each.p_value for each in found] == pytest.approx([steps[1], steps[0], max(steps)], rel=1e-6)
    assert found[0].low == only(BETTER, treatments[0]).low
    assert "Holm over 3 treatments" in found[0].method


def test_blocks_take_out_what_they_share() -> None:
    hosts = np.array([0.0, 0.05, -0.04, 0.02, 0.01])
    control, treatment = np.array(CONTROL) + hosts, np.array([0.722, 0.729, 0.711, 0.723, 0.716]) + hosts
    assert only(BETTER, list(treatment), list(control)).kind is AnswerKind.CANNOT_TELL
    found = only(Design(blocked=True), list(treatment), list(control))
    assert found.kind is AnswerKind.YES
    assert found.p_value == pytest.approx(scipy.stats.ttest_rel(treatment, control).pvalue)
    with pytest.raises(ValueError, match="blocks"):
        answer(Design(blocked=True), CONTROL, CONTROL[:4])


def test_dunnett_within_blocks_is_the_paired_t_for_one_treatment_and_the_residual_for_two() -> None:
    rng = np.random.default_rng(1)
    block, arms = rng.normal(size=6), rng.normal(size=(3, 6))
    found = answer(Design(blocked=True, scale=1.0), *(list(each + block) for each in arms))
    values = arms + block
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    error = math.sqrt((rest**2).sum() / 10 * 2 / 6)
    half = found[0].high - found[0].estimate  # type: ignore[operator]
    assert half / error == pytest.approx(2.57, abs=0.005), "the published limit for 10 degrees of freedom"


def test_too_few_runs_or_no_spread_allow_no_test() -> None:
    for control, treatment in (([0.7], [0.8, 0.9]), ([0.7, 0.7], [0.8, 0.8])):
        found = only(BETTER, treatment, control)
        assert (found.kind, found.p_value, found.low) == (AnswerKind.CANNOT_TELL, None, None)
        assert found.method.startswith("no test: ")
    constant = only(Design(blocked=True), [value + 0.1 for value in CONTROL])
    assert (constant.kind, constant.p_value) == (AnswerKind.CANNOT_TELL, None), "blocks that differ by rounding alone"


def test_an_unlike_spread_is_said_and_changes_nothing(wording: SnapshotAssertion) -> None:
    wide = [0.70, 0.78, 0.62, 0.74, 0.66]
    found = only(BETTER, wide)
    assert "0.0014" in found.spread and found.spread == wording
    assert found.method.startswith("Welch's")
    assert only(BETTER, shifted(1.0)).spread == ""


def test_a_family_of_benchmarks_is_corrected() -> None:
    answers = [only(BETTER, shifted(points)) for points in (1.2, 0.1, 3.0)]
    assert answers[0].kind is AnswerKind.YES
    family = as_family([*answers, only(BETTER, [0.8])])
    assert [each.kind for each in family] == [
        AnswerKind.CANNOT_TELL,
        AnswerKind.CANNOT_TELL,
        AnswerKind.YES,
        AnswerKind.CANNOT_TELL,
    ]
    assert family[0].p_value == pytest.approx(2 * answers[0].p_value)  # type: ignore[operator]
    assert family[3].p_value is None


@pytest.mark.parametrize(
    ("claim", "margin"), [(Claim.SUPERIORITY, 1.0), (Claim.EQUIVALENCE, None), (Claim.EQUIVALENCE, 0.0)]
)
def test_designs_that_mean_nothing_are_refused(claim: Claim, margin: float | None) -> None:
    with pytest.raises(ValueError, match="margin"):
        Design(claim, margin)


def test_correction_of_arrays_is_that_of_numbers() -> None:
    rows = np.random.default_rng(2).random((3, 50)) / 10
    together = np.stack(corrected(list(rows)))
    for column in range(50):
        alone = corrected(list(rows[:, column]))
        assert list(together[:, column]) == pytest.approx([float(each) for each in alone])
