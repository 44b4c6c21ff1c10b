"""An evaluation that differs is no comparison, declared or not, in any form of output."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.compare import Comparison, compare
from rlx.compare.outputs import exact_mcnemar_p
from rlx.evidence import ItemScores
from rlx.model import Severity
from tests.cli.support import rlx
from tests.compare.builders import METRIC, RunBuilder, one_run_each, only
from tests.compare.conftest import Build

Pair = dict[str, Path]


def edit(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    change(manifest["plan"])
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def declare(section: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    def change(plan: dict[str, Any]) -> None:
        plan["recipe"][section].update(values)
        plan["treatment"].append(section)

    return change


def shows_a_test(text: str, verdicts: list[str]) -> bool:
    """Tell whether a p-value stands outside the verdicts, which have p-values of their own."""
    for verdict in verdicts:
        text = text.replace(verdict.partition(": ")[2], "")
    return "p = " in text


@pytest.mark.long
def test_no_form_of_output_has_a_p_value_or_an_interval(pair: Pair, tmp_path: Path, wording: SnapshotAssertion) -> None:
    edit(pair["aqn"], declare("reward", function="partial_credit"))
    page = tmp_path / "page.html"
    document = json.loads(rlx("compare", "baseline", "aqn", "--json", code=14).stdout)
    (contrast,), arms = document["contrasts"], (document["control"], *document["treatments"])
    assert (contrast["test"], contrast["p_value"], contrast["reportable"]) == (None, None, False)
    assert "reward.function" in contrast["no_test"] and contrast["no_test"] == wording
    verdicts = [arm["verdict"]["sentence"] for arm in arms]
    for option, mark in (([], "-1.0 (not"), (["--md"], "~~-1.0~~ (not"), (["--html", str(page)], "-1.0 (not")):
        said = rlx("compare", "baseline", "aqn", *option, code=14).stdout
        assert contrast["no_test"] in said and "95 %" not in said and not shows_a_test(said, verdicts)
        assert f"{mark} comparable)" in said
        assert "eval: {post: {rows: FILE, reward: {path: FILE}}}" in said
    assert ",-1,valid,valid,not comparable\n" in rlx("compare", "baseline", "aqn", "--csv", code=14).stdout
    text = unescape(page.read_text(encoding="utf-8"))
    assert contrast["no_test"] in text and not shows_a_test(text, verdicts)


@pytest.mark.parametrize(
    ("recipe", "key"),
    [
        ({"reward": "math"}, "reward"),
        ({"data": {"max_response_tokens": 512}}, "data.max_response_tokens"),
        ({"data": {"max_prompt_tokens": 64}}, "data.max_prompt_tokens"),
        ({"data": {"prompt_key": "question"}}, "data.prompt_key"),
        ({"model": {"dtype": "float16"}}, "model.dtype"),
        ({"eval": {"noise": True}}, "eval.noise"),
        ({"overrides": {"actor_rollout_ref.rollout.val_kwargs.top_k": 1}}, "val_kwargs.top_k"),
        ({"overrides": {"custom_reward_function.path": "/other.py"}}, "custom_reward_function.path"),
        ({"overrides": {"+data.apply_chat_template_kwargs.enable_thinking": False}}, "enable_thinking"),
        ({"overrides": {"++data.apply_chat_template_kwargs.enable_thinking": False}}, "enable_thinking"),
        ({"overrides": {"+data": {"apply_chat_template_kwargs": {"enable_thinking": False}}}}, "enable_thinking"),
        ({"overrides": {"~data.truncation": None}}, "data.truncation"),
        ({"data": {"val": "/elsewhere/test.parquet"}}, "data.val"),
        ({"model": {"path": "/models/other"}}, "model.path"),
    ],
)
@pytest.mark.parametrize("metric_matters", [True, False])
def test_each_condition_of_an_evaluation(
    control_builder: Build,
    treated: Build,
    recipe: dict[str, Any],
    key: str,
    metric_matters: bool,
    wording: SnapshotAssertion,
) -> None:
    """Declared as the treatment each of them; for a metric that nothing is graded by, they are the treatment's own."""
    data = {"train": "~/gsm8k/train.parquet", "val": "~/gsm8k/test.parquet"}
    common = {"data": data, "reward": "gsm8k", "model": {}, "eval": {}, "overrides": {}}
    (section,) = recipe
    changed = {**common, section: recipe[section] if section == "reward" else {**common[section], **recipe[section]}}  # type: ignore[dict-item]
    metric = METRIC if metric_matters else "actor/entropy"
    runs = [control_builder(recipe=common, metric=metric), treated(recipe=changed, treatment=(section,), metric=metric)]
    contrast = only(one_run_each(runs[0], runs[1:], metric))
    refused = [finding.message for finding in contrast.errors if finding.id == "RLX902"]
    assert len(refused) == metric_matters
    assert all(key in message for message in refused)
    assert refused == wording


