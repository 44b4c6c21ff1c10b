"""The site as a reader gets it: built, crawled, and searched in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.report.browser import CHROMIUM, Browser, browser
from tests.runs.toys import until
from website.build import build

pytestmark = pytest.mark.skipif(find_spec("zensical") is None, reason="takes the extra docs: make site")


class Page(HTMLParser):
    """The places that a page links to, what it loads, and the anchors that it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag in ("script", "img", "iframe", "link"):
            self.loaded += [found[name] for name in ("src", "href") if name in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(folder / "site", folder / "work")
    return folder / "site"


def test_no_link_is_dead_and_nothing_comes_from_outside(site: Path) -> None:
    pages = {file: Page(file) for file in site.rglob("*.html") if file.name not in ("404.html", "report.html")}
    assert len(pages) > 70
    dead = [f"{file.relative_to(site)}: {link}" for file, page in pages.items() for link in _dead(file, page, pages)]
    assert not dead
    assert not [one for page in pages.values() for one in page.loaded if urlsplit(one).netloc]


def _dead(file: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for link in {*page.links, *page.loaded}:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        if not target.is_file() or (target in pages and unquote(parts.fragment) not in pages[target].anchors):
            yield link


# Zensical asks and answers in a shadow tree of its own.
OPENED = "document.activeElement.shadowRoot?.activeElement?.tagName === 'INPUT'"
FOUND = """[...document.querySelectorAll('*')].filter(one => one.shadowRoot)
  .flatMap(one => [...one.shadowRoot.querySelectorAll('a')].map(link => link.href))"""


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """Its address: a browser lets no page of a file read the index of the search."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Leave the output of the tests alone."""


@pytest.mark.skipif(CHROMIUM is None, reason="takes chromium: make rig")
def test_it_fits_phone_and_desk_and_its_search_finds_in_both_languages(served: str) -> None:
    with browser() as chromium:
        for width in (375, 1280):
            for home, words, page in (("/", "weight sync", "/aqn.html"), ("/zh/", "显存", "/zh/memory.html")):
                for name in ("recipes", "verdicts", "index"):
                    chromium.visit(f"{served}{home}{name}.html", width)
                    assert chromium.evaluate("document.documentElement.scrollWidth") <= width
                    assert chromium.complaints() == []
                    assert not [one for one in chromium.requests() if not one.startswith((served, "data:"))]
                assert page in found(chromium, words)


# By table: whether its rows are stacked, the second heading before a cell, and how many names are broken in two lines.
TABLES = """[...document.querySelectorAll('.md-typeset table')].map(table => [
  getComputedStyle(table.tHead).display === 'none',
  getComputedStyle(table.querySelector('td + td'), '::before').content,
  [...table.querySelectorAll('td:first-child code')].filter(code => code.getClientRects().length > 1).length])"""


@pytest.mark.skipif(CHROMIUM is None, reason="takes chromium: make rig")
def test_tables_are_stacked_on_a_phone_and_names_stay_whole(served: str) -> None:
    with browser() as chromium:
        for width in (375, 1280):
            for name, heading in (("verdicts", "what"), ("recipes", "trains"), ("zh/verdicts", "是什么")):
                chromium.visit(f"{served}/{name}.html", width)
                tables = chromium.evaluate(TABLES)
                assert {(stacked, broken) for stacked, _, broken in tables} == {(width == 375, 0)}
                assert (f'"{heading}: "' in [before for _, before, _ in tables]) == (width == 375)


def found(chromium: Browser, words: str) -> str:
    """The links that the search of the page shows for these words."""
    chromium.evaluate("document.querySelector('.md-search__button').click()")
    until(lambda: chromium.evaluate(OPENED), "the search opens")
    chromium("Input.insertText", text=words)
    links: list[str] = until(lambda: chromium.evaluate(FOUND), f"something is found for {words}")
    return " ".join(links)
