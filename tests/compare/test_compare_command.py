"""`rlx compare` on run directories as rlx leaves them: manifest, log, exit record."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from rlx.cli.compare import compare
from rlx.errors import ExitCode, NoSuchRun, UsageError
from rlx.plan import LOCAL, Finding, LaunchPlan, NoiseSchedule, Severity, Site
from rlx.runs.manifest import render_manifest
from rlx.runs.run import RunRef
from tests.compare.builders import RunBuilder

METRIC = "val-core/gsm8k/acc/mean@1"
CONTROL = RunBuilder(series={0: 0.1, 3: 0.62, 6: 0.68}, planned_rows=100, recipe={"train": {"lr": 1e-6}})
TREATMENT = RunBuilder(
    arm="fast",
    series={0: 0.1, 3: 0.71, 6: 0.7},
    planned_rows=100,
    recipe={"train": {"lr": 2e-6}},
    treatment=("train.lr",),
)
# Six steps that should have had noise, of which the log shows none.
SILENT = replace(
    TREATMENT,
    arm="aqn",
    recipe={"aqn": {"stages": 3}},
    treatment=("aqn.stages",),
    noise=NoiseSchedule((0.0, 0.0, 0.05, 0.05, 0.01, 0.01), 3, ("rmsnorm",), "payload", False),
)
Said = Callable[..., tuple[ExitCode, str]]


@pytest.fixture
def runs_of() -> Iterator[Callable[..., None]]:
    with subprocess.Popen(["sleep", "600"]) as supervisor:

        def write(*builders: RunBuilder, finished: bool = True) -> None:
            for builder in builders:
                write_run(builder.plan(), builder.series, None if finished else supervisor.pid)

        yield write
        supervisor.kill()


def write_run(plan: LaunchPlan, series: Mapping[int, float], supervisor: int | None) -> None:
    """One run directory below $RLX_ROOT, 100 validation rows; one that is still supervised has a step to go."""
    finished = supervisor is None
    root, now = os.environ["RLX_ROOT"], time.time()
    plan = replace(plan, site=Site(root=root))
    launch_id = "20261120-120000-abcdef"
    ref = RunRef(f"{plan.run_name}-20261120-120000-abcd", launch_id, plan.name, plan.arm, plan.seed, LOCAL, root, now)
    state = ref.run_dir / "attempts" / "1" / "state"
    state.mkdir(parents=True)
    (ref.run_dir / "manifest.json").write_text(render_manifest(ref, 0, plan))
    steps = range(max(series) + finished)
    shown = {step: {"timing_s/step": 1.0, **({METRIC: series[step]} if step in series else {})} for step in steps}
    (state.parent / "log").write_text("\n".join(log_lines(shown, max(series))) + "\n")
    metrics = [json.dumps({"step": step, "data": data}) for step, data in shown.items()]
    (state.parent / "metrics.jsonl").write_text("\n".join(metrics) + "\n")
    (state / "started").touch()
    if supervisor is None:
        (state / "exit").write_text(f"0 leader {now:.0f} 100\n")
    else:
        (state / "supervisor").write_text(identity_of(supervisor) + "\n")


def log_lines(shown: Mapping[int, Mapping[str, float]], total: int) -> list[str]:
    lines = ["train dataset size: 400, val dataset size: 100", f"Total training steps: {total}"]
    for step, values in shown.items():
        words = " - ".join(f"{key}:np.float64({value})" for key, value in values.items())
        lines.append(f"(TaskRunner pid=7) step:{step} - {words}")
    return lines


def identity_of(pid: int) -> str:
    tick = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    return f"{pid} {tick} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*names: str, **options: Any) -> tuple[ExitCode, str]:
        with pytest.raises(typer.Exit) as ended:
            compare(names[0], list(names[1:]), **options)
        return ExitCode(ended.value.exit_code), capsys.readouterr().out

    return run


def test_valid_arms(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK
    assert "at step 6: +2.0 points" in text
    assert "n = 100 from the plan and the log" in text
    assert "no significant difference between these two checkpoints (p = 0.76, n = 100;" in text
    assert "one seed per arm: nothing follows about the treatment (fast)" in text
    assert "declared treatment: train.lr: 1e-06 → 2e-06" in text
    assert "~~" not in text


def test_invalid_arm_is_struck_through_in_every_format(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL, SILENT)
    for options in ({}, {"as_markdown": True}, {"as_csv": True}):
        code, text = say("baseline", "aqn", **options)
        assert code is ExitCode.NOT_VERIFIED
        assert "~~0.7" in text and "(invalid)" in text
        assert "p =" not in text
    code, text = say("baseline", "aqn", as_json=True)
    answer = json.loads(text)
    assert code is ExitCode.NOT_VERIFIED
    assert answer["reportable"] is False
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
    assert text.count("RLX104 note: waived (a patched fork): micro batches") == 2
    assert "RLX620" not in text
    answer = json.loads(say("baseline", "fast", as_json=True)[1])
    assert answer["control"]["verdict"]["findings"][-1]["waived"] == "a patched fork"


def test_a_waiver_is_no_difference_of_the_runs(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL, replace(TREATMENT, recipe={**TREATMENT.recipe, "waive": {"RLX104": "a patched fork"}}))
    assert "waive" not in say("baseline", "fast")[1]


def test_terminal_with_styles_crosses_out(
    runs_of: Callable[..., None], say: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs_of(CONTROL, SILENT)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    text = say("baseline", "aqn")[1]
    assert "\x1b[2;9m0.7000\x1b[0m" in text
    assert "aqn (invalid)" in text
    assert "~~" not in text


def test_unfinished_run_is_interim(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL)
    runs_of(TREATMENT, finished=False)
    code, text = say("baseline", "fast")
    assert code is ExitCode.NOT_FINISHED
    assert "fast (running)" in text
    assert "interim: no p-value before both runs have finished" in text
    assert "p =" not in text


def test_csv_holds_the_values_of_the_log_by_step(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    rows = list(csv.reader(say("baseline", "fast", as_csv=True)[1].splitlines()))
    assert rows[0] == ["step", "baseline", "fast", "fast - baseline (points)"]
    assert rows[1:] == [["0", "0.1", "0.1", "+0"], ["3", "0.62", "0.71", "+9"], ["6", "0.68", "0.7", "+2"]]


def test_markdown_is_a_table_and_a_list(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    lines = say("baseline", "fast", as_markdown=True)[1].splitlines()
    assert lines[2:4] == ["| step | baseline | fast | fast - baseline (points) |", "| ---: | ---: | ---: | ---: |"]
    assert "| 6 | 0.6800 | 0.7000 | +2.0 |" in lines
    assert "| peak | 0.68 @ 6 | 0.71 @ 3 |  |" in lines
    assert any(line.startswith("- no significant difference") for line in lines)


def test_json_has_every_number(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL, TREATMENT)
    answer = json.loads(say("baseline", "fast", as_json=True)[1])
    assert (answer["schema_version"], answer["reportable"], answer["verified"]) == (1, True, True)
    assert answer["steps"][-1] == {"step": 6, "values": [0.68, 0.7]}
    (contrast,) = answer["contrasts"]
    assert contrast["test"]["n"] == 100
    assert contrast["difference"] == pytest.approx(0.02)
    assert [item["key"] for item in contrast["differences"]] == ["train.lr"]


def test_several_seeds_of_an_arm_want_one_named(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL, TREATMENT, replace(TREATMENT, seed=2))
    with pytest.raises(NoSuchRun, match="fast is 2 runs") as caught:
        compare("baseline", ["fast"])
    assert "gsm8k-fast-s2-20261120-120000-abcd" in caught.value.hint
    code, text = say("baseline", "gsm8k-fast-s2")
    assert code is ExitCode.OK
    assert "RLX903 warning" in text and "seed: 1 → 2" in text


def test_seed_picks_the_run_of_each_arm(runs_of: Callable[..., None], say: Said) -> None:
    runs_of(CONTROL, replace(CONTROL, seed=2), TREATMENT, replace(TREATMENT, seed=2))
    assert "seed 2 · gsm8k-fast-s2" in say("baseline", "fast", seed=2)[1]
    with pytest.raises(NoSuchRun, match="baseline has no run with seed 3"):
        compare("baseline", ["fast"], seed=3)


def test_formats_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        compare("a", ["b"], as_csv=True, as_json=True)


def test_one_run_is_not_compared_with_itself(runs_of: Callable[..., None]) -> None:
    runs_of(CONTROL)
    with pytest.raises(UsageError, match="is named twice"):
        compare("baseline", ["gsm8k-baseline-s1"])
