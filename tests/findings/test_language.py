"""Read findings in Chinese where RLX_LANG or the locale says so, and in English everywhere else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rlx.findings import Language, finding_row, reader_language
from tests.cli.support import rlx
from tests.command import run_rlx

REPOSITORY = Path(__file__).parent.parent.parent
RECIPE = "name: one\nbackend: {kind: verl}\ntrain: {mini_batch: 8}\n"


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "one.yaml").write_text(RECIPE, encoding="utf-8")
    return str(tmp_path / "one.yaml")


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({}, Language.EN),
        ({"LANG": "zh_CN.UTF-8"}, Language.ZH),
        ({"LANG": "de_DE.UTF-8"}, Language.EN),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_GB.UTF-8"}, Language.EN),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "zh_TW"}, Language.ZH),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, Language.EN),
        ({"LANG": "zh_CN.UTF-8", "RLX_LANG": "en"}, Language.EN),
        ({"LC_ALL": "C", "RLX_LANG": "ZH"}, Language.ZH),
        ({"RLX_LANG": "", "LANG": "zh_CN"}, Language.ZH),
    ],
)
def test_the_language_is_that_of_rlx_lang_else_of_the_locale(
    variables: dict[str, str], language: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RLX_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert reader_language() is language


def test_a_chinese_reader_gets_title_and_fix_in_chinese_beside_the_numbers(
    recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    english = rlx("validate", recipe, code=2).stdout
    monkeypatch.setenv("RLX_LANG", "zh")
    chinese = rlx("validate", recipe, code=2).stdout
    title = finding_row("RLX001").zh.title
    assert title in chinese and title not in english
    # What the message alone has, the line and the nearest key, is in both.
    for text in (english, chinese):
        assert "one.yaml:3" in text and "mini_batch_size" in text
    row = finding_row("RLX621").zh
    planned = rlx("plan", str(REPOSITORY / "recipes/tiny-cpu.yaml")).stdout.replace("\n", " ")
    assert row.title in planned and row.fix in planned and "0.05" in planned


def test_a_refusal_and_the_cause_of_a_failure_are_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_LANG", "zh")
    log = REPOSITORY / "tests/cases/diagnosis/built-for-another-cann/log"
    # The log quotes a traceback, which `rlx` refuses as one of its own.
    found = json.loads(run_rlx(["diagnose", str(log), "--json"]).stdout)["runs"][0]["cause"]
    for form in ((), ("--md",)):
        shown = run_rlx(["diagnose", str(log), *form]).stdout.decode()
        assert finding_row(found["id"]).zh.title in shown.replace("\\", "")
        assert "修复：" in shown and "含义：" in shown and "fix" not in re.findall(r"^ +(?:- )?(\w+)", shown, re.M)
    refused = rlx("launch", str(REPOSITORY / "recipes/tiny-cpu.yaml"), "--set", "train.micro_batch_size=7", code=None)
    assert refused.returncode != 0 and finding_row("RLX104").zh.title in refused.stderr
    assert "\n  修复：" in refused.stderr


def test_json_is_the_same_in_every_language(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    english = rlx("validate", recipe, "--json", code=2).stdout
    monkeypatch.setenv("RLX_LANG", "zh")
    assert rlx("validate", recipe, "--json", code=2).stdout == english


def test_explain_goes_by_the_same_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_LANG", "zh")
    assert finding_row("RLX104").zh.title in rlx("explain", "RLX104").stdout
    assert finding_row("RLX104").en.title in rlx("explain", "RLX104", "--language", "en").stdout
