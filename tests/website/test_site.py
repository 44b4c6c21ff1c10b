"""The site has a place for every page, and its reference names all that there is: both without what builds it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from rlx.api.diagnosing import explain_all
from tests.cli.test_help import LEAVES
from website.build import joined, lay_out, settings
from website.navigation import generated, placed, sections
from website.pages import DOCS, LANGUAGES, written
from website.reference import page


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_has_its_place(language: str) -> None:
    missing = written(language).keys() - set(placed(language))
    assert not missing, f"website/navigation.toml has no place for {', '.join(sorted(missing))}"


def test_every_place_has_its_page() -> None:
    places = [name for section in sections() for name in section.pages]
    assert len(places) == len(set(places))
    assert set(places) <= {*written("en"), *written("zh"), *generated()}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_reference_names_all_that_there_is(language: str) -> None:
    commands = re.findall(r"(?m)^### rlx (.+)$", page("reference-commands", language))
    assert sorted(commands) == sorted(LEAVES)
    found = re.findall(r"(?m)^## (RLX\d{3})$", page("reference-findings", language))
    assert found == [one.id for one in explain_all()]
    keys = page("reference-recipe", language)
    assert "| `sigma_start` |" in keys and "| `micro_batch_size` |" in keys


def test_the_chinese_reference_says_of_every_finding_what_it_means() -> None:
    parts = re.split(r"(?m)^## RLX\d{3}$", page("reference-findings", "zh"))[1:]
    assert len(parts) == len(explain_all())
    assert not [part for part in parts if not re.search(r"[\u4e00-\u9fff]", part.strip().partition("\n")[0])]


@pytest.mark.parametrize("language", LANGUAGES)
def test_its_settings_name_pages_that_are_laid_out(language: str, tmp_path: Path) -> None:
    lay_out(language, tmp_path / "docs")
    project = tomllib.loads(settings(language))["project"]
    named = [page for part in project["nav"] for page in _pages(part)]
    assert {f"{name}.md" for name in placed(language)} | {"index.md"} == set(named)
    assert all((tmp_path / "docs" / name).is_file() for name in named)
    for file in (tmp_path / "docs").glob("*.md"):
        targets = re.findall(r"\]\(([\w/.-]+\.(?:md|svg|png))[)#]", file.read_text(encoding="utf-8"))
        assert not [target for target in targets if not (file.parent / target).exists()], file.name


def _pages(part: dict[str, object]) -> list[str]:
    (inside,) = part.values()
    return [inside] if isinstance(inside, str) else [name for one in inside for name in _pages(one)]  # type: ignore[attr-defined]


def test_the_pages_for_contributors_stay_within_their_budget() -> None:
    """At most 15,000 words, without the tables that code writes into them."""
    made = re.compile(r"<!-- ([\w ]+) -->\n.*?<!-- end of \1 -->", re.DOTALL)
    words = [made.sub("", page.read_text(encoding="utf-8")).split() for page in (DOCS / "dev").glob("*.md")]
    assert 5_000 < sum(map(len, words)) <= 15_000


def test_lines_of_chinese_are_joined_without_a_blank() -> None:
    assert (
        joined("不需要 root，\n只需要容器。\n\n## 环境\n\n- 一\n- 二\n")
        == "不需要 root，只需要容器。\n\n## 环境\n\n- 一\n- 二\n"
    )
    assert joined("在 Python\n3.11 上；\n  `rlx` 会看。\n```\n") == "在 Python\n3.11 上；`rlx` 会看。\n```\n"
    code = "说明：\n\n    rlx wait    # 等到结束\n    rlx logs    # 日志\n\n```yaml\nseed: 1  # 种子\narms: {}\n```\n"
    assert joined(code) == code
