"""`rlx compare` on arms of several seeds: which runs a name means, and how they are shown."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import typer
from syrupy.assertion import SnapshotAssertion

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


def test_seeds_of_an_arm_are_its_runs(runs_of: RunsOf, say: Said, wording: SnapshotAssertion) -> None:
    runs_of(CONTROL, TREATMENT, replace(TREATMENT, seed=2))
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK
    assert "0.7000 ± 0.0000" in text
    assert text == wording
    code, text = say("baseline", "gsm8k-fast-s2")
    assert code is ExitCode.OK
    assert "warning RLX903" in text and "seed: 1 → 2" in text


def test_seed_narrows_each_arm(runs_of: RunsOf, say: Said, wording: SnapshotAssertion) -> None:
    runs_of(CONTROL, replace(CONTROL, seed=2), TREATMENT, replace(TREATMENT, seed=2))
    assert "seed 2 · gsm8k-fast-s2" in say("baseline", "fast", seeds=[2])[1]
    for wanted in ([3], [1, 3]):
        with pytest.raises(NoSuchRun, match=r"\b3\b") as refused:
            compare("baseline", ["fast"], seeds=wanted)
        assert refused.value.message == wording


def test_who_stands_as_control_is_said(
    runs_of: RunsOf, capsys: pytest.CaptureFixture[str], wording: SnapshotAssertion
) -> None:
    runs_of(CONTROL, TREATMENT)
    with pytest.raises(typer.Exit):
        compare("fast", ["baseline"])
    said = capsys.readouterr().err
    assert "fast" in said and "baseline" in said and said == wording


def test_several_seeds_an_arm_say_something_about_the_treatment(
    runs_of: RunsOf, say: Said, wording: SnapshotAssertion
) -> None:
    runs_of(*seeds(CONTROL, 0.68, 0.69, 0.7), *seeds(TREATMENT, 0.7, 0.71, 0.72))
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK
    assert "baseline (mean ± sd of 3)" in text and "0.6900 ± 0.0100" in text
    assert "p = 0.07" in text
    assert text == wording
    rows = list(csv.reader(say("baseline", "fast", as_csv=True)[1].splitlines()))
    assert rows[0][:6] == ["step", "baseline (mean of 3)", "baseline sd", "baseline-s1", "baseline-s2", "baseline-s3"]
    assert rows[-1][3:6] == ["0.68", "0.69", "0.7"]
    answer = json.loads(say("baseline", "fast", as_json=True)[1])
    assert [run["seed"] for run in answer["control"]["runs"]] == [1, 2, 3]
    assert [run["series"]["6"] for run in answer["treatments"][0]["runs"]] == [0.7, 0.71, 0.72]
    assert answer["contrasts"][0]["test"]["method"].startswith("Welch's t test")


def test_unequal_numbers_of_seeds_are_said_with_what_they_cost(
    runs_of: RunsOf, say: Said, wording: SnapshotAssertion
) -> None:
    runs_of(*seeds(CONTROL, 0.68, 0.69), *seeds(TREATMENT, 0.7, 0.71, 0.72))
    code, text = say("baseline", "fast")
    assert code is ExitCode.OK and "p = " in text
    assert [line.strip() for line in text.splitlines() if "RLX911" in line] == wording
    equal = say("baseline", "fast", seeds=[1, 2])[1]
    assert [line.strip() for line in equal.splitlines() if "RLX911" in line] == wording, "two are few"


def test_equal_numbers_of_three_seeds_need_no_warning(runs_of: RunsOf, say: Said) -> None:
    runs_of(*seeds(CONTROL, 0.68, 0.69, 0.7), *seeds(TREATMENT, 0.7, 0.71, 0.72))
    assert "RLX911" not in say("baseline", "fast")[1]


def test_one_invalid_seed_strikes_its_arm_and_no_other_seed(runs_of: RunsOf, say: Said) -> None:
    # Six steps without noise: an arm of which one run promises none.
    runs_of(CONTROL, replace(SILENT, noise=None), replace(SILENT, seed=2))
    code, text = say("baseline", "aqn")
    assert code is ExitCode.NOT_VERIFIED
    assert "aqn (mean ± sd of 2, 1 invalid)" in text
    (warning,) = [line for line in text.splitlines() if "warning RLX909" in line]
    assert "1 of 2" in warning and "aqn-s2" in warning and "aqn-s1" not in warning
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
    both = [line for line in shown.err.splitlines() if "20261120-120000" in line and "20261120-120500" in line]
    assert len(both) == 1, "one launch is taken and the other is not: of launches apart there is nothing to say"


def test_names_joined_by_commas_are_one_arm(
    runs_of: RunsOf, capsys: pytest.CaptureFixture[str], wording: SnapshotAssertion
) -> None:
    runs_of(*seeds(CONTROL, 0.68), *seeds(TREATMENT, 0.7))
    runs_of(*seeds(CONTROL, 0.68, 0.69)[1:], *seeds(TREATMENT, 0.7, 0.71)[1:], minute=5)
    with pytest.raises(typer.Exit):
        compare("gsm8k-baseline-s2,gsm8k-baseline-s1", ["gsm8k-fast-s1,gsm8k-fast-s2"])
    shown = capsys.readouterr()
    assert "p = " in shown.out and "fast (mean ± sd of 2)" in shown.out
    assert shown.out.index("seed 1: valid") < shown.out.index("seed 2: valid")
    assert "20261120-120000-abcdef" in shown.err and "20261120-120500-abcdef" in shown.err
    assert shown.err == wording


def test_arms_do_not_mix(runs_of: RunsOf, wording: SnapshotAssertion) -> None:
    runs_of(CONTROL, TREATMENT)
    for several in ("fast,baseline", "20261120-120000-abcdef"):
        with pytest.raises(UsageError, match=several) as refused:
            compare("baseline", [several])
        assert refused.value.message == wording
