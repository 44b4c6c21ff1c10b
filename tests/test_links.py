"""No page names a file or a heading of this repository that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted(REPOSITORY.glob("docs/**/*.md")), REPOSITORY / "llms.txt"]


def links(page: Path) -> Iterator[str]:
    """Targets of the links of a page, without those in code and those that lead elsewhere."""
    text = re.sub(r"(?ms)^```.*?^```$|^ {4}.*?$|`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    yield from (target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", target))


def anchors(page: Path) -> set[str]:
    """The names that headings of a page get where it is shown: lower case, without punctuation, hyphens for spaces."""
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_its_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{target} is no file"
        assert not anchor or anchor in anchors(file), f"{target} is no heading: {sorted(anchors(file))}"
