"""Name the pages of the documentation that people wrote, by language."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
LANGUAGES = ("en", "zh")
_TITLE = re.compile(r"^# (.+)$", re.M)


def written(language: str) -> dict[str, Path]:
    """Return all pages that people wrote in that language, by name; those for contributors are in English only."""
    folders = (DOCS, DOCS / "dev") if language == "en" else (DOCS / language,)
    return {page.stem: page for folder in folders for page in sorted(folder.glob("*.md"))}


def title(page: Path) -> str:
    found = _TITLE.search(page.read_text(encoding="utf-8"))
    return found[1].replace("`", "") if found else page.stem
