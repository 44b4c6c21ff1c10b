"""The page in a real browser: on a phone and on a desk, light and dark, by pointer, by keyboard, on paper."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.report import Report, html, picture, scene, svg_file
from tests.report.browser import CHROMIUM, Browser, browser
from tests.report.samples import CONTROL, GLOBAL, published, recorded, report_of, three_arms

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="takes chromium: make rig")
PHONE, DESK = 375, 1280
VISIBLE = "element => getComputedStyle(element).visibility === 'visible'"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as page:
        yield page


def hostile() -> Report:
    """Names as no one would give them: markup, one endless word, one from right to left."""
    names = ("<img src=http://example.invalid/x onerror=console.error(1)>", "w" * 3000, "‮אבג‬")
    runs = [published(name, GLOBAL, recipe={name: name}) for name in names]
    verdict = replace(runs[1].verdict, sentence="valid: " + "v" * 3000)
    return report_of(published("baseline", CONTROL), runs[0], replace(runs[1], verdict=verdict), runs[2])


REPORTS = {
    "three arms": three_arms,
    "recorded": lambda: report_of(
        recorded("tiny-baseline", "baseline"), recorded("sabotage-noise-in-validation", "aqn")
    ),
    "hostile": hostile,
}


@pytest.fixture(params=REPORTS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(html(REPORTS[request.param]()), encoding="utf-8")
    return path


@pytest.fixture
def arms(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(html(three_arms()), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_it_fits_the_window_and_asks_for_nothing(chromium: Browser, file: Path, width: int) -> None:
    chromium.open(file, width)
    assert chromium.evaluate("document.documentElement.scrollWidth") == width
    # Only a table may be wider than the window, and then it scrolls by itself.
    wider = (
        "[...document.querySelectorAll('body *')].filter(element => !element.closest('.scroll, svg')"
        " && element.getBoundingClientRect().right > innerWidth + 1).map(element => element.outerHTML.slice(0, 200))"
    )
    assert chromium.evaluate(wider) == []
    assert chromium.requests() == []
    assert chromium.complaints() == []


@pytest.mark.parametrize(("width", "shown", "hidden"), [(PHONE, "narrow", "wide"), (DESK, "wide", "narrow")])
def test_the_drawing_that_can_be_read_is_the_one_shown(
    chromium: Browser, arms: Path, width: int, shown: str, hidden: str
) -> None:
    chromium.open(arms, width)
    assert chromium.evaluate(f"document.querySelector('.{hidden} svg').getBoundingClientRect().width") == 0
    heights = "[...document.querySelectorAll('.%s svg text')].map(text => text.getBoundingClientRect().height)"
    assert min(filter(None, chromium.evaluate(heights % shown))) >= 11


@pytest.mark.parametrize(("width", "across"), [(PHONE, 1), (DESK, 3)])
def test_training_curves_stand_beside_each_other_where_there_is_room(
    chromium: Browser, tmp_path: Path, width: int, across: int
) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(REPORTS["recorded"]()), encoding="utf-8")
    chromium.open(path, width)
    panels = "[...document.querySelectorAll('.multiples svg')]"
    lefts = chromium.evaluate(f"{panels}.map(drawing => Math.round(drawing.getBoundingClientRect().left))")
    assert len(lefts) > 3 and len(set(lefts)) == across
    heights = f"{panels}.flatMap(drawing => [...drawing.querySelectorAll('text')])"
    assert min(chromium.evaluate(f"{heights}.map(text => text.getBoundingClientRect().height)")) >= 11


def test_pointing_at_a_step_shows_its_values(chromium: Browser, arms: Path) -> None:
    chromium.open(arms, DESK)
    column = "document.querySelectorAll('.wide .column')[6]"
    assert chromium.evaluate(f"({VISIBLE})({column}.querySelector('.shown'))") is False
    chromium.evaluate(f"{column}.scrollIntoView({{block: 'center'}})")
    box = chromium.evaluate(f"(({column}.querySelector('.hit')).getBoundingClientRect()).toJSON()")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    chromium("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert chromium.evaluate(f"({VISIBLE})({column}.querySelector('.shown'))") is True
    text = chromium.evaluate(f"{column}.querySelector('.shown').textContent")
    assert "step 116" in text and "aqn: 68.76 % (66.2 to 71.2)" in text
    inside = f"(({column}.querySelector('.shown')).getBoundingClientRect()).toJSON()"
    tip, drawing = (
        chromium.evaluate(inside),
        chromium.evaluate("document.querySelector('.wide svg').getBoundingClientRect().toJSON()"),
    )
    assert drawing["left"] <= tip["left"] and tip["right"] <= drawing["right"]


def test_the_tab_key_reaches_each_step(chromium: Browser, arms: Path) -> None:
    chromium.open(arms, DESK)
    chromium.evaluate("document.querySelector('nav li:last-child a').focus()")
    said = ""
    for _ in range(20):
        for kind in ("keyDown", "keyUp"):
            chromium("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        said = chromium.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")
        if said.startswith("step 0:"):
            break
    assert said.startswith("step 0: baseline: 9.25 %")
    assert chromium.evaluate(f"({VISIBLE})(document.activeElement.querySelector('.shown'))") is True


def test_what_a_screen_reader_is_told(chromium: Browser, arms: Path) -> None:
    chromium.open(arms, DESK)
    nodes = chromium("Accessibility.getFullAXTree")["nodes"]
    told = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
    roles = {role for role, _ in told}
    assert {"banner", "navigation", "main", "contentinfo", "table", "columnheader", "rowheader"} <= roles
    drawings = [role for role, name in told if name == "val-core/gsm8k/acc/mean@1 by training step"]
    assert drawings == ["group"], [each for each in told if "training step" in each[1]]
    assert any(role in ("img", "image") and name.startswith("step 116: baseline: 68.16 %") for role, name in told)


CONTRASTS = """
[...document.querySelectorAll('body *')].filter(element => [...element.childNodes].some(
  node => node.nodeType === 3 && node.textContent.trim()) && element.checkVisibility() && !element.closest('svg')
).map(element => {
  const light = colour => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  let behind = element;
  while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)' && behind.parentElement)
    behind = behind.parentElement;
  const two = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(light).sort();
  return [(two[1] + 0.05) / (two[0] + 0.05), element.outerHTML.slice(0, 120)];
}).filter(([ratio]) => ratio < 4.5)
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(chromium: Browser, arms: Path, dark: bool) -> None:
    chromium.open(arms, DESK, dark=dark)
    background = chromium.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(18, 22, 27)" if dark else "rgb(255, 255, 255)")
    line = chromium.evaluate("getComputedStyle(document.querySelector('.wide .l-s0')).stroke")
    assert line == ("rgb(86, 180, 233)" if dark else "rgb(0, 103, 163)")
    assert chromium.evaluate(CONTRASTS) == []


