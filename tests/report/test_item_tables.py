"""Items over the seeds on the page: which turned, what was answered, how hard they are, pass@k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from rlx.compare import compare
from rlx.evidence import ItemScores, ItemTexts, VerdictStatus
from rlx.report import Report, html, items_to_read
from tests.compare.builders import LR_CONTROL, LR_TREATMENT, METRIC, arm
from tests.report.test_page import Page, section

HOSTILE = "<script>alert(1)</script>"
CONTROL: Sequence[Mapping[str, float]] = ({"a": 1, "b": 1, "c": 0, "d": 0}, {"a": 1, "b": 0, "c": 1, "d": 0})
TREATMENT: Sequence[Mapping[str, float]] = ({"a": 0, "b": 1, "c": 1, "d": 0}, {"a": 0, "b": 0, "c": 1, "d": 1})


def report(metric: str = METRIC, copies: int = 1, status: VerdictStatus = VerdictStatus.VALID) -> Report:
    """Two seeds an arm, half of four items right with every one of them."""
    arms = [
        arm(replace(builder, metric=metric), [sum(each.values()) / 4 for each in answers], status=status)
        for builder, answers in ((LR_CONTROL, CONTROL), (LR_TREATMENT, TREATMENT))
    ]
    runs = [run for each in arms for run in each]
    scores = {
        run.run_id: ItemScores(
            6,
            {item: (float(score),) * copies for item, score in answers.items()},
            "gsm8k",
            prompts={item: f"what is {item}?" for item in answers},
        )
        for run, answers in zip(runs, (*CONTROL, *TREATMENT), strict=True)
    }
    texts = {run.run_id: {"a": ItemTexts("4", (f"{HOSTILE} of {run.arm} {run.seed}",) * copies)} for run in runs}
    comparison = compare(arms[0], [arms[1]], metric, {6: scores})
    return Report(runs, comparison, "today", "made by rlx 0", items={6: scores}, texts=texts)


def text_of(shown: Report) -> str:
    page = Page(html(shown))
    assert page.open == []
    return page.text


def test_items_that_turned_most_often_in_one_direction_stand_first(wording: SnapshotAssertion) -> None:
    text = text_of(report())
    assert section(html(report()), "items") == wording
    assert "what is a? 1 0 0, 2" in text
    assert text.index("what is a?") < text.index("what is c?")


def test_the_answers_stand_side_by_side_and_stay_text() -> None:
    shown = report()
    text = text_of(shown)
    assert f"{HOSTILE} of baseline 1 score 1 {HOSTILE} of fast 1 score 0" in text
    assert HOSTILE not in html(shown)


def test_of_several_answers_the_first_is_shown_and_the_mean_is_said(wording: SnapshotAssertion) -> None:
    text = section(html(report("val-core/gsm8k/acc/mean@3", 3)), "items")
    assert text.count(f"{HOSTILE} of fast 1") == 1
    assert text == wording


def test_the_effect_by_difficulty_names_the_runs_that_say_how_hard_an_item_is() -> None:
    text = text_of(report())
    assert "1 of the 2" in text
    for row in ("2 0.5 0.625 +12.5 points +0.0 to +25.0", "2 0.5 0.375 -12.5 points -25.0 to +0.0"):
        assert row in text


def test_pass_at_k_needs_several_answers() -> None:
    assert "pass@" not in text_of(report())
    text = text_of(report("val-core/gsm8k/acc/mean@3", 3))
    assert "pass@1 50.0 % 50.0 to 50.0" in text and "pass@3" in text


def test_the_items_to_read_are_those_that_turned() -> None:
    shown = report()
    assert shown.comparison is not None
    ((step, ids, items),) = items_to_read(shown.comparison, shown.runs, shown.items)
    assert (step, set(ids), items) == (6, {run.run_id for run in shown.runs}, {"a", "c", "d"})


def test_runs_that_are_no_result_have_no_items() -> None:
    assert section(html(report()), "items") and not section(html(report(status=VerdictStatus.INVALID)), "items")
