"""The first line of a command is its answer; what stands behind it follows, wrapped between words on a terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

import rlx as front_door
from rlx.cli.frame.streams import laid_out, wrapped
from rlx.cli.text.table_text import fitted
from rlx.cli.verify import judged_lines
from rlx.runs.duration import age
from rlx.table import Column, Table
from tests.cli.support import rlx
from tests.cli.terminal import on_terminal
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs
from tests.runs.toys import ended, start, toy_plan

RECIPE = str(REPOSITORY / "recipes/tiny-cpu.yaml")
NPU_RECIPE = str(REPOSITORY / "recipes/qwen2.5-1.5b-gsm8k-aqn-npu.yaml")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_plan_says_first_how_many_runs_and_steps_and_findings() -> None:
    first, *others = rlx("plan", RECIPE, "--seed", "1,2").stdout.splitlines()
    assert first == "4 runs · 20 steps each · 2 notes"
    assert others[0].startswith("  note RLX")
    table = [line.split() for line in others[others.index("") + 1 :]]
    assert [row[:4] for row in table] == [
        ["arm", "seed", "steps", "validated"],
        ["baseline", "1,", "2", "20"],
        ["aqn", "1,", "2", "20"],
        ["in", *table[-1][1:]],
    ]
    assert "command" not in others


def test_the_plan_says_what_the_fullest_device_takes() -> None:
    first = rlx("plan", NPU_RECIPE).stdout.partition("\n")[0]
    used = re.fullmatch(r"3 runs · 116 steps each · up to (\d+) of 61 GiB per device · 5 notes", first)
    assert used and 40 < int(used[1]) < 61


def test_the_details_of_a_plan_are_behind_an_option() -> None:
    short, long = rlx("plan", RECIPE).stdout, rlx("plan", RECIPE, "-v").stdout
    assert long.startswith(short.partition("\n\n")[0])
    for section in ("command", "files", "environment", "expectations"):
        assert f"\n{section}\n" in long and f"\n{section}\n" not in short
    assert "\n--- launch.sh\n" in rlx("plan", RECIPE, "--files").stdout


def test_a_plan_without_noise_has_no_column_of_it() -> None:
    assert re.search(r"^arm .* noise ", rlx("plan", RECIPE).stdout, re.MULTILINE)
    assert not re.search(r"^arm .* noise ", rlx("plan", RECIPE, "--arm", "baseline").stdout, re.MULTILINE)


def test_a_comparison_says_first_what_may_be_quoted() -> None:
    place_runs(CASES / "six-runs")
    for form in ((), ("--md",)):
        first, second, *others = [line for line in rlx("compare", "baseline", "aqn", *form).stdout.splitlines() if line]
        assert "no difference shown between baseline and aqn" in first
        assert re.match(r"aqn against baseline: at step 20: \+4\.0 points", second)
        assert others[0].strip("*") == "val-core/rlx/tiny-addition/acc/mean@1"
        assert not any("at step 20: +4.0 points" in line for line in others)


def test_remarks_about_a_comparison_follow_its_answer() -> None:
    place_runs(CASES / "six-runs")
    text = on_terminal("compare", "aqn", "baseline", columns=200).text
    assert 0 < text.index("baseline against aqn: at step 20") < text.index("aqn is the control here")


def test_status_has_ages_and_no_noise_where_there_is_none() -> None:
    (ref,) = start(toy_plan("echo 1", arm="main"))
    ended(ref)
    heading, row = rlx("status").stdout.splitlines()[1:3]
    assert heading.split()[-1] == "AGE" and "NOISE" not in heading and "LEFT" not in heading
    assert re.search(r"\d+ (?:s|min)\s*$", row)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (7200, "2 h"), (86399, "23 h"), (800_000, "9 d")]
)
def test_ages_have_one_unit(seconds: float, words: str) -> None:
    assert age(seconds) == words


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_no_word_is_cut_on_a_terminal(columns: int) -> None:
    text = rlx("plan", RECIPE).stdout.partition("\n\n")[0]
    shown = on_terminal("plan", RECIPE, columns=columns)
    # The path of a test is longer than a terminal is wide.
    assert max(len(line) for line in shown.lines if not line.startswith("in ")) <= columns
    assert text.split() == shown.text.partition("\n\n")[0].split()


def test_errors_are_red_and_warnings_yellow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = "  error RLX010 x\nrlx: warning: y\n  note RLX001 error: z\nno error RLX010"
    *coloured, note, words = laid_out(text, Terminal()).split("\n")
    assert coloured == ["  \x1b[31merror\x1b[0m RLX010 x", "rlx: \x1b[33mwarning\x1b[0m: y"]
    assert (note, words) == ("  note RLX001 error: z", "no error RLX010")
    assert laid_out(text, io.StringIO()) == text
    monkeypatch.setenv("NO_COLOR", "1")
    assert laid_out(text, Terminal()) == text


def test_validate_colours_its_findings() -> None:
    words = ("validate", RECIPE, "--set", "train.lr=much")
    assert "\x1b[31merror\x1b[0m RLX" in on_terminal(*words, NO_COLOR="").written
    assert "\x1b" not in rlx(*words, code=2).stdout


def test_a_long_line_goes_on_indented_and_a_long_word_stays_whole() -> None:
    assert wrapped("  one two three", 10) == "  one two\n    three"
    assert wrapped(f"a {'x' * 20} b", 10) == f"a\n  {'x' * 20}\n  b"
    assert wrapped("short", 10) == "short"


RUNS = ("tiny-cpu-baseline-s1", "tiny-cpu-aqn-s1", "tiny-cpu-aqn-s2")


@pytest.mark.parametrize("columns", [80, 100])
def test_three_arms_are_compared_within_the_terminal(columns: int) -> None:
    """Arms and differences are parted where they do not fit side by side; no name or number is cut."""
    place_runs(CASES / "six-runs")
    whole = rlx("compare", *RUNS).stdout
    seen = on_terminal("compare", *RUNS, columns=columns)
    assert max(map(len, seen.lines)) <= columns
    (heading,) = [line for line in whole.splitlines() if line.split()[:1] == ["step"]]
    parts = [line for line in seen.lines if line.split()[:1] == ["step"]]
    assert (len(parts) > 1) is (len(heading) > columns)
    assert " ".join(" ".join(part.split()[1:]) for part in parts) == " ".join(heading.split()[1:])
    numbers = {word for line in whole.splitlines() if re.match(r"\s+20 ", line) for word in line.split()[1:]}
    assert numbers <= {word for line in seen.lines if re.match(r"\s+20 ", line) for word in line.split()[1:]}


def test_a_bundle_says_first_whether_it_agrees() -> None:
    """Another version of rlx may word it differently; that is an outcome, too."""
    lines = list(judged_lines(front_door.judge_bundle(REPOSITORY / "docs/example-ab/difference.tar.gz")))
    assert lines[0].startswith(("agrees: ", "worded differently in "))
    (contents,) = [number for number, line in enumerate(lines) if "difference.tar.gz: " in line]
    assert contents > lines.index("")


def test_a_table_without_room_becomes_lists() -> None:
    path = f"/{'long/' * 30}root"
    table = Table([Column("setting", ["root"]), Column("value", [path], flows=True), Column("from", ["x"], rank=1)])
    file = io.StringIO()
    Console(file=file, width=60).print(fitted(table, 60), crop=False)
    assert [line.strip() for line in file.getvalue().splitlines()] == ["root", "value:", path, "from: x"]
