"""What a person reads of a run on a terminal: values instead of lines, and tables that fit."""

from __future__ import annotations

import csv
import json
from io import StringIO

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.runs import RunRef
from tests.cli.support import rlx
from tests.cli.terminal import on_terminal
from tests.runs.toys import ended, start, start_one, toy_plan

METRIC = "val-core/toy/acc/mean@1"
_REST = " - ".join(f"actor/number_{number}:{number}.5" for number in range(150))


def script(values: dict[int, float]) -> str:
    return "\n".join(f'echo "step:{step} - {_REST} - {METRIC}:{value}"' for step, value in values.items())


def two_arms() -> tuple[RunRef, ...]:
    first, second = {0: 0.25, 5: 0.3, 10: 0.5}, {0: 0.25, 5: 0.35, 10: 0.6}
    runs = start(toy_plan(script(first), arm="baseline"), toy_plan(script(second), arm="aqn"))
    for ref in runs:
        ended(ref)
    return runs


def test_values_instead_of_lines_on_a_terminal() -> None:
    two_arms()
    seen = on_terminal("logs", "--grep", "val-core")
    assert seen.code == 0
    assert seen.lines[:11] == [
        METRIC,
        "  step  arm       value",
        "     0  baseline   0.25",
        "     0  aqn        0.25",
        "     5  baseline    0.3",
        "     5  aqn        0.35",
        "    10  baseline    0.5",
        "    10  aqn         0.6",
        "  baseline  ▁▂▆  0.25 → 0.5",
        "  aqn       ▁▃█  0.25 → 0.6",
        "",
    ]
    assert "rlx status" in seen.lines[-1]
    assert max(map(len, seen.lines)) <= 80


def test_whole_lines_where_they_are_asked_for_or_piped() -> None:
    two_arms()
    piped = rlx("logs", "baseline", "--grep", "val-core").stdout
    assert piped.count(_REST) == 3
    assert on_terminal("logs", "baseline", "--grep", "val-core", "--raw", columns=9999).text.count(_REST) == 3


def test_a_line_that_matches_by_more_than_a_name_is_shown_whole() -> None:
    two_arms()
    seen = on_terminal("logs", "aqn", "--grep", "^step:10 ", columns=9999)
    assert _REST in seen.text


def test_a_pattern_is_read_as_grep_reads_it() -> None:
    two_arms()
    assert len(rlx("logs", "aqn", "--grep", "^step:10[[:space:]]-").stdout.splitlines()) == 1


def test_what_grep_finds_stands_out_on_a_terminal_with_colours() -> None:
    (ref,) = start(toy_plan("printf 'a loss of \\033[32m1.5\\033[0m\\n(loss) (\\n'"))
    ended(ref)

    def written(*arguments: str, **variables: str) -> str:
        return on_terminal("logs", *arguments, **{"NO_COLOR": "", **variables}).written

    loss = "\x1b[1;31mloss\x1b[0m"
    for words in (("--grep", "lo[s]+"), ("--grep", "loss", "--raw"), ("--grep", "loss", "-F", "-f")):
        assert f"a {loss} of 1.5\n({loss}) (\n" in written(*words)
    assert "\x1b[1;31m(\x1b[0mloss) \x1b[1;31m(\x1b[0m" in written("--grep", "(", "-F")
    for words in (("--grep", "[[:alpha:]]+"), ("--grep", "x*"), ()):
        assert "\x1b" not in written(*words)
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in written("--grep", "loss", **variables)
    assert "\x1b" not in rlx("logs", "--grep", "loss").stdout


@pytest.mark.parametrize("pattern", ["nothing-of-this", "step:11 "])
def test_no_match_is_told_and_ends_with_1_as_grep_does(pattern: str, wording: SnapshotAssertion) -> None:
    two_arms()
    told = rlx("logs", "--grep", pattern, code=1)
    assert told.stdout == "" and pattern in told.stderr and told.stderr == wording
    assert on_terminal("logs", "--grep", pattern).code == 1


def test_many_metrics_have_one_line_each() -> None:
    two_arms()
    seen = on_terminal("logs", "baseline", "--grep", "actor/number_1.:")
    assert "actor/number_10" in seen.lines
    assert seen.lines[seen.lines.index("actor/number_10") + 1].startswith("  baseline  ")
    assert not any("step" in line and "value" in line for line in seen.lines)


def test_values_come_at_once_while_a_run_is_followed() -> None:
    start(toy_plan(script({5: 0.5}) + "\nsleep 1\n" + script({10: 0.75})))
    seen = on_terminal("logs", "-f", "--grep", "val-core")
    assert seen.lines == [f"step 5  0.5  {METRIC}", f"step 10  0.75  {METRIC}"]


