"""docs/api.md stays true: its code runs, on six recorded runs, and says what the page shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import rlx
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs

PAGE = REPOSITORY / "docs/api.md"


def code() -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S))


@pytest.mark.long
def test_the_page_says_what_its_code_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    place_runs(CASES / "six-runs")
    test = doctest.DocTestParser().get_doctest(code(), {}, "docs/api.md", str(PAGE), 0)
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert result.attempted > 20
    assert result.failed == 0, capfd.readouterr().out


def test_the_page_names_every_function() -> None:
    functions = {name for name in rlx.__all__ if callable(getattr(rlx, name)) and name[0].islower()}
    table = PAGE.read_text(encoding="utf-8").partition("### All functions")[2]
    assert functions == {name for row in re.findall(r"^\| `.*$", table, re.M) for name in re.findall(r"`(\w+)\(", row)}
