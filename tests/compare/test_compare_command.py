"""`rlx compare` on run directories as rlx leaves them."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.cli.compare import compare
from rlx.errors import ExitCode, UsageError
from rlx.model import Finding, Severity
from tests.cli.support import rlx
from tests.compare.conftest import Said
from tests.compare.run_dirs import CONTROL, SILENT, TREATMENT, write_run

RunsOf = Callable[..., None]


def test_valid_arms(runs_of: RunsOf, say: Said, wording: SnapshotAssertion) -> None:
    runs_of(CONTROL, TREATMENT)
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK
    assert all(fact in text for fact in ("+2.0 points", "p = 0.76", "n = 100", "train.lr: 1e-06 → 2e-06"))
    assert "~~" not in text
    assert text == wording


def test_invalid_arm_is_marked_in_every_format(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, SILENT)
    forms = (({}, "0.7000 (invalid)"), ({"as_markdown": True}, "~~0.7000~~ (invalid)"), ({"as_csv": True}, ",invalid"))
    for options, mark in forms:
        code, text = say("baseline", "aqn", **options)
        assert code is ExitCode.NOT_VERIFIED
        assert mark in text
        assert "p =" not in text
    code, text = say("baseline", "aqn", as_json=True)
    answer = json.loads(text)
    assert code is ExitCode.NOT_VERIFIED
    assert answer["reportable"] is False
    assert (answer["control"]["struck"], answer["treatments"][0]["struck"]) == (False, True)
    assert answer["contrasts"][0]["test"] is None
    assert "RLX601" in {finding["id"] for finding in answer["treatments"][0]["verdict"]["findings"]}


def test_what_was_waived_before_the_launch_is_said(say: Said) -> None:
    taken = Finding("RLX104", Severity.NOTE, "waived (a patched fork): micro batches", waived="a patched fork")
    other = Finding("RLX620", Severity.NOTE, "only a note")
    for builder in (CONTROL, TREATMENT):
        plan = replace(builder.plan(), findings=(taken, other), recipe={**builder.plan().recipe, "waive": {}})
        write_run(plan, builder.series, None)
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK
    assert text.count("note RLX104 waived (a patched fork): micro batches") == 2
    assert "RLX620" not in text
    answer = json.loads(say("baseline", "fast", as_json=True)[1])
    assert answer["control"]["verdict"]["findings"][-1]["waived"] == "a patched fork"


def test_a_waiver_is_no_difference_of_the_runs(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, replace(TREATMENT, recipe={**TREATMENT.recipe, "waive": {"RLX104": "a patched fork"}}))
    assert "waive" not in say("baseline", "fast")[1]


def test_terminal_with_styles_crosses_out(runs_of: RunsOf, say: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    runs_of(CONTROL, SILENT)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    text = say("baseline", "aqn")[1]
    assert "\x1b[2;9m0.7000\x1b[0m" in text
    assert "aqn (invalid)" in text
    assert "~~" not in text


def test_unfinished_run_is_interim(runs_of: RunsOf, say: Said, wording: SnapshotAssertion) -> None:
    runs_of(CONTROL)
    runs_of(TREATMENT, finished=False)
    code, text = say("baseline", "fast")
    assert code is ExitCode.NOT_FINISHED
    assert "fast (running)" in text
    assert "p =" not in text
    assert text == wording


def test_csv_holds_the_values_of_the_log_by_step(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    rows = list(csv.reader(say("baseline", "fast", as_csv=True)[1].splitlines()))
    numbers, verdicts = [row[:4] for row in rows], [row[4:] for row in rows]
    assert numbers[0] == ["step", "baseline", "fast", "fast - baseline (points)"]
    assert numbers[1:] == [["0", "0.1", "0.1", "+0"], ["3", "0.62", "0.71", "+9"], ["6", "0.68", "0.7", "+2"]]
    assert verdicts[0] == ["baseline verdict", "fast verdict", "fast - baseline verdict"]
    assert verdicts[1:] == 3 * [["valid", "valid", "valid"]]


def test_markdown_is_a_table_and_a_list(runs_of: RunsOf, say: Said, wording: SnapshotAssertion) -> None:
    runs_of(CONTROL, TREATMENT)
    lines = say("baseline", "fast", as_markdown=True)[1].splitlines()
    start = lines.index("| step | baseline | fast | fast - baseline (points) |")
    assert lines[start + 1] == "| ---: | ---: | ---: | ---: |"
    assert "| 6 | 0.6800 | 0.7000 | +2.0 |" in lines
    assert "| peak | 0.68 @ 6 | 0.71 @ 3 |  |" in lines
    assert lines == wording


def test_json_has_every_number(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    answer = json.loads(say("baseline", "fast", as_json=True)[1])
    assert (answer["schema_version"], answer["reportable"], answer["verified"]) == (1, True, True)
    assert answer["steps"][-1] == {"step": 6, "values": [0.68, 0.7]}
    (contrast,) = answer["contrasts"]
    assert contrast["test"]["n"] == 100
    assert contrast["difference"] == pytest.approx(0.02)
    assert [item["key"] for item in contrast["differences"]] == ["train.lr"]


def test_json_of_one_run_an_arm_has_its_keys_where_they_were(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    control = json.loads(say("baseline", "fast", as_json=True)[1])["control"]
    assert (control["seed"], control["state"], control["verdict"]["status"]) == (1, "finished", "valid")
    assert control["runs"][0]["run_id"] == control["run_id"]


def test_formats_exclude_each_other(wording: SnapshotAssertion) -> None:
    with pytest.raises(UsageError, match=r"--csv.*--json") as refused:
        compare("a", ["b"], as_csv=True, as_json=True)
    assert refused.value.message == wording


def test_one_run_is_not_compared_with_itself(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    runs_of(CONTROL)
    with pytest.raises(UsageError, match="baseline") as refused:
        compare("baseline", ["gsm8k-baseline-s1"])
    assert refused.value.message == wording


def test_every_number_of_an_excluded_arm_is_marked_its_speed_too(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, SILENT)
    table = [line.split(" | ") for line in say("baseline", "aqn", as_markdown=True)[1].splitlines() if line[:1] == "|"]
    cells = [cell.strip(" |") for row in table[2:] for cell in row[2:]]
    assert any("1" in cell for cell in cells)
    assert all(cell.startswith("~~") and cell.endswith("~~ (invalid)") for cell in cells if cell)


def test_what_a_log_says_is_no_tag_and_no_command_in_markdown(tmp_path: Path) -> None:
    metric = "val-core/<script>\x1b[31m\nx/acc/mean@1"
    for arm, last in (("one", 0.5), ("two", 0.25)):
        log = tmp_path / f"{arm}.jsonl"
        log.write_text(
            "".join(json.dumps({"step": step, "data": {metric: last * step}}) + "\n" for step in (1, 2)),
            encoding="utf-8",
        )
        rlx("import", str(log), "--name", "old", "--arm", arm)
    done = rlx("compare", "one", "two", "--md", code=14).stdout
    assert "\n**val-core/&lt;script>" in done and "x/acc/mean@1**\n\n| step |" in done
    assert "\x1b" not in done and "<" not in done


@pytest.mark.parametrize("command", ["compare", "report"])
def test_a_seed_that_no_run_can_have_is_refused(command: str) -> None:
    assert "--seed" in rlx(command, "baseline", "fast", "--seed", "-5", code=ExitCode.USAGE).stderr


GAP = "training/rollout_probs_diff_mean"


def set_gaps(run: Path, gaps: Callable[[int, float], float]) -> None:
    """Changes the gap between rollout and actor in both records of a run."""
    attempt = run / "attempts/1"
    rows = [json.loads(line) for line in (attempt / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if GAP in row["data"]:
            row["data"][GAP] = gaps(row["step"], row["data"][GAP])
    (attempt / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    log = attempt / "log"
    log.write_text(re.sub(rf" - {re.escape(GAP)}:\S+", "", log.read_text(encoding="utf-8")), encoding="utf-8")


@pytest.mark.long
def test_what_a_witness_of_the_run_contradicts_is_no_result_whatever_is_allowed(pair: dict[str, Path]) -> None:
    set_gaps(pair["aqn"], lambda step, gap: gap + (0.05 if step == 2 else 0.0))
    odd = json.loads(rlx("compare", "baseline", "aqn", "--json").stdout)["treatments"][0]
    assert not odd["verdict"]["dissent"], "one odd step is no contradiction"
    set_gaps(pair["aqn"], lambda step, _: 1.3e-7 + 1e-8 * math.sin(step))
    for option in ([], ["--allow-unverified"]):
        answer = json.loads(rlx("compare", "baseline", "aqn", "--json", *option, code=14).stdout)
        assert not answer["reportable"] and answer["treatments"][0]["struck"]
        assert answer["contrasts"][0]["p_value"] is None
    shown = rlx("compare", "baseline", "aqn", "--md", code=14).stdout
    assert "~~" in shown and "(contradicted)" in shown
    assert answer["treatments"][0]["verdict"]["dissent"] and answer["treatments"][0]["verdict"]["sentence"] in shown
    (row,) = [line for line in rlx("status", "aqn").stdout.splitlines() if line.startswith("aqn ")]
    assert " (contradicted)  " in row and re.search(r"  contradicted  \d+ (?:s|min)$", row.rstrip())