def test_on_paper_it_is_light_and_says_everything(chromium: Browser, arms: Path, tmp_path: Path) -> None:
    chromium.open(arms, DESK, dark=True, media="print")
    assert chromium.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert chromium.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    folded = "[...document.querySelectorAll('details:not([open]) dl')].map(each => each.getBoundingClientRect().height)"
    heights = chromium.evaluate(folded)
    assert heights and min(heights) > 0
    pages = base64.b64decode(chromium("Page.printToPDF")["data"])
    assert pages.startswith(b"%PDF")


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_it_can_be_photographed(chromium: Browser, arms: Path, tmp_path: Path, width: int) -> None:
    chromium.open(arms, width)
    chromium.screenshot(tmp_path / "page.png")
    content = (tmp_path / "page.png").read_bytes()
    assert struct.unpack(">I", content[16:20]) == (width,)


@pytest.mark.long
def test_the_svg_file_shows_itself(chromium: Browser, tmp_path: Path) -> None:
    report = three_arms()
    assert report.comparison is not None
    path = tmp_path / "plot.svg"
    path.write_bytes(svg_file(scene(picture(report.comparison, report.runs)), "made by rlx 0"))
    chromium.open(path, DESK, dark=True)
    assert chromium.evaluate("document.documentElement.getBoundingClientRect().width") == 760
    paper: Any = chromium.evaluate("getComputedStyle(document.querySelector('.paper')).fill")
    assert paper == "rgb(18, 22, 27)"
    assert chromium.complaints() == [] and chromium.requests() == []
