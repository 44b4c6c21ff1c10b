"""Items over seeds: which turn most often, how the effect goes with their difficulty, pass@k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from random import Random
from statistics import fmean

import pytest

from rlx.compare import compare
from rlx.compare.item_effects import ArmItems, SeedItems, arm_items, by_difficulty, flips, pass_at_k, pass_curves
from rlx.evidence import ItemScores
from tests.compare.builders import LR_CONTROL, LR_TREATMENT, arm, only

Answers = Mapping[str, Sequence[float]]


def kept(answers: Answers, source: str | None = "gsm8k") -> ItemScores:
    prompts = {item: f"prompt of {item}" for item in answers}
    return ItemScores(6, {item: tuple(scores) for item, scores in answers.items()}, source, prompts=prompts)


def seed_of(seed: int, answers: Answers) -> SeedItems:
    scores = kept(answers)
    return SeedItems(f"run-{seed}", seed, scores, scores.means)


def items_of(control: Sequence[Answers], treatment: Sequence[Answers], first_seed: int = 1) -> ArmItems:
    left = tuple(seed_of(seed, each) for seed, each in enumerate(control, start=1))
    right = tuple(seed_of(seed, each) for seed, each in enumerate(treatment, start=first_seed))
    return ArmItems(6, tuple(sorted(control[0])), left, right)


def test_the_items_of_a_contrast_are_those_that_every_run_answered() -> None:
    control, treatment = arm(LR_CONTROL, [0.5, 0.6]), arm(LR_TREATMENT, [0.7, 0.8])
    comparison = compare(control, [treatment])
    scores = {run.run_id: kept({"a": [1.0], "b": [0.0]}) for run in (*control, *treatment)}
    scores[control[0].run_id] = kept({"a": [1.0], "c": [0.0]})
    found = arm_items(comparison, only(comparison), {6: scores}, data_sources=1)
    assert found is not None and found.items == ("a",)
    assert [run.seed for run in found.control] == [1, 2]
    del scores[treatment[1].run_id]
    assert arm_items(comparison, only(comparison), {6: scores}, data_sources=1) is None


def test_outputs_of_several_sources_that_do_not_name_theirs_are_left_alone() -> None:
    control, treatment = arm(LR_CONTROL, [0.5, 0.6]), arm(LR_TREATMENT, [0.7, 0.8])
    comparison = compare(control, [treatment])
    scores = {run.run_id: kept({"a": [1.0]}, source=None) for run in (*control, *treatment)}
    assert arm_items(comparison, only(comparison), {6: scores}, data_sources=2) is None
    assert arm_items(comparison, only(comparison), {6: scores}, data_sources=1) is not None


def test_what_turns_in_one_direction_comes_before_what_turns_both_ways() -> None:
    control = [{"luck": [1.0], "lost": [1.0], "same": [1.0]}, {"luck": [0.0], "lost": [1.0], "same": [1.0]}]
    treatment = [{"luck": [0.0], "lost": [0.0], "same": [1.0]}, {"luck": [1.0], "lost": [0.0], "same": [1.0]}]
    first, second = flips(items_of(control, treatment))
    assert (first.item, first.better, first.worse, first.control, first.treatment) == ("lost", 0, 2, 1.0, 0.0)
    assert (second.item, second.better, second.worse) == ("luck", 1, 1)
    assert first.prompt.endswith(" lost")


def test_runs_of_one_seed_are_held_against_each_other_else_in_their_order() -> None:
    control, treatment = [{"a": [1.0]}, {"a": [0.0]}], [{"a": [0.0]}, {"a": [0.0]}]
    assert len(items_of(control, treatment).pairs) == 2
    assert [(left.seed, right.seed) for left, right in items_of(control, treatment, 2).pairs] == [(2, 2)]
    assert [(left.seed, right.seed) for left, right in items_of(control, treatment, 7).pairs] == [(1, 7), (2, 8)]


def luck(random: Random, chances: Mapping[str, float], gain: float = 0.0) -> Answers:
    return {item: [float(random.random() < chance + gain)] for item, chance in chances.items()}


@pytest.mark.parametrize("seeds", [2, 5])
def test_equal_arms_show_no_effect_on_hard_items_nor_on_easy_ones(seeds: int) -> None:
    """Grouped by the same answers that the effect is of, the hard ones would gain tens of points."""
    random = Random(1)
    chances = {f"{number:04}": random.random() for number in range(3000)}
    control, treatment = ([luck(random, chances) for _ in range(seeds)] for _ in range(2))
    groups = by_difficulty(items_of(control, treatment))
    assert len(groups) == (2 if seeds == 2 else 3)
    assert all(abs(group.difference) < 0.02 for group in groups)
    naive = [item for item in chances if fmean(run[item][0] for run in control) <= 1 / 3]
    gain = fmean(treatment[0][item][0] for item in naive) - fmean(run[item][0] for run in control for item in naive)
    assert gain > 0.1


def test_a_gain_on_hard_items_is_seen_there() -> None:
    random = Random(2)
    chances = {f"{number:04}": 0.05 if number % 2 else 0.95 for number in range(2000)}
    control = [luck(random, chances) for _ in range(4)]
    better = {item: 0.55 if chance < 0.5 else 0.95 for item, chance in chances.items()}
    groups = by_difficulty(items_of(control, [luck(random, better) for _ in range(4)]))
    hard, easy = groups[0], groups[-1]
    assert hard.difference == pytest.approx(0.5, abs=0.04)
    assert easy.difference == pytest.approx(0.0, abs=0.04)
    assert sum(group.items for group in groups) == pytest.approx(2000)
    assert len(hard.differences) == 4


def test_one_run_of_the_control_cannot_say_how_hard_an_item_is() -> None:
    assert by_difficulty(items_of([{"a": [1.0]}], [{"a": [0.0]}])) == []


def test_scores_that_are_no_shares_have_no_thirds() -> None:
    assert by_difficulty(items_of([{"a": [-1.0]}, {"a": [1.0]}], [{"a": [1.0]}])) == []


@pytest.mark.parametrize(("answers", "right"), [(4, 0), (4, 1), (5, 3), (6, 6)])
def test_pass_at_k_is_the_share_of_draws_with_a_right_answer(answers: int, right: int) -> None:
    scores = [True] * right + [False] * (answers - right)
    for k in range(1, answers + 1):
        draws = [any(draw) for draw in combinations(scores, k)]
        assert len(draws) == comb(answers, k)
        assert pass_at_k(answers, right, k) == pytest.approx(fmean(draws))


def test_pass_at_more_answers_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="pass@3 of 2 answers"):
        pass_at_k(2, 1, 3)


def test_pass_curves_go_up_to_all_answers() -> None:
    control = [{"a": [1.0, 0.0, 0.0], "b": [0.0, 0.0, 0.0]}, {"a": [1.0, 1.0, 1.0], "b": [0.0, 0.0, 0.0]}]
    found = pass_curves(items_of(control, [{"a": [1.0, 1.0, 0.0], "b": [1.0, 0.0, 0.0]}]))
    assert list(found) == [1, 2, 3]
    assert found[1] == (pytest.approx((1 / 6, 0.5)), pytest.approx((0.5,)))
    assert found[3] == (pytest.approx((0.5, 0.5)), pytest.approx((1.0,)))


@pytest.mark.parametrize("scores", [[1.0], [0.5, 1.0], [-1.0, 1.0]])
def test_without_several_answers_that_are_right_or_wrong_there_is_no_pass_at_k(scores: list[float]) -> None:
    assert pass_curves(items_of([{"a": scores}], [{"a": scores}])) == {}
