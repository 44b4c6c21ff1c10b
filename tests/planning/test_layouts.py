"""Layouts: what is listed divides, what is not is named, and the order is the stated one."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.cli.frame.app import command_line
from rlx.planning.layouts import SampleCounts, layouts, training_communication, waiting
from rlx.planning.memory import Count, RolloutSetup, Split, TrainingSetup
from rlx.planning.memory.job import NPU
from rlx.planning.models.architectures import find_architecture, known_architectures
from tests.conftest import CASES

RECIPE = str(CASES / "layouts/qwen3-30b-lora-12.yaml")

LENGTH = Count(256, 2048)


def job_of(name: str, split: Split, **changes: Any) -> TrainingSetup:
    shape = find_architecture(name)
    assert shape is not None
    return TrainingSetup(
        shape, "megatron", split, RolloutSetup(1, 1, 0.5, 2048, 8192, 256), NPU, LENGTH, LENGTH, **changes
    )


def listed(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(command_line(["layouts"]), ["layouts", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.output)
    return answer


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([shape.name for shape in known_architectures()]),
    st.sampled_from([1, 2, 4, 6, 8, 12, 16, 24]),
    st.integers(1, 48),
    st.integers(1, 8),
)
def test_every_listed_layout_divides(name: str, devices: int, prompts: int, micro: int) -> None:
    job = job_of(name, Split(devices))
    shape, batch = job.shape, SampleCounts(prompts * 16, prompts * 8, micro)
    found = layouts(job, batch).possible
    for split, rollout in ((one.job.split, one.job.rollout) for one in found):
        assert devices == split.tp * split.pp * split.cp * split.data
        assert devices % (split.etp * split.ep * split.pp) == 0
        assert shape.heads % split.tp == 0 and (shape.latent or shape.kv_heads % split.tp == 0)
        assert shape.layers % split.pp == 0
        assert split.ep == 1 or (shape.experts and shape.experts.count % split.ep == 0)
        assert batch.update // split.data % micro == 0 and batch.update % split.data == 0
        assert shape.heads % rollout.tp == 0 and devices % rollout.tp == 0
        assert rollout.ep == 1 or (rollout.ep % rollout.tp == 0 and devices % rollout.ep == 0)
    ranks = [(("fits", "tight", "too large").index(one.verdict), one.total_sent) for one in found]
    assert all((before, sent) <= (after, then + 1e-6) for (before, sent), (after, then) in pairwise(ranks)), (
        "first what fits, then what sends least"
    )


def test_what_was_written_down_once_is_refused_with_reasons(wording: SnapshotAssertion) -> None:
    answer = listed(RECIPE)
    assert [reason.split()[:2] for reason in answer["refused"][:4]] == [
        ["tp", "3"],
        ["rollout", "tp"],
        ["rollout", "tp"],
        ["rollout", "ep"],
    ]
    assert answer["refused"] == wording
    sizes = [(one["training"]["tp"], one["rollout"]["tp"]) for one in answer["layouts"]]
    assert sizes and not any(tp % 3 == 0 or rollout % 3 == 0 for tp, rollout in sizes)
    assert {one["training"]["ep"] for one in answer["layouts"]} == {1, 2, 4}


def test_recommended_layouts_of_the_moe_are_listed_and_fit() -> None:
    recipe = str(CASES / "preflight/RLX300-passes-moe-on-8/recipe.yaml")
    fitting = [one["training"] for one in listed(recipe)["layouts"] if one["verdict"] == "fits"]
    assert {(one["tp"], one["ep"]) for one in fitting if one["pp"] == one["cp"] == 1} >= {(4, 2), (2, 4)}
    four = [one for one in listed(recipe, "--devices", "4")["layouts"] if one["training"]["pp"] == 1]
    assert {one["verdict"] for one in four} == {"too large"}


def test_a_critic_that_reads_a_layer_in_the_middle_needs_one_stage(wording: SnapshotAssertion) -> None:
    """And its model counts: without it, the recipe would seem to fit on 80 GiB."""
    answer = listed("nla-qwen2.5-7b-megatron-tp4", "--memory", "80")
    assert {one["training"]["pp"] for one in answer["layouts"]} == {1}
    assert [reason for reason in answer["refused"] if reason.startswith("pp 2")] == wording
    (own,) = [one for one in answer["layouts"] if one["own"]]
    assert own["training"] == {"tp": 4, "pp": 1, "cp": 1, "ep": 1, "dp": 2} and own["verdict"] == "too large"
    offloaded = listed(
        "nla-qwen2.5-7b-megatron-tp4",
        "--memory",
        "80",
        "--set",
        "overrides={+actor_rollout_ref.actor.megatron.optimizer_offload: true}",
    )
    assert [one["verdict"] for one in offloaded["layouts"] if one["own"]] == ["fits"]


def test_experts_may_be_split_otherwise_than_the_rest() -> None:
    """Experts whole on a device: 60 of them over 4 devices then, not over 8."""
    recipe, key = "qwen1.5-moe-a2.7b-gsm8k-npu8-tp2-ep4", "actor_rollout_ref.actor.megatron.expert_tensor_parallel_size"
    split, whole = (
        next(one for one in listed(recipe, *sets)["layouts"] if one["own"])["memory_gib"]["log-prob"]["parts"]
        for sets in ((), ("--set", f"overrides={{{key}: 1}}"))
    )
    # 14.3 billion parameters, 12.5 of them experts', in 2 bytes.
    assert split["weights"][0] == pytest.approx((1.86e9 / 2 + 12.46e9 / 8) * 2 / 2**30, rel=0.01)
    assert whole["weights"][0] == pytest.approx((1.86e9 / 2 + 12.46e9 / 4) * 2 / 2**30, rel=0.01)


def test_the_recipes_own_layout_is_shown_wherever_it_ranks() -> None:
    shown = CliRunner().invoke(command_line(["layouts"]), ["layouts", "qwen1.5-moe-a2.7b-gsm8k-npu8-tp4-ep2"]).output
    (own,) = [line for line in shown.splitlines() if "the recipe's own" in line]
    assert own.split()[:5] == ["4", "1", "1", "2", "2"]


def test_ulysses_copies_no_fraction_of_a_key_value_head(wording: SnapshotAssertion) -> None:
    """verl: kv heads % sp == 0 or sp % kv heads == 0 (verl/models/transformers/monkey_patch.py)."""
    job = job_of("qwen2.5-7b", Split(28))
    found = layouts(replace(job, engine="fsdp", fsdp_size=28), SampleCounts(28 * 28, 28 * 28, 1))
    assert {one.job.split.cp for one in found.possible} == {1, 2, 4, 28}
    assert [reason for reason in found.refused if reason.startswith("cp 7 ")] == wording


def test_layers_of_a_prime_number_are_one_stage(wording: SnapshotAssertion) -> None:
    found = layouts(job_of("deepseek-r1", Split(8)), SampleCounts(64, 64, 1))
    assert {one.job.split.pp for one in found.possible} == {1}
    assert [reason for reason in found.refused if reason.startswith("pp 2 ")] == wording


def test_fsdp_splits_sequences_only() -> None:
    answer = listed("starter", "--devices", "4")
    assert {tuple(one["training"].values()) for one in answer["layouts"]} == {
        (1, 1, 1, 1, 4),
        (1, 1, 2, 1, 2),
        (1, 1, 4, 1, 1),
    }
    assert answer["model_confirmed"] is True and answer["capacity_gib"] == 60.97


def test_memory_of_a_device_decides() -> None:
    verdicts = [
        {one["verdict"] for one in listed("starter", "--memory", size)["layouts"]} for size in ("4", "24", "200")
    ]
    assert verdicts[0] == {"too large"}
    assert verdicts[2] == {"fits"}


def test_the_table_is_the_same_each_time_and_ends_with_the_reasons(wording: SnapshotAssertion) -> None:
    first, second = (CliRunner().invoke(command_line(["layouts"]), ["layouts", RECIPE]).output for _ in range(2))
    assert first == second
    lines = first.splitlines()
    fit = "324 of 480 layouts fit qwen3-30b-a3b"
    assert lines[0] == f"qwen3-30b-lora-12: {fit} on 12 devices of 64 GiB (61.0 usable, assumed)"
    assert "actor update" in lines[1] and lines[2].endswith("fits")
    assert any("460" in line for line in lines) and any(line.startswith("  tp 3 ") for line in lines)
    assert first == wording


def test_communication_follows_the_published_volumes() -> None:
    """Two all-reduces a layer and pass: of 5 passes, 28 layers, 64 × 2048 tokens of 3584 values, half of it to send."""
    split = job_of("qwen2.5-7b", Split(2, tp=2, etp=2))
    sent = training_communication(split, SampleCounts(64, 64, 1))
    assert sent["tensor"] == 5 * 28 * 2 * (64 * 2048 * 3584 * 2) * 2 * 0.5
    assert sent["data"] == sent["pipeline"] == sent["context"] == sent["expert"] == 0
    alone = training_communication(job_of("qwen2.5-7b", Split(1)), SampleCounts(64, 64, 1))
    assert set(alone.values()) == {0}
    assert waiting(job_of("qwen2.5-7b", Split(4, pp=4)), SampleCounts(64, 64, 1)) == 3 / 67


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tiny-cpu"], "layout.device cpu: there is nothing to split"),
        (["starter", "--set", "layout.device=cuda"], "--memory 80"),
        (["starter", "--set", "model.arch=null", "--set", "model.path=/data/mine"], "nothing is known of /data/mine"),
        (["starter", "--devices", "4096"], "512 at most"),
    ],
)
def test_what_cannot_be_listed_is_said(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(command_line(["layouts"]), ["layouts", *arguments])
    assert done.exit_code != 0
    error = done.exception
    assert says in f"{getattr(error, 'message', '')} {getattr(error, 'hint', '')}"
