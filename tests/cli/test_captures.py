"""docs/terminal.md shows what a person sees, at two widths. `UPDATE_CASES=1` writes it anew."""

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

PAGE = REPOSITORY / "docs/terminal.md"
WIDTHS = (80, 120)
SHOWN = {
    "rlx --help": "All commands, in the order of a day's work.",
    "rlx status -a": "Every run. Narrow terminals lose the least important columns, never a name.",
    "rlx logs honest-baseline-s1 honest-aqn-s1 --grep val-core": "Values instead of lines; `--raw` shows the lines.",
    "rlx metrics honest-aqn-s1 grad_norm entropy": "Up to three metrics step by step, more as one line each.",
    "rlx compare honest-baseline-s1 honest-aqn-s1": "What may be said of two runs.",
    "rlx compare no-noise-baseline-s1 no-noise-aqn-s1": "No noise ever was in this arm: its numbers are struck.",
    "rlx explain RLX601": "Any id that rlx prints.",
    "rlx plan tiny-cpu --arm aqn": "What would run, and what the log must show afterwards.",
}
# Their sentences are wrapped by the terminal, so that a copied one is whole.
WRAPPED = {"compare", "explain", "plan"}
HEAD = """\
# What it looks like

The runs are those of `rlx demo`. Each command is shown on a terminal of 80 and of 120 columns, without its colours;
`tests/cli/test_captures.py` holds this page to what the commands print.
"""


def shortened(text: str) -> str:
    """Leave out what a plan lists line by line after the first lines, sizes of files among it."""
    kept, listed = [], 0
    for line in text.splitlines():
        listed = listed + 1 if line.startswith("  ") else 0
        is_file = re.search(r" 0[67]00 +[\d,]+ bytes$", line)
        if listed < 5 and not is_file:
            kept.append(line)
        elif kept[-1] != "  …":
            kept.append("  …")
    return "\n".join(kept)


@pytest.fixture(autouse=True)
def _demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # As for a newcomer: the plan finds no model and no data.
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    rlx("demo", "--to", str(tmp_path / "shown"))
    for name, value in variables(tmp_path / "shown").items():
        monkeypatch.setenv(name, value)


def test_the_page_shows_what_the_commands_print(tmp_path: Path) -> None:
    sections = [HEAD]
    for command, about in SHOWN.items():
        sections.append(f"## {command}\n\n{about}\n")
        for width in WIDTHS:
            seen = on_terminal(*command.split()[1:], columns=width)
            assert seen.code in (0, 5, 14), seen.text
            lines = "\n".join(seen.lines).replace(str(tmp_path), "~").replace("python -m rlx", "rlx").strip()
            assert max(map(len, lines.splitlines())) <= width or command.split()[1] in WRAPPED
            lines = shortened(lines) if command.startswith("rlx plan") else lines
            sections.append(f"{width} columns:\n\n{textwrap.indent(lines, '    ')}\n")
    page = re.sub(r"[ \t]+$", "", "\n".join(sections), flags=re.MULTILINE)
    if os.environ.get("UPDATE_CASES"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page
