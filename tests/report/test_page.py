"""The page: it says what compare says, needs nothing else, and shows what others wrote as text."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.compare import compare
from rlx.compare.registered_answer import RegisteredResult, RegisteredRun
from rlx.evidence import VerdictStatus
from rlx.model import Finding, RunState, Severity
from rlx.report import Report, html
from tests.registrations import ASKED
from tests.report.samples import CONTROL, GLOBAL, published, recorded, report_of, three_arms, treated

NO_CONTENT = {"meta", "br", "link", "img", "input", "hr"}
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


class Page(HTMLParser):
    """Elements with their attributes, the text below each kind of element, and whether all were closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in NO_CONTENT:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open[-1:] != ["style"]:
            self.texts.append((self.open[-1] if self.open else "", data))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(text for _, text in self.texts).split())


def page_of(report: Report) -> Page:
    page = Page(html(report))
    assert page.open == []
    return page


def section(page: str, id: str) -> str:
    """Return the text of one section of a page; "" where it has none."""
    _, start, rest = page.partition(f'<section id="{id}"')
    return Page(start + rest.partition("</section>")[0] + "</section>").text if start else ""


def head(page: Page) -> tuple[str, str]:
    """Return the state that the head of a page names, as its class, and its sentence."""
    (state,) = [each["class"] for each in page.named("p") if (each.get("class") or "").startswith("status ")]
    before, after = page.text.index(" Skip to the report "), page.text.index(" · ")
    return str(state).removeprefix("status "), page.text[before:after]


def test_summary_says_the_sentences_of_compare() -> None:
    report = three_arms()
    assert report.comparison is not None
    text = page_of(report).text
    sentences = [sentence for contrast in report.comparison.contrasts for sentence in contrast.sentences]
    assert len(sentences) == 5
    for sentence in (*sentences, *(run.verdict.sentence.partition(": ")[2] for run in report.runs)):
        assert sentence in text


def test_the_word_of_a_verdict_is_said_once() -> None:
    text = page_of(three_arms()).text
    assert "✓ valid" in text
    assert not re.search(r"\b(valid|invalid|unverified|incomplete)\W+\1:", text)


def test_struck_numbers_carry_the_word_and_stand_nowhere_without() -> None:
    page = page_of(three_arms())
    assert ("s", "70.58 %") in page.texts
    outside = [text for tag, text in page.texts if "70.58" in text and tag not in ("s", "tspan", "desc")]
    assert outside == []
    assert ("span", "(invalid)") in page.texts
    assert head(page)[0] == "invalid"


@pytest.mark.parametrize(
    ("status", "state", "shown"),
    [
        (VerdictStatus.VALID, RunState.FINISHED, "limited"),
        (VerdictStatus.UNVERIFIED, RunState.FINISHED, "unverified"),
        (VerdictStatus.INCOMPLETE, RunState.RUNNING, "incomplete"),
        (VerdictStatus.INVALID, RunState.RUNNING, "invalid"),
    ],
)
def test_the_head_says_what_may_be_done_with_the_numbers(
    status: VerdictStatus, state: RunState, shown: str, wording: SnapshotAssertion
) -> None:
    treatment = treated("aqn", GLOBAL, status=status)
    page = page_of(report_of(published("baseline", CONTROL), replace(treatment, state=state)))
    assert head(page)[0] == shown
    assert head(page)[1] == wording


