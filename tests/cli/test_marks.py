"""A value that may not be reported has its mark in words, wherever it is printed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from rlx.api.demo import variables
from tests.cli.support import rlx
from tests.cli.terminal import on_terminal

NUMBER = r"[-+]?\d+(?:\.\d+)?"
EXCLUDED = {"no-noise": "invalid", "cut-short": "incomplete"}
WIDE = [{"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}]
NARROW = {"TERM": "dumb"}
"""A terminal that knows nothing is taken to have 80 columns."""
TERMINALS = [*WIDE, NARROW]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "shown"
    rlx("demo", "--to", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _demo_runs(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables(demo).items():
        monkeypatch.setenv(name, value)


def arms(scene: str) -> tuple[str, str]:
    return f"{scene}-baseline-s1", f"{scene}-aqn-s1"


@pytest.mark.long
@pytest.mark.parametrize("terminal", TERMINALS, ids=str)
@pytest.mark.parametrize("scene", EXCLUDED)
def test_a_terminal_of_any_kind_shows_the_mark(scene: str, terminal: dict[str, str]) -> None:
    """Also that of a difference: what is computed from an excluded value is excluded."""
    seen = on_terminal("compare", *arms(scene), columns=120, **terminal)
    (last,) = [line for line in seen.lines if re.match(r"\s+10\s", line)]
    assert re.fullmatch(rf"\s+10\s+{NUMBER}\s+{NUMBER} \({EXCLUDED[scene]}\)\s+{NUMBER} \({EXCLUDED[scene]}\)", last)
    assert "~~" not in seen.text
    assert ("\x1b[2;9m" in seen.written) == (terminal == {"TERM": "xterm"})


def test_a_comparison_that_is_none_marks_its_differences_alone() -> None:
    said = rlx("compare", *arms("other-evaluation"), code=14).stdout
    (last,) = [line for line in said.splitlines() if re.match(r"\s+20\s", line)]
    assert re.fullmatch(rf"\s+20\s+{NUMBER}\s+{NUMBER}\s+{NUMBER} \(not comparable\)", last)


def test_a_pipe_shows_the_mark_and_valid_values_have_none() -> None:
    said = rlx("compare", *arms("no-noise"), code=14).stdout
    assert "0.9700 (invalid)" in said and "+0.0 (invalid)" in said
    said = rlx("compare", *arms("honest")).stdout
    assert not re.search(r"\d \((?!points)[a-z ]+\)", said.partition("\n\n")[0])


@pytest.mark.parametrize("terminal", [*WIDE, None], ids=str)
def test_status_marks_the_value(terminal: dict[str, str] | None) -> None:
    words = ("status", "-a")
    text = on_terminal(*words, columns=120, **terminal).text if terminal else rlx(*words).stdout
    for scene, word in EXCLUDED.items():
        table = text.partition(f"{scene} · launch")[2].partition("· launch")[0].splitlines()
        (control,) = [line for line in table if line.startswith("baseline ")]
        (treatment,) = [line for line in table if line.startswith("aqn ")]
        assert re.search(rf"\d @\d+ \({word}\)", treatment)
        assert re.search(r"\d @\d+  ", control)


@pytest.mark.parametrize(("columns", "terminal"), [(80, WIDE[0]), (120, NARROW)], ids=str)
def test_a_narrow_status_has_the_mark_below_the_value(columns: int, terminal: dict[str, str]) -> None:
    lines = on_terminal("status", "-a", columns=columns, **terminal).lines
    for scene, word in EXCLUDED.items():
        (title,) = [number for number, line in enumerate(lines) if line.startswith(f"{scene} · launch")]
        table = lines[title + 1 :]
        (place,) = [number for number, line in enumerate(table[:6]) if line.startswith("aqn ")]
        column = re.search(r"\d\.\d{4} @", table[place])
        assert column and table[place + 1][column.start() :].startswith(f"({word})")


@pytest.mark.parametrize("scene", EXCLUDED)
def test_metrics_mark_every_value(scene: str) -> None:
    control, treatment = arms(scene)
    said = rlx("metrics", f"{control},{treatment}", "acc/mean@1").stdout.splitlines()
    own = [line for line in said if re.search(r"(^|\s)(aqn|\S*-aqn\S*)\s", line) and re.search(r"\d", line)]
    others = [
        line for line in said if re.search(r"(^|\s)(baseline|\S*-baseline\S*)\s", line) and re.search(r"\d", line)
    ]
    assert len(own) > 2 and len(others) > 2
    assert all(line.endswith(f"({EXCLUDED[scene]})") for line in own)
    assert not any(line.endswith(")") for line in others)


def test_a_value_that_never_changes_keeps_its_mark() -> None:
    still = rlx("metrics", arms("no-noise")[1]).stdout.partition("the same at every step\n")[2].splitlines()
    assert still and all(line.endswith(" (invalid)") for line in still)
    honest = rlx("metrics", arms("honest")[1]).stdout.partition("the same at every step\n")[2].splitlines()
    assert honest and not any("(" in line for line in honest)


@pytest.mark.long
@pytest.mark.parametrize("scene", [*EXCLUDED, "other-evaluation"])
def test_cells_of_csv_are_numbers_and_the_mark_has_a_column(scene: str) -> None:
    rows = list(csv.DictReader(rlx("compare", *arms(scene), "--csv", code=14).stdout.splitlines()))
    labels = [name.removesuffix(" verdict") for name in rows[0] if name.endswith(" verdict")]
    assert len(labels) == 3
    for row in rows:
        assert all(re.fullmatch(NUMBER, cell) for name, cell in row.items() if cell and not name.endswith(" verdict"))
        words = [row[f"{label} verdict"] for label in labels]
        word = EXCLUDED.get(scene)
        assert words == (["valid", word, word] if word else ["valid", "valid", "not comparable"])


def test_the_page_shows_the_mark_in_words() -> None:
    rlx("report", *arms("no-noise"), code=14)
    page = Path("report.html").read_text(encoding="utf-8")
    assert '<s>97.00 %</s> <span class="word">(invalid)</span>' in page
