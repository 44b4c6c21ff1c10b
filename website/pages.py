"""Name the pages of the documentation: which there are, in which language, and the place of each in the navigation."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
NAVIGATION = Path(__file__).with_name("navigation.toml")
LANGUAGES = ("en", "zh")
_TITLE = re.compile(r"^# (.+)$", re.M)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the navigation: its title by language, and its pages by their names below docs/."""

    titles: dict[str, str]
    pages: tuple[str, ...]


def sections() -> list[Section]:
    """Read the navigation."""
    parts = tomllib.loads(NAVIGATION.read_text(encoding="utf-8"))["section"]
    return [Section({language: part[language] for language in LANGUAGES}, tuple(part["pages"])) for part in parts]


def written(language: str) -> dict[str, Path]:
    """All pages that people wrote in that language, by name."""
    folder = DOCS if language == "en" else DOCS / language
    return {page.stem: page for page in sorted(folder.glob("*.md"))}


def generated() -> tuple[str, ...]:
    """The pages that are made from the code, in both languages."""
    from website.reference import PAGES

    return tuple(PAGES)


def placed(language: str) -> list[str]:
    """The pages that the navigation of a language shows: those of them that there are in it."""
    there = {*written(language), *generated()}
    return [name for section in sections() for name in section.pages if name in there]


def title(page: Path) -> str:
    found = _TITLE.search(page.read_text(encoding="utf-8"))
    return found[1].replace("`", "") if found else page.stem