def test_nothing_is_asked_of_a_network() -> None:
    page = page_of(three_arms())
    policies = [each["content"] for each in page.named("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"]
    assert not {"script", "link", "img", "iframe", "object", "form"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not {"src", "srcset", "action", "style", "xlink:href"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert not re.search(r"url\(|@import", html(three_arms()))


def test_it_can_be_read_without_seeing_it() -> None:
    page = page_of(three_arms())
    assert page.named("html") == [{"lang": "en"}]
    tags = [tag for tag, _ in page.elements]
    assert all(tags.count(landmark) == 1 for landmark in ("header", "nav", "main", "footer", "h1"))
    assert all(heading["scope"] in ("col", "row") for heading in page.named("th"))
    assert tags.count("caption") == tags.count("table")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for reference in (attributes.get("aria-labelledby") or "").split():
            assert reference in ids
        if (href := attributes.get("href")) is not None:
            assert href.removeprefix("#") in ids
    drawings = page.named("svg")
    assert len(drawings) == 2 and all(drawing["aria-labelledby"] for drawing in drawings)


def test_evidence_of_a_recorded_run(wording: SnapshotAssertion) -> None:
    control, aqn = recorded("tiny-baseline", "baseline"), recorded("tiny-aqn", "aqn")
    text = page_of(report_of(control, aqn)).text
    assert control.evidence.totals.validation_rows == 100
    assert "5-8 rollout 0.05 0.05 5" in text
    assert "0, 5, 10, 15, 20 validation 0 0 0" in text
    assert "aqn-vm-6215.jsonl" in text
    assert section(html(report_of(control, aqn)), "verdicts") == wording
    assert "python" in text


def test_records_that_are_not_as_planned_are_marked() -> None:
    run = recorded("sabotage-constant-sigma", "aqn")
    page = page_of(report_of(recorded("tiny-baseline", "baseline"), run))
    assert run.verdict.status is VerdictStatus.INVALID
    assert "5-6 rollout 0.0005 ≠ 0.05" in page.text
    assert page.text.count("≠") == 2  # the row, and the caption that explains the sign
    assert any(each.get("class") == "unexpected" for each in page.named("tr"))


def test_runs_without_a_metric_still_get_their_page() -> None:
    run = recorded("failed-missing-data", "baseline")
    page = page_of(Report([run], None, "today", "made by rlx 0", problem="no-metric"))
    assert "no-metric" in page.text
    assert run.verdict.sentence.partition(": ")[2] in page.text
    assert not page.named("svg")


def test_one_run_alone() -> None:
    text = page_of(report_of(published("baseline", CONTROL))).text
    assert "gsm8k: baseline" in text and "against baseline" not in text


def test_what_others_wrote_is_text() -> None:
    hostile = published(HOSTILE, GLOBAL, recipe={HOSTILE: HOSTILE}, provenance={"packages": {HOSTILE: HOSTILE}})
    finding = Finding("RLX801", Severity.ERROR, HOSTILE, HOSTILE, where=HOSTILE)
    hostile = replace(hostile, verdict=replace(hostile.verdict, findings=(finding,), sentence=HOSTILE))
    page = page_of(report_of(published("baseline", CONTROL, metric=METRIC), replace(hostile)))
    assert not {"script", "img"} & {tag for tag, _ in page.elements}
    assert "<script>alert(1)</script>" in page.text


METRIC = "val-core/gsm8k/acc/mean@1"


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.text(max_size=60))
def test_any_text_leaves_the_page_whole(text: str) -> None:
    run = published("baseline", CONTROL, recipe={"x": text})
    run = replace(run, verdict=replace(run.verdict, sentence=f"valid: {text}"))
    content = html(report_of(run, published(f"a{text}", GLOBAL)))
    assert Page(content).open == []
    content.encode()
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", content)


def test_a_page_of_huge_names_stays_small() -> None:
    report = report_of(published("baseline", CONTROL), published("x" * 200_000, GLOBAL))
    assert len(html(report)) < 1_000_000


def test_several_seeds_are_one_curve_and_one_sentence(wording: SnapshotAssertion) -> None:
    control = [published("baseline", {0: 100, 10: right}, seed=seed) for seed, right in ((1, 900), (2, 910), (3, 935))]
    differs: dict[str, Any] = {"recipe": {"aqn": {}}, "treatment": ("aqn",)}
    pairs = ((1, 930), (2, 921), (3, 955))
    treatment = [published("aqn", {0: 100, 10: right}, seed=seed, **differs) for seed, right in pairs]
    comparison = compare(control, [treatment])
    page = page_of(Report([*control, *treatment], comparison, "today", "made by rlx 0"))
    assert comparison.contrasts[0].sentences[0] in page.text
    assert head(page)[1] == wording
    assert "95 % intervals over 3 seeds (Student's t)" in page.text
    assert [f"run-{number}" for number in range(1, 7)] == [each["id"] for each in page.named("article")]
    assert [text for tag, text in page.texts if tag == "caption"] == wording
    assert all(f"{100 * right / 1319:.2f} %" in page.text for right in (900, 910, 935, 930, 921, 955))


def test_many_arms_keep_to_the_window() -> None:
    arms = [published(f"arm{number}", GLOBAL, recipe={"lr": number}, treatment=("lr",)) for number in range(40)]
    shown = html(report_of(published("baseline", CONTROL), *arms))
    assert "step 116 (and 29 more)" in shown
    assert "arm39: 68.76 %" in shown


def test_when_runs_reached_a_value_is_struck_where_they_are_no_result(wording: SnapshotAssertion) -> None:
    report = replace(three_arms(), reach=0.66)
    page = page_of(report)
    assert section(html(report), "speed") == wording
    assert "baseline 40 – aqn 100 – epoch-aware 60 (invalid) –" in page.text
    assert ("s", "60") in page.texts


def test_an_arm_of_several_seeds_has_a_median_and_how_many_got_there(wording: SnapshotAssertion) -> None:
    runs = [published("baseline", CONTROL, seed=1), published("baseline", GLOBAL, seed=2)]
    comparison = compare(runs, [])
    text = page_of(Report(runs, comparison, "today", "made by rlx 0", reach=0.66)).text
    assert "2 of 2" in text
    unreached = Report(runs, comparison, "today", "rlx 0", reach=0.99)
    assert "0 of 2" in page_of(unreached).text and section(html(unreached), "speed") == wording


def test_registered_secondary_values_are_shown_and_said_to_decide_nothing(wording: SnapshotAssertion) -> None:
    report = three_arms()
    assert report.comparison is not None
    metric = report.comparison.metric
    asked = replace(ASKED, metric=metric, control="baseline", arms=(), secondary=("auc",))
    runs = tuple(RegisteredRun(run.arm, run.seed, run.run_id, {METRIC: 0.6}) for run in report.runs[:1])
    known = replace(report, comparison=replace(report.comparison, registered=RegisteredResult(asked, runs)))
    text = page_of(known).text
    values = "0.61442 0.6144 to 0.6144, 1 of 1 runs"
    assert values in text and values not in page_of(report).text
    assert section(html(known), "differences") == wording
