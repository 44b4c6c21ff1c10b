"""Read which pages the navigation shows, in which order and under which titles."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from website.pages import LANGUAGES, written
from website.reference import PAGES

NAVIGATION = Path(__file__).with_name("navigation.toml")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the navigation: its title by language, and its pages by their names below docs/."""

    titles: dict[str, str]
    pages: tuple[str, ...]


def sections() -> list[Section]:
    """Read the navigation."""
    parts = tomllib.loads(NAVIGATION.read_text(encoding="utf-8"))["section"]
    return [Section({language: part[language] for language in LANGUAGES}, tuple(part["pages"])) for part in parts]


def generated() -> tuple[str, ...]:
    """The pages that are made from the code, in both languages."""
    return tuple(PAGES)


def placed(language: str) -> list[str]:
    """The pages that the navigation of a language shows: those of them that there are in it."""
    there = {*written(language), *generated()}
    return [name for section in sections() for name in section.pages if name in there]
