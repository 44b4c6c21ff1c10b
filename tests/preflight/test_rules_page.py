"""The page that says who refuses what a rule objects to."""

from __future__ import annotations

import re
from pathlib import Path

from rlx.preflight.rules.rule_table import all_rules
from tests.conftest import CASES, REPOSITORY

_ROW = re.compile(r"^\| (RLX\d{3}) \| [^|]+ \| [^|]+ \| (yes|是)? ?\|$", re.MULTILINE)


def rows(page: str = "docs/rules.md") -> list[tuple[str, str]]:
    return _ROW.findall((REPOSITORY / page).read_text(encoding="utf-8"))


def test_the_page_has_a_row_for_each_rule() -> None:
    assert [id for id, _ in rows()] == sorted(rule.id for rule in all_rules())


def test_the_page_calls_shown_what_the_tests_show() -> None:
    tests = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_rules_in*.py")]
    runs = [folder.name for folder in (CASES / "preflight-in-verl").iterdir()]
    shown = set(re.findall(r"RLX\d{3}", "\n".join(tests + runs)))
    assert {id for id, yes in rows() if yes} == shown


def test_the_chinese_page_calls_the_same_shown() -> None:
    assert [(id, bool(yes)) for id, yes in rows("docs/zh/rules.md")] == [(id, bool(yes)) for id, yes in rows()]
