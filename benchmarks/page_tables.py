"""Put the tables of a benchmark into its page of the documentation, in both languages.

A table NAME stands between `<!-- NAME -->` and `<!-- end of NAME -->`. The Chinese of its texts is in
benchmarks/chinese/PAGE.toml, English = Chinese, so that a text that changes asks for its Chinese anew. Pages for
contributors, below docs/dev/, are in English only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
CHINESE = Path(__file__).parent / "chinese"
LANGUAGES = ("en", "zh")
# The tables of a page in a language, by their names.
Tables = Callable[[str], Mapping[str, str]]


def page_of(name: str, language: str) -> Path:
    return DOCS / ("" if language == "en" else language) / f"{name}.md"


def languages_of(page: str) -> tuple[str, ...]:
    return ("en",) if page.startswith("dev/") else LANGUAGES


def said(page: str, text: str, language: str) -> str:
    """The text in that language."""
    if language == "en" or not text:
        return text
    if text not in chinese(page):
        raise LookupError(f"{CHINESE / page}.toml has no Chinese for {text!r}: write it there")
    return chinese(page)[text]


@cache
def chinese(page: str) -> dict[str, str]:
    texts: dict[str, str] = tomllib.loads((CHINESE / f"{page}.toml").read_text(encoding="utf-8"))
    return texts


def row(*cells: object) -> str:
    """A row of a table; a bar inside a cell does not end it."""
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def with_tables(text: str, tables: Mapping[str, str]) -> str:
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if begin not in text or end not in text:
            raise LookupError(f"the page has no place for the table {name}: write {begin}{end} there")
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}{table}\n{end}{rest.partition(end)[2]}"
    return text


def out_of_date(page: str, tables: Tables, *, write: bool = False) -> list[Path]:
    """The files of the page that have other tables; with `write` they get these."""
    pages = {page_of(page, language): tables(language) for language in languages_of(page)}
    old = {path: path.read_text(encoding="utf-8") for path in pages}
    new = {path: with_tables(old[path], made) for path, made in pages.items()}
    stale = [path for path in pages if new[path] != old[path]]
    for path in stale if write else ():
        path.write_text(new[path], encoding="utf-8")
    return [] if write else stale