def test_logs_as_json() -> None:
    runs = two_arms()
    answer = json.loads(rlx("logs", "aqn", "--grep", "step:10 ", "--json").stdout)
    (line,) = answer["lines"]
    assert line["run_id"] == runs[1].run_id
    assert line["metrics"][0]["step"] == 10
    assert line["metrics"][0]["values"][METRIC] == 0.6
    refused = rlx("logs", "-f", "--json", code=2).stderr
    assert "-f" in refused and "--json" in refused


def test_metrics_by_step() -> None:
    two_arms()
    out = rlx("metrics", "baseline,aqn", "val-core/*").stdout.splitlines()
    assert out[0] == METRIC
    assert out[6].split() == ["10", "baseline", "0.5", "(incomplete)"]
    assert "0.25 → 0.6" in out[9]
    overview = rlx("metrics", "aqn").stdout
    assert "actor/number_149" in overview
    assert "  step  arm" not in overview


def test_metrics_that_never_change_stand_at_the_end(wording: SnapshotAssertion) -> None:
    lines = "".join(f"echo 'step:{step} - moves:{step}.5 - stays:7.0 - a:nan'\n" for step in (1, 2, 3))
    (ref,) = start(toy_plan(lines))
    ended(ref)
    out = rlx("metrics", ref.run_id).stdout.splitlines()
    heads = [line for line in out if not line.startswith(" ")]
    assert heads[0] == "moves" and heads == wording
    assert "  stays  7" in out[out.index(heads[1]) :]
    assert rlx("metrics", ref.run_id, "stays").stdout.splitlines()[0] == "stays"


def test_metrics_of_a_run_that_is_no_result_say_so() -> None:
    (ref,) = start(toy_plan(script({5: 0.5}) + "\nexit 3"))
    ended(ref)
    assert rlx("metrics", ref.run_id, METRIC).stdout.count("0.5 (incomplete)") == 2
    answer = json.loads(rlx("metrics", ref.run_id, METRIC, "--json").stdout)
    assert answer["runs"][0]["is_result"] is False
    assert answer["runs"][0]["metrics"] == {METRIC: [[5, 0.5]]}


def test_metrics_as_csv_and_as_a_plot() -> None:
    runs = two_arms()
    rows = list(csv.DictReader(StringIO(rlx("metrics", "baseline,aqn", METRIC, "--csv").stdout)))
    assert [(row["arm"], row["step"], row["value"]) for row in rows][2:4] == [
        ("baseline", "10", "0.5"),
        ("aqn", "0", "0.25"),
    ]
    assert rows[0]["run_id"] == runs[0].run_id
    drawn = rlx("metrics", "baseline,aqn", METRIC, "--plot", "-").stdout
    assert "baseline" in drawn
    assert "┤" in drawn
    assert "x.png" in rlx("metrics", "aqn", "--plot", "x.png", code=2).stderr


def test_a_metric_that_nobody_logged_has_near_names() -> None:
    two_arms()
    error = rlx("metrics", "aqn", "val-core/toy/acc/maen@1", code=1).stderr
    assert METRIC in error


@pytest.mark.parametrize("columns", [120, 80, 50, 40])
def test_status_fits_and_cuts_no_name(columns: int) -> None:
    two_arms()
    seen = on_terminal("status", columns=columns)
    table = [line for line in seen.lines if line.startswith(("ARM", "baseline", "aqn"))]
    assert len(table) == 3
    assert max(map(len, seen.lines)) <= columns
    assert [line.split()[:2] for line in table] == [["ARM", "STATE"], ["baseline", "finished"], ["aqn", "finished"]]
    assert "VERDICT" in table[0]
    assert ("S/STEP" in table[0]) is (columns >= 80)
    assert seen.text.count("(incomplete)") == (2 if "VAL-CORE" in table[0] else 0)


def test_recipes_are_never_cut() -> None:
    seen = on_terminal("recipes", columns=50)
    names = [row["name"] for row in json.loads(rlx("recipes", "--json").stdout)["recipes"]]
    assert set(names) <= {line.split()[0] for line in seen.lines if line}


def test_a_run_that_goes_on_says_what_may_become_of_it() -> None:
    start_one(script({1: 0.5}) + "\nsleep 300")
    (row,) = json.loads(rlx("status", "--json").stdout)["runs"]
    assert row["outlook"] == {"word": "unverified", "why": ""}


def test_runs_by_what_is_known_of_them(wording: SnapshotAssertion) -> None:
    two_arms()
    (failed,) = start(toy_plan("exit 3", arm="aqn", seed=2))
    ended(failed)

    def found(where: str) -> list[str]:
        return [run["run_id"] for run in json.loads(rlx("status", "--where", where, "--json").stdout)["runs"]]

    assert found("arm=aqn,state=failed") == [failed.run_id]
    assert len(found("arm=aqn")) == 2
    assert found("verdict=valid,seed=9") == []
    assert "seed=9" in rlx("status", "--where", "seed=9").stderr
    assert "KEY=VALUE" in rlx("status", "--where", "colour=red", code=2).stderr
    assert rlx("status", "--where", "arm=a,arm=b", code=2).stderr == wording
