"""Every declared factor of a treatment stands in the sentence; a setting that no arm declares is an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rlx.compare import compare
from rlx.compare.factors import credited, factor_of, listed
from rlx.compare.registered_answer import AnswerKind, ClaimResult, RegisteredAnswer, RegisteredResult
from rlx.compare.sentences import headline, registered_claim
from rlx.evidence import JudgedRun
from rlx.evidence.traces import KeyTrace, TraceStatus
from rlx.model import Severity
from tests.compare.builders import LR_CONTROL, LR_TREATMENT, METRIC, RunBuilder, arm, only
from tests.compare.run_dirs import ASKED

SLOW, FAST = (0.60, 0.62, 0.61, 0.63), (0.70, 0.73, 0.71, 0.72)
TWO = replace(
    LR_TREATMENT,
    recipe={"train": {"lr": 2e-6}, "aqn": {"sigma_start": 0.1, "stages": 5}},
    treatment=("train.lr", "aqn.sigma_start", "aqn.stages"),
)


def of(run: JudgedRun, *traces: KeyTrace) -> JudgedRun:
    return replace(run, verdict=replace(run.verdict, traces=traces))


def test_keys_are_grouped_into_factors() -> None:
    keys = ("aqn", "aqn.adaptive.gain", "algorithm.kl.coef", "algorithm.kind", "train.lr", "training data")
    assert [factor_of(key) for key in keys] == [
        "aqn",
        "aqn",
        "algorithm.kl",
        "algorithm.kind",
        "train.lr",
        "data.train",
    ]
    assert listed(("a", "b", "c")) == "a, b and c"
    assert (credited("fast", ("train.lr",)), credited("fast", ("aqn", "train.lr"))) == (
        "fast",
        "fast (aqn and train.lr together)",
    )


def test_a_difference_is_credited_to_all_factors() -> None:
    found = compare(arm(LR_CONTROL, SLOW), [arm(TWO, FAST)])
    contrast = only(found)
    assert contrast.factors == ("aqn", "train.lr")
    assert "fast (aqn and train.lr together) differs from baseline" in headline(found)
    assert any("fast (aqn and train.lr together) differs from baseline" in said for said in contrast.sentences)
    assert any("2 factors" in said and "together" in said for said in contrast.sentences)
    unlike = compare(arm(LR_CONTROL, SLOW), [arm(TWO, SLOW)])
    assert "fast (aqn and train.lr together)" in headline(unlike)
    assert any("baseline and fast (aqn and train.lr together)" in said for said in only(unlike).sentences)


def test_one_factor_is_credited_by_the_name_of_its_arm() -> None:
    found = compare(arm(LR_CONTROL, SLOW), [arm(LR_TREATMENT, FAST)])
    assert only(found).factors == ("train.lr",)
    assert "together" not in " ".join((headline(found), *only(found).sentences))


def test_a_registered_claim_names_all_factors() -> None:
    answer = ClaimResult(AnswerKind.YES, 10.0, 8.0, 12.0, 0.95, 0.001, 1.0, 3, 3, (1.0, 1.0), "a test", "")
    for factors, words in ((("aqn", "train.lr"), "fast (aqn and train.lr together) is better"), ((), "fast is better")):
        found = RegisteredResult(ASKED, (), (RegisteredAnswer(METRIC, "fast", True, answer, factors),))
        assert words in registered_claim(found)


def test_each_arm_says_how_it_shows_a_factor() -> None:
    rate = KeyTrace("train.lr", TraceStatus.SHOWN, "actor/lr", "actor/lr at 6 steps")
    both = compare([of(run, rate) for run in arm(LR_CONTROL, SLOW)], [[of(run, rate) for run in arm(TWO, FAST)]])
    assert only(both).shown[1] == "train.lr shown by actor/lr"
    heat = replace(LR_TREATMENT, recipe={"rollout": {"temperature": 0.6}}, treatment=("rollout.temperature",))
    composed = KeyTrace("rollout.temperature", TraceStatus.COMPOSED)
    control = replace(LR_CONTROL, recipe={"rollout": {"temperature": 1.0}})
    one = compare([of(run, rate) for run in arm(control, SLOW)], [[of(run, rate, composed) for run in arm(heat, FAST)]])
    assert only(one).shown == ("rollout.temperature in the composed configuration only",)
    silent = replace(rate, shown=TraceStatus.SILENT)
    apart = compare(
        [of(run, rate) for run in arm(LR_CONTROL, SLOW)], [[of(run, silent) for run in arm(LR_TREATMENT, FAST)]]
    )
    assert only(apart).shown == ("train.lr shown by actor/lr in baseline, not shown by actor/lr in fast",)


RECIPE: dict[str, Any] = {
    "data": {"train": "/d"},
    "train": {"lr": 1e-6, "batch_size": 128},
    "rollout": {"n": 8, "temperature": 1.0},
    "algorithm": {"kind": "grpo"},
    "model": {"path": "/m", "lora": {"rank": 0}},
    "overrides": {"actor_rollout_ref.actor.clip_ratio": 0.2},
    "layout": {"tp": 1},
    "env": {},
    "backend": {"kind": "verl", "version": "0.9.1", "workdir": "/a"},
}
COMPOSED = {"config": {"actor": {"clip_ratio": 0.2, "port": 4000, "home": "/a/b"}, "trainer": {"n_gpus_per_node": 8}}}


def pair(recipe: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[str]:
    """Return the ids of errors and warnings where the treatment changes its rate, and differs in this as well."""
    control = replace(LR_CONTROL, recipe=RECIPE, provenance=COMPOSED)
    own = {**RECIPE, **{key: {**RECIPE[key], **value} for key, value in recipe.items()}}
    own["train"] = {**own["train"], "lr": 2e-6}
    treated = replace(LR_TREATMENT, recipe=own, provenance=provenance or COMPOSED)
    found = only(compare(arm(control, SLOW), [arm(treated, FAST)])).findings
    return [finding.id for finding in found if finding.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    ("recipe", "provenance"),
    [
        ({"train": {"batch_size": 64}}, {}),
        ({"rollout": {"n": 4}}, {}),
        ({"rollout": {"temperature": 0.6}}, {}),
        ({"algorithm": {"kind": "gspo"}}, {}),
        ({"model": {"lora": {"rank": 8}}}, {}),
        ({"overrides": {"actor_rollout_ref.actor.clip_ratio": 0.5}}, {}),
        (
            {},
            {
                "config": {
                    "actor": {**COMPOSED["config"]["actor"], "clip_ratio": 0.5},
                    "trainer": {"n_gpus_per_node": 8},
                }
            },
        ),
        ({"data": {"train": "/d", "filter": True}}, {}),
    ],
)
def test_an_undeclared_setting_of_the_training_is_an_error(
    recipe: Mapping[str, Any], provenance: Mapping[str, Any]
) -> None:
    assert pair(recipe, provenance) == ["RLX932"]


@pytest.mark.parametrize(
    ("recipe", "provenance", "warned"),
    [
        ({}, {}, []),
        ({"layout": {"tp": 2}}, {}, ["RLX903"]),
        ({"env": {"NCCL_DEBUG": "INFO"}}, {}, ["RLX903"]),
        ({"backend": {"version": "0.9.2", "workdir": "/b"}}, {}, ["RLX903"]),
        ({}, {"config": {"actor": {"clip_ratio": 0.2, "port": 5000, "home": "/c"}, "trainer": {}}}, ["RLX903"]),
        (
            {},
            {"config": {"actor": {**COMPOSED["config"]["actor"], "new": 3}, "trainer": {"n_gpus_per_node": 8}}},
            ["RLX903"],
        ),
    ],
)
def test_machines_versions_paths_and_ports_stay_a_warning(
    recipe: Mapping[str, Any], provenance: Mapping[str, Any], warned: list[str]
) -> None:
    assert pair(recipe, provenance) == warned


def test_rules_of_earlier_versions_had_a_warning() -> None:
    runs = [
        arm(replace(builder, recipe=recipe), finals)
        for builder, recipe, finals in (
            (LR_CONTROL, {"train": {"lr": 1e-6, "batch_size": 128}}, SLOW),
            (LR_TREATMENT, {"train": {"lr": 2e-6, "batch_size": 64}}, FAST),
        )
    ]
    earlier = [[replace(run, verdict=replace(run.verdict, rules=2)) for run in each] for each in runs]
    assert [finding.id for finding in only(compare(runs[0], runs[1:])).findings] == ["RLX932"]
    assert [finding.id for finding in only(compare(earlier[0], earlier[1:])).findings] == ["RLX903"]


def test_data_that_the_arm_declares_are_its_factor() -> None:
    found = [{"data": {path: {"sha256": digest}}} for path, digest in (("/d/a", "1"), ("/d/b", "2"))]
    control = RunBuilder(recipe={"data": {"train": "/d/a", "val": "/v"}}, provenance=found[0])
    mixed = RunBuilder(
        arm="mix", recipe={"data": {"train": "/d/b", "val": "/v"}}, provenance=found[1], treatment=("data.train",)
    )
    contrast = only(compare(arm(control, SLOW), [arm(mixed, FAST)]))
    assert contrast.factors == ("data.train",)
    assert not [finding for finding in contrast.findings if finding.severity is not Severity.NOTE]
    silent = only(compare(arm(control, SLOW), [arm(replace(mixed, treatment=()), FAST)]))
    assert "RLX932" in {finding.id for finding in silent.findings}
