"""Hold the sentences and names of the code to docs/glossary.md. The pages: tests/website/test_words.py."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.words import NAMES, PHRASES

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "rlx").rglob("*.py"))
TEXTS = [
    path
    for folder in ("rlx", "recipes", "templates")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".toml", ".yaml", ".sh", ".j2"}
]


def prose(module: Path) -> Iterator[str]:
    """The comments and the sentences in strings: a string of one word is a key of a file, code in backticks a name."""
    for token in tokenize.generate_tokens(io.StringIO(module.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield re.sub(r"`[^`\n]*`|\{[^{}\n]*\}", "", token.string)


@pytest.mark.parametrize("package", sorted({module.relative_to(ROOT).parts[:2] for module in MODULES}), ids="/".join)
def test_no_sentence_of_a_module_uses_a_phrase_that_the_glossary_avoids(package: tuple[str, ...]) -> None:
    modules = [module for module in MODULES if module.relative_to(ROOT).parts[:2] == package]
    found = [
        (module.name, match[0]) for module in modules for text in prose(module) for match in PHRASES.finditer(text)
    ]
    assert not found


def test_no_table_template_or_script_uses_one() -> None:
    assert len(TEXTS) > 40
    found = [(path.name, match[0]) for path in TEXTS for match in PHRASES.finditer(_without_names(path))]
    assert not found


def _without_names(path: Path) -> str:
    return re.sub(r"`[^`\n]*`", "", path.read_text(encoding="utf-8"))


def test_no_name_is_made_of_a_word_that_the_glossary_replaces() -> None:
    assert len(MODULES) > 400
    assert not [name for module in MODULES for name in _names(module) if any(map(NAMES.fullmatch, _words(name)))]


def _names(module: Path) -> Iterator[str]:
    yield module.stem
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)]


def test_both_lists_find_what_they_are_for() -> None:
    assert PHRASES.search("Nobody knows what it is held against")
    assert any(map(NAMES.fullmatch, _words("parse_tombstones"))) and any(map(NAMES.fullmatch, _words("WeightPromise")))
    assert not any(map(NAMES.fullmatch, _words("insight_of_dealer")))
