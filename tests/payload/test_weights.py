"""The record of a run's weights: which tensors, what digests, and that nothing of it ends a training."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import rlx_aqn_events
import rlx_weights
import torch
from rlx_weights import Recorder, chosen
from torch import nn

from rlx.evidence.reading.process_records import read_weights


class Layer(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(size, bias=False)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(size, size, bias=False) for _ in range(4))


class Model(nn.Module):
    def __init__(self, size: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(16, size)
        self.layers = nn.ModuleList(Layer(size) for _ in range(layers))
        self.norm = nn.LayerNorm(size, bias=False)


@pytest.fixture(autouse=True)
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLX_ATTEMPT_DIR", str(tmp_path))
    monkeypatch.delenv(rlx_weights.SWITCH, raising=False)
    rlx_aqn_events.writer.cache_clear()
    return tmp_path


def lines(attempt: Path) -> list[dict[str, Any]]:
    (path,) = (attempt / "events").glob("weights-*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_it_names_the_last_layer_and_the_norm_after_it(attempt: Path) -> None:
    Recorder("trained").synced(Model(), 0)
    told, sync = lines(attempt)
    assert told["names"][-1] == "norm.weight"
    assert {name.split(".")[1] for name in told["names"][:-1]} == {"1"}
    assert told["dtypes"] == ["float32"] * len(told["names"]) == ["float32"] * len(sync["digests"])
    assert told["trainable"] == told["parameters"] == sum(one.numel() for one in Model().parameters())
    assert (sync["step"], sync["sync"], sync["moving"]) == (0, 0, 0)


def test_an_update_changes_exactly_its_digest(attempt: Path) -> None:
    model, recorder = Model(), Recorder("trained")
    recorder.synced(model, 0)
    recorder.updated(1e-4, 0.5)
    recorder.updated(0.0, 0.5)
    recorder.updated(1e-4, float("nan"))
    with torch.no_grad():
        model.layers[1].q_proj.weight[0, 0] += 1e-6
    recorder.synced(model, 1)
    told, first, second = lines(attempt)
    changed = [name for name, a, b in zip(told["names"], first["digests"], second["digests"], strict=True) if a != b]
    assert changed == ["layers.1.q_proj.weight"]
    assert (second["updates"], second["moving"]) == (3, 1)
    assert first["rounded"] == second["rounded"], "bfloat16 takes no step of 1e-6 there"


def test_the_sizes_of_adapters_and_of_what_they_are_merged_into(attempt: Path) -> None:
    model = nn.Module()
    model.layers = nn.ModuleList([nn.Module()])
    model.layers[0].q_proj = nn.ParameterDict({"lora_A": nn.ParameterDict({"default": torch.full((2, 8), 0.5)})})
    model.layers[0].o_proj = nn.ParameterDict({"lora_B": nn.ParameterDict({"default": torch.zeros(8, 2)})})
    recorder = Recorder("trained")
    recorder.synced(model, 0)
    with torch.no_grad():
        model.layers[0].o_proj["lora_B"]["default"] += torch.tensor([3e-3, 4e-3])
    recorder.synced(model, 1)
    Recorder("served").synced(Model(), 0)
    told, first, second, engine, sync = lines(attempt)
    assert [first["rms"], second["rms"]] == [[0.5, 0.0], [0.5, 3.536e-3]], told["names"]
    assert len(engine["rms"]) == len(engine["names"]) and engine["rms"][-1] == 1.0
    assert "rms" not in told and "rms" not in sync


@pytest.mark.parametrize("shape", [(3,), (200_000,), (5000, 64), (64, 5000), (2, 400, 400)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_samples_are_bounded_and_repeat_themselves(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.randn(shape).to(dtype)
    sample = rlx_weights._sample(tensor)
    assert min(tensor.numel(), 2000) <= sample.numel() <= rlx_weights._ELEMENTS
    assert rlx_weights._digests([sample]) == rlx_weights._digests([rlx_weights._sample(tensor.clone())])
    assert rlx_weights._digests([sample]) != rlx_weights._digests([rlx_weights._sample(tensor + 1)])


def test_adapters_stand_for_a_model_that_trains_only_them() -> None:
    base = "base_model.model.model.layers.1.self_attn.q_proj"
    names = [f"{base}.base_layer.weight", f"{base}.lora_A.default.weight", f"{base}.lora_B.default.weight"]
    assert list(chosen(names)) == names[1:]


def test_of_many_experts_a_few_are_digested() -> None:
    experts = [f"model.layers.3.mlp.experts.{number}.up_proj.weight" for number in range(128)]
    others = ["model.layers.3.mlp.gate.weight", "model.layers.3.input_layernorm.weight", "model.norm.weight"]
    assert list(chosen([*others, *experts])) == [*others[:2], *experts[:2], others[2]]


def test_the_last_layer_of_a_vision_tower_is_not_that_of_the_model() -> None:
    assert list(chosen(["visual.layers.31.attn.weight", "model.layers.1.q_proj.weight"])) == [
        "model.layers.1.q_proj.weight"
    ]


def test_a_failure_is_one_line_and_ends_the_record(attempt: Path) -> None:
    recorder = Recorder("served")
    recorder.synced(Model(), 0)
    recorder.synced(nn.Linear(1, 1), 1)
    recorder.synced(Model(), 2)
    assert [line["kind"] for line in lines(attempt)] == ["tensors", "sync", "failed"]
    assert "KeyError" in lines(attempt)[-1]["why"]


def test_a_folder_that_cannot_be_written_is_no_failure(attempt: Path) -> None:
    (attempt / "events").write_text("a file in its place", encoding="utf-8")
    Recorder("served").synced(Model(), 0)
    rlx_weights.guarded(lambda: 1 / 0)


def test_what_fails_at_each_step_is_written_down_once(attempt: Path) -> None:
    for _ in range(3):
        rlx_weights.guarded(lambda: 1 / 0)
    assert [line["kind"] for line in lines(attempt)] == ["unable"]


def test_it_is_switched_off(attempt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rlx_weights.SWITCH, "off")
    Recorder("trained").synced(Model(), 0)
    assert not (attempt / "events").exists()


def test_no_weight_changes_and_no_random_number_is_drawn() -> None:
    model = Model()
    before, state = {name: one.clone() for name, one in model.named_parameters()}, torch.get_rng_state()
    Recorder("trained").synced(model, 0)
    assert all(torch.equal(one, before[name]) for name, one in model.named_parameters())
    assert torch.equal(state, torch.get_rng_state())


def test_it_reads_back_what_it_wrote(attempt: Path) -> None:
    trainer, engine = Recorder("trained"), Recorder("served")
    model = Model().to(torch.bfloat16)
    for step in range(3):
        trainer.updated(1e-4, 1.0)
        trainer.synced(model, step)
        engine.synced(model)
    trained, served = read_weights(attempt / "events")
    assert (trained.role, served.role) == ("trained", "served")
    assert [sync.step for sync in trained.syncs] == [0, 1, 2] and [sync.step for sync in served.syncs] == [None] * 3
    assert [sync.digests for sync in trained.syncs] == [sync.digests for sync in served.syncs]
    assert trained.shapes == trained.whole == served.shapes and trained.lost == 0
    assert [sync.moving for sync in trained.syncs] == [1, 1, 1]


def test_a_sync_costs_no_more_than_a_few_milliseconds(attempt: Path) -> None:
    """12 samples of 64 KiB, whatever the size of the model. The fastest of several: the machine is shared."""
    model, recorder = Model(size=512), Recorder("trained")
    recorder.synced(model, 0)
    took = []
    for step in range(10):
        begun = time.perf_counter()
        recorder.synced(model, step)
        took.append(time.perf_counter() - begun)
    assert min(took) < 0.02
