"""One run that stands for two arms, or for two seeds of one: no difference and no spread of it says anything."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.compare import Comparison, compare
from rlx.errors import ExitCode
from tests.cli.support import rlx
from tests.compare.builders import METRIC, RunBuilder, arm, only
from tests.conftest import CASES

TIMED = {step: {METRIC: 0.5 + step / 40, "timing_s/step": 1.2345 + step / 7} for step in range(1, 7)}
CONTROL = RunBuilder(metrics=TIMED, recipe={"train": {"lr": 1e-6}})
TREATMENT = replace(CONTROL, arm="fast", recipe={"train": {"lr": 2e-6}}, treatment=("train.lr",))


def compared(*names: str) -> dict[str, Any]:
    """Return the comparison as JSON, which is no result."""
    document: dict[str, Any] = json.loads(rlx("compare", *names, "--json", code=ExitCode.NOT_VERIFIED).stdout)
    return document


def ids(document: dict[str, Any]) -> set[str]:
    (contrast,) = document["contrasts"]
    return {finding["id"] for finding in contrast["findings"]}


def messages(comparison: Comparison) -> list[str]:
    return [finding.message for finding in only(comparison).errors if finding.id == "RLX901"]


def test_one_log_as_both_arms_is_no_comparison(tmp_path: Path, wording: SnapshotAssertion) -> None:
    # As a reconstructed log: nothing in it tells the time.
    log = tmp_path / "x.log"
    log.write_text(
        "Total training steps: 2\n" + "".join(f"step:{n} - {METRIC}:0.{n}\n" for n in range(3)), encoding="utf-8"
    )
    for name in ("one", "two"):
        rlx("import", str(log), "--name", "old", "--arm", name, "--val-size", "10")
    (contrast,) = compared("one", "two")["contrasts"]
    assert contrast["test"] is None
    assert contrast["sentences"] == wording


def test_an_unpacked_log_of_the_same_run_that_ends_earlier_is_the_same_run(tmp_path: Path) -> None:
    log = CASES / "logs/tiny-baseline/log"
    short = tmp_path / "short.log"
    short.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-5]))
    rlx("import", str(log), "--name", "old", "--arm", "one")
    rlx("import", str(short), "--name", "old", "--arm", "two")
    assert "RLX901" in ids(compared("one", "two"))


def test_metrics_of_the_other_arm_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    shutil.copytree(CASES / "pairs/tiny-cpu", root / "runs", ignore=shutil.ignore_patterns("README.md"))
    monkeypatch.setenv("RLX_ROOT", str(root))
    control, treatment = (next(root.glob(f"runs/*-{name}-*/attempts/1")) for name in ("baseline", "aqn"))
    shutil.copy(control / "metrics.jsonl", treatment / "metrics.jsonl")
    assert "RLX901" in ids(compared("baseline", "aqn"))


def test_equal_values_prove_nothing_and_equal_times_do(wording: SnapshotAssertion) -> None:
    assert messages(compare([CONTROL.judged()], [[TREATMENT.judged()]])) == wording
    slower = {step: {**values, "timing_s/step": values["timing_s/step"] + 1e-6} for step, values in TIMED.items()}
    assert not messages(compare([CONTROL.judged()], [[replace(TREATMENT, metrics=slower).judged()]]))
    rounded = {step: {**values, "timing_s/step": 2.5} for step, values in TIMED.items()}
    both = [replace(each, metrics=rounded).judged() for each in (CONTROL, TREATMENT)]
    assert not messages(compare(both[:1], [both[1:]]))


def test_one_log_as_two_seeds_is_one_sample(wording: SnapshotAssertion) -> None:
    seeds = [replace(TREATMENT, seed=seed).judged() for seed in (1, 2)]
    comparison = compare(arm(replace(CONTROL, metrics=None), [0.6, 0.7]), [seeds])
    assert messages(comparison) == wording
    assert only(comparison).test is None and not comparison.reportable
