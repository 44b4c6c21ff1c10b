"""`rlx compare` on arms of several seeds: which runs a name means, and how they are shown."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import typer

from rlx.cli.compare import compare
from rlx.errors import ExitCode, NoSuchRun, UsageError
from tests.compare.builders import RunBuilder
from tests.compare.conftest import Said
from tests.compare.run_dirs import CONTROL, SILENT, TREATMENT

RunsOf = Callable[..., None]


def seeds(builder: RunBuilder, *finals: float) -> list[RunBuilder]:
    return [
        replace(builder, seed=seed, series={**builder.series, 6: final}) for seed, final in enumerate(finals, start=1)
    ]


def test_seeds_of_an_arm_are_its_runs(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, TREATMENT, replace(TREATMENT, seed=2))
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK
    assert "0.7000 ± 0.0000" in text
    assert "one seed of baseline: nothing follows about the treatment (fast)" in text
    code, text = say("baseline", "gsm8k-fast-s2")
    assert code is ExitCode.OK
    assert "warning RLX903" in text and "seed: 1 → 2" in text


def test_seed_narrows_each_arm(runs_of: RunsOf, say: Said) -> None:
    runs_of(CONTROL, replace(CONTROL, seed=2), TREATMENT, replace(TREATMENT, seed=2))
    assert "seed 2 · gsm8k-fast-s2" in say("baseline", "fast", seeds=[2])[1]
    for wanted in ([3], [1, 3]):
        with pytest.raises(NoSuchRun, match="baseline has no run with seed 3"):
            compare("baseline", ["fast"], seeds=wanted)


def test_who_stands_as_control_is_said(runs_of: RunsOf, capsys: pytest.CaptureFixture[str]) -> None:
    runs_of(CONTROL, TREATMENT)
    with pytest.raises(typer.Exit):
        compare("fast", ["baseline"])
    said = capsys.readouterr().err
    assert "fast stands as the control here; by its recipe baseline is" in said


def test_several_seeds_an_arm_say_something_about_the_treatment(runs_of: RunsOf, say: Said) -> None:
    runs_of(*seeds(CONTROL, 0.68, 0.69, 0.7), *seeds(TREATMENT, 0.7, 0.71, 0.72))
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK
    assert "baseline (mean ± sd of 3)" in text and "0.6900 ± 0.0100" in text
    assert "no significant difference between baseline and fast (p = 0.07, 3 and 3 seeds;" in text
    assert "nothing follows" not in text
    rows = list(csv.reader(say("baseline", "fast", as_csv=True)[1].splitlines()))
    assert rows[0][:6] == ["step", "baseline (mean of 3)", "baseline sd", "baseline-s1", "baseline-s2", "baseline-s3"]
    assert rows[-1][3:6] == ["0.68", "0.69", "0.7"]
    answer = json.loads(say("baseline", "fast", as_json=True)[1])
    assert [run["seed"] for run in answer["control"]["runs"]] == [1, 2, 3]
    assert [run["series"]["6"] for run in answer["treatments"][0]["runs"]] == [0.7, 0.71, 0.72]
    assert answer["contrasts"][0]["test"]["method"].startswith("Welch's t test")


def test_unequal_numbers_of_seeds_are_said_with_what_they_cost(runs_of: RunsOf, say: Said) -> None:
    runs_of(*seeds(CONTROL, 0.68, 0.69), *seeds(TREATMENT, 0.7, 0.71, 0.72))
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK and "p = " in text
    assert (
        "warning RLX911 baseline has 2 seeds and fast 3: where the smaller arm spreads more widely, the test finds a "
        "difference that is not there in up to 9 % of cases, not in 5 %"
    ) in text
    assert "fix: compare equal numbers of seeds" in text
    assert "two seeds an arm: where one arm spreads ten times as widely" in say("baseline", "fast", seeds=[1, 2])[1]


def test_equal_numbers_of_three_seeds_need_no_warning(runs_of: RunsOf, say: Said) -> None:
    runs_of(*seeds(CONTROL, 0.68, 0.69, 0.7), *seeds(TREATMENT, 0.7, 0.71, 0.72))
    assert "RLX911" not in say("baseline", "fast")[1]


def test_one_invalid_seed_strikes_its_arm_and_no_other_seed(runs_of: RunsOf, say: Said) -> None:
    # Six steps without noise: an arm of which one run promises none.
    runs_of(CONTROL, replace(SILENT, noise=None), replace(SILENT, seed=2))
    code, text = say("baseline", "aqn")
    assert code is ExitCode.NOT_VERIFIED
    assert "aqn (mean ± sd of 2, 1 invalid)" in text
    assert "warning RLX909 1 of 2 runs of aqn are no result (aqn-s2 is invalid)" in text
    *_, last = csv.DictReader(say("baseline", "aqn", as_csv=True)[1].splitlines())
    assert [last[name] for name in ("aqn-s1", "aqn-s1 verdict")] == ["0.7", "valid"]
    assert [last[name] for name in ("aqn-s2", "aqn-s2 verdict", "aqn verdict")] == ["0.7", "invalid", "invalid"]


def test_newest_launch_counts(runs_of: RunsOf, capsys: pytest.CaptureFixture[str]) -> None:
    runs_of(*seeds(CONTROL, 0.5, 0.6))
    runs_of(*seeds(CONTROL, 0.68), TREATMENT, minute=5)
    with pytest.raises(typer.Exit):
        compare("baseline", ["fast"], as_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["control"]["run_id"] == "gsm8k-baseline-s1-20261120-120500-abcd"
    assert "launched apart" not in shown.err


def test_names_joined_by_commas_are_one_arm(runs_of: RunsOf, capsys: pytest.CaptureFixture[str]) -> None:
    runs_of(*seeds(CONTROL, 0.68), *seeds(TREATMENT, 0.7))
    runs_of(*seeds(CONTROL, 0.68, 0.69)[1:], *seeds(TREATMENT, 0.7, 0.71)[1:], minute=5)
    with pytest.raises(typer.Exit):
        compare("gsm8k-baseline-s2,gsm8k-baseline-s1", ["gsm8k-fast-s1,gsm8k-fast-s2"])
    shown = capsys.readouterr()
    assert "no significant difference between baseline and fast" in shown.out
    assert shown.out.index("seed 1: valid") < shown.out.index("seed 2: valid")
    assert "launched apart: gsm8k-baseline-s2,gsm8k-baseline-s1 in 20261120-120000-abcdef and" in shown.err


def test_arms_do_not_mix(runs_of: RunsOf) -> None:
    runs_of(CONTROL, TREATMENT)
    with pytest.raises(UsageError, match="means runs of several arms"):
        compare("baseline", ["fast,baseline"])
    with pytest.raises(UsageError, match="means runs of several arms"):
        compare("baseline", ["20261120-120000-abcdef"])
