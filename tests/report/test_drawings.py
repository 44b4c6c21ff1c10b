"""One drawing as SVG, PNG and text: what is no result looks like none, in each of them."""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.compare import compare
from rlx.errors import RlxError
from rlx.evidence import VerdictStatus
from rlx.model import RunState
from rlx.report import Picture, Report, picture, png_bytes, scene, svg_file, text_plot
from rlx.report.drawing import NARROW, WIDE
from rlx.report.picture import above
from rlx.report.shapes import DARK, LIGHT, DrawnText, FilledArea, Stroke, decades, round_ticks, tick_text
from tests.compare.builders import LR_CONTROL, LR_TREATMENT, arm
from tests.report.samples import CONTROL, GLOBAL, published, report_of, three_arms, treated

SVG = "{http://www.w3.org/2000/svg}"


def drawn(report: Report) -> Picture:
    assert report.comparison is not None
    return picture(report.comparison, report.runs)


def labels(shown: Picture, width: float = WIDE) -> list[str]:
    return [shape.text for shape in scene(shown, width).shapes if isinstance(shape, DrawnText)]


def plain(shown: Picture, width: int = 80) -> str:
    return "\n".join("".join(text for text, _ in line) for line in text_plot(shown, width))


def test_a_struck_arm_is_grey_dashed_without_band_and_named_with_its_word() -> None:
    shapes = scene(drawn(three_arms())).shapes
    struck = [shape for shape in shapes if isinstance(shape, Stroke) and shape.ink == "excluded" and shape.width == 2]
    assert struck and all(line.dash for line in struck)
    assert {shape.ink for shape in shapes if isinstance(shape, FilledArea)} == {"s0", "s1"}
    assert "epoch-aware (invalid)" in labels(drawn(three_arms()))
    assert "△ epoch-aware (invalid)" in plain(drawn(three_arms()))


@pytest.mark.parametrize(
    ("status", "state", "word"),
    [
        (VerdictStatus.UNVERIFIED, RunState.FINISHED, "unverified"),
        (VerdictStatus.INCOMPLETE, RunState.FAILED, "incomplete"),
        (VerdictStatus.INCOMPLETE, RunState.RUNNING, "running"),
    ],
)
def test_the_word_stands_beside_the_name(status: VerdictStatus, state: RunState, word: str) -> None:
    shown = drawn(report_of(published("baseline", CONTROL), published("aqn", GLOBAL, status=status, state=state)))
    assert f"aqn ({word})" in labels(shown)
    assert f"aqn ({word})" in plain(shown)
    interim = word == "running"
    assert shown.interim is interim
    assert any("interim" in label for label in labels(shown)) is interim
    assert ("interim" in plain(shown)) is interim


def test_bands_of_single_runs_are_wilson_intervals() -> None:
    shown = drawn(three_arms())
    assert shown.intervals == "bands: 95 % intervals over 1319 items (Wilson)"
    assert "thin lines: the runs" not in labels(shown)
    last = shown.curves[0].points[-1]
    # 899 of 1319, by the formula of Wilson (1927).
    assert (last.low, last.high) == (pytest.approx(0.6559, abs=5e-5), pytest.approx(0.7062, abs=5e-5))


def test_bands_of_several_seeds_are_students_intervals() -> None:
    control = [published("baseline", {0: 100, 10: right}, seed=seed) for seed, right in ((1, 900), (2, 910), (3, 935))]
    treatment = [published("aqn", {0: 100, 10: right}, seed=seed) for seed, right in ((1, 930), (2, 921), (3, 955))]
    comparison = compare(control, [treatment])
    shown = picture(comparison, [*control, *treatment])
    assert shown.intervals == "bands: 95 % intervals over 3 seeds (Student's t)"
    last = shown.curves[0].points[-1]
    # Mean 915 and standard deviation 18.0278 of the three; t(0.975, 2) = 4.30265.
    half = 4.30265 * 18.0278 / math.sqrt(3)
    assert last.value == pytest.approx(915 / 1319)
    assert last.high == pytest.approx((915 + half) / 1319, rel=1e-5)
    assert len(shown.curves[0].seeds) == 3
    assert "thin lines: the runs" in labels(shown)


