"""Training curves side by side: one look for all, what is no result looks like none, what is missing is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.evidence import JudgedRun, VerdictStatus
from rlx.report import Multiples, Report, drawn_arms, html, multiples, multiples_scene
from rlx.report.multiples import SMALL, panel_scene
from rlx.report.shapes import DrawnText, FilledArea, Mark, Stroke
from tests.compare.builders import RunBuilder
from tests.report.samples import recorded, report_of
from tests.report.test_page import section

HOSTILE = '"><script>alert(1)</script>'
ENTROPY, LENGTH = "actor/entropy", "response_length/mean"


def run(arm: str, seed: int, values: Mapping[int, float], name: str = ENTROPY, **changes: object) -> JudgedRun:
    built = RunBuilder(arm, metrics={step: {name: value} for step, value in values.items()}, seed=seed, **changes)
    return replace(built.judged(), run_id=f"{arm}-{seed}")


def two_arms(**changes: object) -> Multiples:
    control = [run("baseline", seed, {1: 0.1 * seed, 2: 0.2, 3: 0.3}) for seed in (1, 2, 3)]
    treated = [run("aqn", seed, {1: 0.5, 2: 0.6 * seed, 3: 0.3}, **changes) for seed in (1, 2, 3)]
    return multiples(drawn_arms(None, [*control, *treated]))


def test_each_arm_has_a_line_and_a_band_over_its_seeds(wording: SnapshotAssertion) -> None:
    found = two_arms()
    (drawn,) = found.pictures
    shapes = panel_scene(drawn).shapes
    assert [shape.ink for shape in shapes if isinstance(shape, FilledArea)] == ["s0", "s1"]
    assert [shape.ink for shape in shapes if isinstance(shape, Stroke) and shape.width == 2] == ["s0", "s1"]
    first = drawn.curves[0].points[0]
    assert (first.low, first.value, first.high) == (pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.3))
    assert found.notes == wording


def test_one_run_an_arm_has_no_band_and_no_word_about_bands(wording: SnapshotAssertion) -> None:
    found = multiples(drawn_arms(None, [run("baseline", 1, {1: 0.1, 2: 0.2})]))
    assert not [shape for shape in panel_scene(found.pictures[0]).shapes if isinstance(shape, FilledArea)]
    assert found.notes == wording


def test_an_arm_that_is_no_result_is_grey_and_dashed_without_a_band() -> None:
    (drawn,) = two_arms(status=VerdictStatus.INVALID).pictures
    shapes = panel_scene(drawn).shapes
    assert [shape.ink for shape in shapes if isinstance(shape, FilledArea)] == ["s0"]
    assert [shape.dash != "" for shape in shapes if isinstance(shape, Stroke) and shape.ink == "excluded"] == [True]
    assert drawn.curves[1].name == "aqn (invalid)"


def test_the_last_point_is_marked_and_not_all_of_many() -> None:
    found = multiples(drawn_arms(None, [run("baseline", 1, {step: float(step) for step in range(1, 101)})]))
    marks = [shape for shape in panel_scene(found.pictures[0]).shapes if isinstance(shape, Mark)]
    assert len(marks) == 6
    assert max(mark.at[0] for mark in marks) == pytest.approx(SMALL - 12)


def test_what_an_arm_lacks_is_said_by_its_name(wording: SnapshotAssertion) -> None:
    runs = [run("baseline", 1, {1: 0.1, 2: 0.2}), run("aqn", 1, {1: 3.0, 2: 4.0}, LENGTH)]
    notes = multiples(drawn_arms(None, runs)).notes
    assert any("baseline" in note for note in notes) and any("aqn" in note for note in notes)
    assert notes == wording


def test_a_seed_that_ended_early_is_said(wording: SnapshotAssertion) -> None:
    runs = [run("baseline", 1, {1: 0.1, 2: 0.2, 3: 0.3}), run("baseline", 2, {1: 0.1, 2: 0.2})]
    found = multiples(drawn_arms(None, runs))
    assert found.notes == wording
    assert [point.step for point in found.pictures[0].curves[0].points] == [1, 2]


@pytest.mark.parametrize(("metrics", "across"), [(1, 1), (4, 2), (5, 3)])
def test_all_of_them_in_one_drawing_lie_inside_it(metrics: int, across: int) -> None:
    row = {f"m{number}": 1.0 for number in range(metrics)}
    one = RunBuilder(metrics={1: row, 2: {name: 2.0 for name in row}}).judged()
    whole = multiples_scene(multiples(drawn_arms(None, [one]), ["m*"]))
    titles = [shape.at for shape in whole.shapes if isinstance(shape, DrawnText) and shape.bold]
    assert len({x for x, _ in titles}) == across
    corners = [xy for shape in whole.shapes if isinstance(shape, Stroke) for xy in shape.points]
    assert all(0 <= x <= whole.width and 0 <= y <= whole.height for x, y in corners)


def test_the_page_shows_them_as_exploratory_with_where_they_end(wording: SnapshotAssertion) -> None:
    page = html(report_of(recorded("tiny-baseline", "baseline"), recorded("probed-aqn", "aqn")))
    training = page[page.index('<section id="training"') : page.index('<section id="verdicts"')]
    assert training.count("<svg") == 7 + 2
    assert section(page, "training") == wording


def test_runs_that_cannot_be_compared_have_training_curves() -> None:
    runs = [run("baseline", 1, {1: 0.1, 2: 0.2})]
    assert '<section id="training"' in html(Report(runs, None, "today", "rlx 0", problem="no-metric"))


def test_a_log_with_nothing_to_draw_has_no_section() -> None:
    page = html(Report([run("baseline", 1, {1: 0.1})], None, "today", "made by rlx 0"))
    assert '<section id="training"' not in page


def test_a_hostile_name_of_a_metric_stays_text() -> None:
    runs = [run("baseline", 1, {1: 0.1, 2: 0.2}, HOSTILE)]
    page = html(Report(runs, None, "today", "made by rlx 0", curves=["*script*"]))
    assert "<script" not in page and "&lt;script&gt;" in page
