"""docs/terminal.md shows what a person sees, at two widths, in both languages. `UPDATE_CASES=1` writes it anew."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import pytest

from rlx.api.demo import variables
from tests.cli.support import rlx
from tests.cli.terminal import on_terminal
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow

PAGES = {"en": REPOSITORY / "docs/terminal.md", "zh": REPOSITORY / "docs/zh/terminal.md"}
WIDTHS = (80, 120)
SHOWN = {
    "rlx --help": {"en": "All commands, in the order of a typical workflow.", "zh": "所有命令，按典型的工作流程排列。"},
    "rlx status -a": {
        "en": "Every run. Narrow terminals lose the least important columns, never a name.",
        "zh": "全部运行。终端较窄时省去最不重要的列，名称从不省略。",
    },
    "rlx logs honest-baseline-s1 honest-aqn-s1 --grep val-core": {
        "en": "Values instead of lines; `--raw` shows the lines.",
        "zh": "给出数值而不是日志行；`--raw` 显示日志行。",
    },
    "rlx metrics honest-aqn-s1 grad_norm entropy": {
        "en": "Up to three metrics step by step, more as one line each.",
        "zh": "三个以内的指标逐步列出，更多时每个指标一行。",
    },
    "rlx compare honest-baseline-s1 honest-aqn-s1": {
        "en": "What the data of two runs supports.",
        "zh": "两次运行的数据支持什么结论。",
    },
    "rlx compare no-noise-baseline-s1 no-noise-aqn-s1": {
        "en": "No noise ever was in this arm: its numbers are excluded.",
        "zh": "这一组里从来没有噪声：数字被排除。",
    },
    "rlx explain RLX601": {"en": "Any id that rlx prints.", "zh": "rlx 打印的任何编号都可以查。"},
    "rlx plan tiny-cpu --arm aqn": {
        "en": "How many runs, what was found, and each arm; `-v` shows the rest.",
        "zh": "有多少运行、发现了什么、每个组的概况；`-v` 显示其余内容。",
    },
}
HEADS = {
    "en": """\
# Command output

The runs are those of `rlx demo`. Each command is shown on a terminal of 80 and of 120 columns, without its colours;
`tests/cli/test_captures.py` holds this page to what the commands print.
""",
    "zh": """\
# 命令的输出

这里的运行来自 `rlx demo`。每条命令显示两次，终端分别为 80 列和 120 列，不带颜色；
`tests/cli/test_captures.py` 保证本页与命令的输出一致。
""",
}
COLUMNS = {"en": "columns:", "zh": "列："}


def ageless(line: str) -> str:
    """Show one age for all: those of the runs grow while the page stays."""
    return re.sub(r"\d+ (?:s|min|h|d)$", "9 s", line)


@pytest.fixture(autouse=True)
def _demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # As for a newcomer: the plan finds no model and no data.
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    rlx("demo", "--to", str(tmp_path / "shown"))
    for name, value in variables(tmp_path / "shown").items():
        monkeypatch.setenv(name, value)


def test_the_pages_show_what_the_commands_print(tmp_path: Path) -> None:
    printed = {command: {width: captured(command, width, tmp_path) for width in WIDTHS} for command in SHOWN}
    for language, path in PAGES.items():
        page = written(printed, language)
        if os.environ.get("UPDATE_CASES"):
            path.write_text(page, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == page


def captured(command: str, width: int, folder: Path) -> str:
    seen = on_terminal(*command.split()[1:], columns=width)
    assert seen.code in (0, 5, 14), seen.text
    shown = map(ageless, seen.lines) if command.startswith("rlx status") else seen.lines
    lines = "\n".join(shown).replace(str(folder), "~").replace("python -m rlx", "rlx").strip()
    assert max(map(len, lines.splitlines())) <= width
    return lines


def written(printed: dict[str, dict[int, str]], language: str) -> str:
    sections = [HEADS[language]]
    for command, by_width in printed.items():
        sections.append(f"## {command}\n\n{SHOWN[command][language]}\n")
        for width, lines in by_width.items():
            sections.append(f"{width} {COLUMNS[language]}\n\n{textwrap.indent(lines, '    ')}\n")
    return re.sub(r"[ \t]+$", "", "\n".join(sections), flags=re.MULTILINE)