def test_the_interval_of_a_share_ends_where_shares_end() -> None:
    arms = [arm(LR_CONTROL, [0.86, 0.96, 0.99]), arm(LR_TREATMENT, [0.02, 0.01, 0.09])]
    control, treatment = picture(compare(arms[0], [arms[1]]), [*arms[0], *arms[1]]).curves
    high, low = control.points[-1], treatment.points[-1]
    assert (high.high, low.low) == (1.0, 0.0)
    assert high.low is not None and high.low < 0.86


def test_equal_values_of_all_seeds_have_no_band_without_width() -> None:
    arms = [arm(LR_CONTROL, [0.6, 0.7]), arm(LR_TREATMENT, [0.6, 0.6])]
    control, treatment = picture(compare(arms[0], [arms[1]]), [*arms[0], *arms[1]]).curves
    assert [point.low is None for point in control.points] == [True, False]
    assert all(point.low is None for point in treatment.points)


def test_values_that_are_no_shares_have_no_band() -> None:
    runs = [published(arm, {0: 130, 10: 900}, metric="val-core/x/score/mean@1") for arm in ("baseline", "aqn")]
    shown = drawn(report_of(*runs))
    assert shown.intervals == ""
    assert not [shape for shape in scene(shown).shapes if isinstance(shape, FilledArea)]


def test_noise_is_drawn_as_planned_and_as_applied(wording: SnapshotAssertion) -> None:
    _, aqn, silent = drawn(three_arms()).noise
    assert aqn is not None and silent is not None
    assert [sigma for _, sigma in aqn.applied] == list(aqn.planned)
    assert {sigma for _, sigma in silent.applied} == {0.0}
    columns = [column for column in scene(drawn(three_arms())).columns if column.title.startswith("steps ")]
    assert [row.text for row in columns[1].rows] == wording


def test_noise_without_a_plan_is_one_stretch(wording: SnapshotAssertion) -> None:
    shown = drawn(three_arms())
    noise = tuple(track and replace(track, planned=()) for track in shown.noise)
    (column,) = [column for column in scene(replace(shown, noise=noise)).columns if column.title.startswith("steps ")]
    assert "0.05" in column.rows[0].text and column.rows[0].text == wording


def test_a_sync_that_matched_no_layer_applied_nothing() -> None:
    run = treated("aqn", GLOBAL)
    noise = tuple(replace(event, layers=0) for event in run.evidence.noise)
    run = replace(run, evidence=replace(run.evidence, noise=noise))
    (track,) = drawn(report_of(published("baseline", CONTROL), run)).noise[1:]
    assert track is not None and {sigma for _, sigma in track.applied} == {0.0}


def test_svg_is_a_file_of_its_own_that_says_its_values(wording: SnapshotAssertion) -> None:
    root = ElementTree.fromstring(svg_file(scene(drawn(three_arms())), "rlx 0"))
    assert root.findtext(f"{SVG}metadata") == "rlx 0"
    assert root.findtext(f"{SVG}title") == wording
    said = [group.get("aria-label", "") for group in root.iter(f"{SVG}g") if group.get("tabindex") == "0"]
    assert any(
        each.startswith("step 116: baseline: 68.16 % (65.6 to 70.6); aqn: 68.76 % (66.2 to 71.2)") for each in said
    )
    struck = [span.text for span in root.iter(f"{SVG}tspan") if span.get("text-decoration") == "line-through"]
    assert any(text and "70.58 %" in text for text in struck)


def test_png_has_the_size_of_the_drawing_and_says_who_made_it() -> None:
    shown = scene(drawn(three_arms()), NARROW)
    content = png_bytes(shown, "rlx 0")
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == (round(2 * shown.width), pytest.approx(2 * shown.height, abs=1))
    assert b"rlx 0" in content[:4096]