def test_the_score_of_a_training_is_of_its_reward(control_builder: Build, treated: Build) -> None:
    metric = "critic/score/mean"
    changes = {"recipe": {"reward": "math"}, "treatment": ("reward",), "metric": metric}
    runs = control_builder(recipe={"reward": "gsm8k"}, metric=metric), treated(**changes)
    assert [each.id for each in only(one_run_each(runs[0], [runs[1]], metric)).errors] == ["RLX902"]


def test_a_reward_that_does_not_grade_may_be_the_treatment(control_builder: Build, treated: Build) -> None:
    metric = "val-core/post/acc/mean@1"

    def contrast(post: dict[str, Any]) -> list[str]:
        recipe = {"eval": {"post": post}}
        control = control_builder(recipe={**recipe, "reward": "gsm8k"}, metric=metric)
        treatment = treated(recipe={**recipe, "reward": "math"}, treatment=("reward",), metric=metric)
        return [finding.id for finding in only(one_run_each(control, [treatment], metric)).errors]

    assert contrast({"rows": "/held-out.parquet", "reward": "gsm8k"}) == []
    assert contrast({"rows": "/held-out.parquet", "reward": None}) == ["RLX902"]


def test_the_same_reward_function_from_another_place(pair: Pair) -> None:
    edit(pair["aqn"], lambda plan: plan["recipe"]["reward"].update(path="/home/somebody/reward.py"))
    assert "RLX902" not in rlx("compare", "baseline", "aqn").stdout


def test_what_only_some_runs_recorded_is_not_taken_for_the_same(
    control_builder: Build, treated: Build, wording: SnapshotAssertion
) -> None:
    digest = {"/home/u/gsm8k/test.parquet": {"sha256": "aa"}}
    found = {"packages": {}, "data": digest, "model": {"sha256": "bb", "chat_template": None}}

    def said(*provenances: dict[str, Any]) -> dict[str, Severity]:
        first, second = provenances
        contrast = only(one_run_each(control_builder(provenance=first), [treated(provenance=second)]))
        return {finding.message: finding.severity for finding in contrast.findings if finding.id == "RLX922"}

    assert said(found, found) == {}
    (one,) = said(found, {"packages": {}, "data": digest}).items()
    message, severity = one
    assert severity is Severity.WARNING and message == wording
    assert said({}, {}) == {}, "as of two logs that were taken in"
    assert set(said({"packages": {}}, {"packages": {}}).values()) == {Severity.NOTE}
    other = {**found, "model": {"sha256": "bb", "chat_template": "cc"}}
    contrast = only(one_run_each(control_builder(provenance=found), [treated(provenance=other)]))
    assert contrast.errors[0].id == "RLX902" and contrast.errors[0].message == wording


N, STEP = 400, 6


def graded(changed: int, value: float = 0.0, text: str = "yes") -> Comparison:
    """Two runs that give each of 400 items the same right answer; `changed` of them are graded otherwise, or differ."""
    control = RunBuilder(series={STEP: 1.0}, planned_rows=N, rows=N).judged()
    mean = (N - changed + changed * value) / N
    treatment = RunBuilder(
        arm="aqn", series={STEP: mean}, planned_rows=N, rows=N, recipe={"aqn": {}}, treatment=("aqn",)
    ).judged()
    kept = {
        run.run_id: ItemScores(
            STEP,
            {str(item): (value if item < count else 1.0,) for item in range(N)},
            answers={str(item): (text if item < count else "yes",) for item in range(N)},
        )
        for run, count in ((control, 0), (treatment, changed))
    }
    return compare([control], [[treatment]], items={STEP: kept})


