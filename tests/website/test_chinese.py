"""The Chinese pages say the same as the English ones, in the words of their glossary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.page_tables import CHINESE as TEXTS
from benchmarks.page_tables import chinese
from tests.test_architecture import LINK, anchors
from tests.website.pages import CHINESE, ENGLISH, PAIRS, text

ROW = re.compile(r"(?m)^\| ([^|]+) \| ([^|]+) \| [^|]*\| ([^|]*)\|$")
# The first table: the words of the six checks of noise are common ones.
TABLE = text(CHINESE["glossary"]).partition("\n## ")[0]
TERMS = [tuple(cell.strip() for cell in row) for row in ROW.findall(TABLE)][1:]
# Where they stand in code, links or commands, terms are not translated.
CODE = re.compile(r"(?s)```.*?```|`[^`\n]*`|\]\([^)]*\)|(?m:^ {4}.*$)")


def prose(page: str) -> str:
    return CODE.sub("CODE", page)


def test_the_glossary_has_its_terms() -> None:
    assert len(TERMS) > 30 and all(english and chinese for english, chinese, _ in TERMS)


@pytest.mark.parametrize("name", sorted(CHINESE.keys() - {"glossary"}))
def test_no_page_uses_a_word_that_the_glossary_rules_out(name: str) -> None:
    banned = {word for *_, words in TERMS for word in words.split("、") if word}
    assert not {word for word in banned if word in prose(text(CHINESE[name]))}


@pytest.mark.parametrize("name", PAIRS)
def test_a_page_uses_the_term_where_the_english_one_does(name: str) -> None:
    english, chinese = prose(text(ENGLISH[name])).lower(), prose(text(CHINESE[name]))
    for term, translated, _ in TERMS:
        word = term.partition(" (")[0]
        if len(re.findall(rf"\b{word}s?\b", english)) > 2 and word not in ("run", "step", "fix", "plan", "launch"):
            assert any(one in chinese for one in re.split("[（、）]", translated) if one), f"{name}: {term}"


@pytest.mark.parametrize("name", PAIRS)
def test_the_pages_of_a_pair_have_the_same_parts(name: str) -> None:
    """Headings, rows of tables, items of lists, findings, code: a change of one asks for the other."""
    assert parts(text(CHINESE[name])) == parts(text(ENGLISH[name]))


def parts(page: str) -> tuple[list[str], list[str], list[str]]:
    marks = re.findall(r"(?m)^(#+|\||\d\. |- |```\w*)", page)
    return marks, re.findall(r"RLX\d{3}", page), sorted(set(re.findall(r"`(rlx [a-z]+[^`]*|[a-z_]+\.[a-z_.]+)`", page)))


@pytest.mark.parametrize("name", sorted(CHINESE))
def test_chinese_is_set_as_chinese(name: str) -> None:
    """Between Chinese characters stand full-width marks, and no blanks."""
    page = prose(text(CHINESE[name]))
    assert not re.findall(r"[\u4e00-\u9fff][,;:?!][\u4e00-\u9fff ]", page)
    assert not re.findall(r"[\u4e00-\u9fff，。；：] +[\u4e00-\u9fff，。；：]", page.replace(" | ", "|"))


@pytest.mark.parametrize("name", PAIRS)
def test_a_page_links_to_the_same_places_in_its_own_language(name: str) -> None:
    assert places(name, ENGLISH) <= places(name, CHINESE)


def places(name: str, language: dict[str, Path]) -> set[tuple[str, int | None]]:
    """The pages and files that a page links to, but itself, and the headings there by their numbers."""
    # A page for contributors is in English only.
    page, names = language[name], {path: name for name, path in {**ENGLISH, **language}.items()}
    found = set()
    for target in LINK.findall(text(page)):
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve()
        if path and file not in (ENGLISH[name], CHINESE[name]):
            found.add((names.get(file, str(file)), anchors(file).index(heading) if heading else None))
    return found


@pytest.mark.parametrize("page", sorted(path.stem for path in TEXTS.glob("*.toml")))
def test_no_chinese_of_a_table_is_left_over(page: str) -> None:
    english = text(ENGLISH[page]).replace("\\|", "|")
    assert not [each for each in chinese(page) if each.partition("{")[0] not in english]