@pytest.mark.parametrize("name", ["$x_{", "名" * 300, "\x00\x1b[31m<b>", "‮evil"])
def test_any_name_can_be_drawn(name: str) -> None:
    shown = drawn(report_of(published("baseline", CONTROL), published(name, GLOBAL)))
    ElementTree.fromstring(svg_file(scene(shown, NARROW), "rlx 0"))
    assert png_bytes(scene(shown, NARROW), "rlx 0")
    assert max(len(line) for line in plain(shown, 60).splitlines()) <= 70


@pytest.mark.parametrize("width", [20, 60, 110])
def test_text_fits_the_terminal(width: int) -> None:
    lines = plain(drawn(three_arms()), width).splitlines()
    assert max(map(len, lines)) <= max(40, width)
    assert "\x1b" not in "".join(lines)


def test_long_runs_stay_small() -> None:
    steps = range(10_001)
    runs = [published(arm, {step: 600 + (step + shift) % 300 for step in steps}) for arm, shift in (("a", 0), ("b", 9))]
    shown = scene(drawn(report_of(*runs)))
    assert len(shown.columns) < WIDE / 3
    assert len(svg_file(shown, "rlx 0")) < 2_000_000


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_ticks_enclose_the_values_and_differ_in_text(one: float, other: float) -> None:
    low, high = sorted((one, other))
    ticks = round_ticks(low, high, about=5)
    width = ticks[1] - ticks[0]
    assert ticks[0] <= low + width * 1e-6 and high - width * 1e-6 <= ticks[-1]
    assert len(ticks) <= 12


@given(st.integers(-6, 6), st.floats(1, 9.9))
def test_tick_texts_of_ordinary_ranges_differ(exponent: int, factor: float) -> None:
    high = factor * 10.0**exponent
    ticks = round_ticks(0.0, high, about=5)
    texts = [tick_text(tick, ticks[1] - ticks[0]) for tick in ticks]
    assert len(set(texts)) == len(texts)


@given(st.lists(st.floats(1e-12, 1e3), min_size=1, max_size=9))
def test_decades_enclose_the_sigmas(sigmas: list[float]) -> None:
    found = decades(sigmas)
    assert 10.0 ** found[0] <= min(sigmas) * (1 + 1e-6) and max(sigmas) <= 10.0 ** found[-1] * (1 + 1e-6)
    assert len(found) >= 2


def test_values_before_training_do_not_hide_the_others(wording: SnapshotAssertion) -> None:
    shown = drawn(three_arms())
    assert "75 %" in labels(shown) and "55 %" in labels(shown) and "0 %" not in labels(shown)
    (below,) = [label for label in labels(shown) if "8.95 % to 9.25 %" in label]
    assert below in plain(shown)
    assert below == wording
    near = drawn(report_of(published("baseline", {0: 500, 10: 700, 20: 900}), published("aqn", {0: 480, 20: 950})))
    assert labels(near) == wording


def test_a_line_from_below_the_axis_comes_from_where_it_is() -> None:
    assert above([(0, 0.0), (10, 1.0), (20, 1.5)], 0.5) == [(5.0, 0.5), (10, 1.0), (20, 1.5)]
    assert above([(0, 1.0), (10, 0.0), (20, 0.0), (30, 1.0)], 0.5) == [(0, 1.0), (5.0, 0.5), (25.0, 0.5), (30, 1.0)]
    assert above([(0, 0.0)], 0.5) == []


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_seen(palette: dict[str, str]) -> None:
    for ink in ("text", "muted"):
        assert contrast(palette[ink], palette["paper"]) >= 4.5
    for ink in ("excluded", *(f"s{index}" for index in range(6))):
        assert contrast(palette[ink], palette["paper"]) >= 3


def test_a_png_without_matplotlib_is_refused_with_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RlxError, match="matplotlib") as caught:
        png_bytes(scene(drawn(three_arms())), "made by rlx 0")
    assert "[plot]" in caught.value.hint and ".svg" in caught.value.hint