def test_equal_answers_with_other_scores_are_no_comparison(wording: SnapshotAssertion) -> None:
    contrast = only(graded(84))
    (finding,) = contrast.errors
    assert finding.id == "RLX921" and contrast.test is None
    assert "84 of 400" in finding.message and finding.message == wording


def test_other_answers_may_have_other_scores() -> None:
    contrast = only(graded(84, text="no"))
    assert not contrast.errors and contrast.p_value is not None and contrast.p_value < 0.05


@pytest.mark.parametrize(("changed", "severity"), [(1, Severity.WARNING), (3, Severity.WARNING), (4, Severity.ERROR)])
def test_a_judge_that_hesitates_once_is_a_warning(changed: int, severity: Severity) -> None:
    (finding,) = [each for each in only(graded(changed)).findings if each.id == "RLX921"]
    assert finding.severity is severity


def test_a_reward_model_need_not_repeat_its_last_digit() -> None:
    assert not [each for each in only(graded(84, value=0.995)).findings if each.id == "RLX921"]


def before(better: int, worse: int, kept: bool = True, seeds: int = 1) -> Comparison:
    """Runs that answer 400 items before the training; of 200 that the control has right `worse` are wrong."""
    share = 0.5 + (better - worse) / N

    def runs(arm: str, first: float, **changes: Any) -> list[Any]:
        builder = RunBuilder(arm=arm, planned_rows=N, rows=N, **changes)
        seeded = range(1, seeds + 1)
        return [replace(builder, seed=seed, series={0: first, STEP: 0.7 + seed / N}).judged() for seed in seeded]

    control, treatment = runs("baseline", 0.5), runs("aqn", share, recipe={"aqn": {}}, treatment=("aqn",))
    ours = {str(item): (float(item < 200),) for item in range(N)}
    theirs = (
        ours | {str(item): (0.0,) for item in range(worse)} | {str(item): (1.0,) for item in range(200, 200 + better)}
    )
    items = {run.run_id: ItemScores(0, ours, answers=_texts(ours)) for run in control}
    items |= {run.run_id: ItemScores(0, theirs, answers=_texts(theirs)) for run in treatment}
    return compare(control, [treatment], items={0: items} if kept else {})


def _texts(scores: dict[str, tuple[float, ...]]) -> dict[str, tuple[str, ...]]:
    return {item: (str(score),) for item, (score,) in scores.items()}


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize(
    ("better", "worse", "refused"), [(0, 20, True), (20, 0, True), (0, 8, False), (18, 16, False), (60, 70, False)]
)
def test_arms_must_agree_before_their_training(better: int, worse: int, refused: bool, seeds: int) -> None:
    """Answers that turn in both directions accuse nobody."""
    found = [each for each in only(before(better, worse, seeds=seeds)).findings if each.id == "RLX923"]
    assert {each.severity for each in found} == {Severity.ERROR if refused else Severity.NOTE}
    assert len(found) == seeds
    assert f"{better + worse} of 400" in found[0].message
    assert only(before(better, worse, seeds=seeds)).reportable is not refused


@pytest.mark.parametrize(("worse", "refused"), [(20, False), (80, True)])
def test_without_answers_chance_is_that_of_two_samples(worse: int, refused: bool, wording: SnapshotAssertion) -> None:
    found = [each for each in only(before(0, worse, kept=False)).findings if each.id == "RLX923"]
    assert bool(found) is refused
    assert not refused or "0.5 and 0.3 of 400" in found[0].message
    assert [each.message for each in found] == wording


def test_mcnemars_exact_test() -> None:
    """Against the binomial distribution added up: 2 * sum of C(n, k) / 2^n."""
    assert exact_mcnemar_p(0, 0) == 1.0
    assert exact_mcnemar_p(0, 10) == pytest.approx(2 / 1024)
    assert exact_mcnemar_p(9, 2) == exact_mcnemar_p(2, 9) == pytest.approx(2 * (1 + 11 + 55) / 2048)
