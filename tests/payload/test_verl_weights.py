"""The hooks that record the weights of stock verl: their places in its wheels, and that they change nothing else."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import rlx_aqn_events
import rlx_verl_weights
import rlx_weights
import torch
from rlx_aqn_hook import check

from tests.wheels import verl_folder


@pytest.fixture(autouse=True)
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLX_ATTEMPT_DIR", str(tmp_path))
    monkeypatch.delenv(rlx_weights.SWITCH, raising=False)
    rlx_aqn_events.writer.cache_clear()
    return tmp_path


def lines(attempt: Path) -> list[dict[str, Any]]:
    paths = sorted((attempt / "events").glob("weights-*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("version", ["0.8.0", "0.9.1"])
def test_the_places_are_there(version: str) -> None:
    assert check(verl_folder(version), rlx_verl_weights.POINTS, "") == rlx_verl_weights.POINTS


def test_a_verl_without_them_trains_on_and_says_why(attempt: Path) -> None:
    rlx_verl_weights.install(verl_folder("0.7.1"))
    (line,) = lines(attempt)
    assert line["kind"] == "unable" and "RLX641" in line["why"]


class Engine:
    def __init__(self) -> None:
        self.module = torch.nn.Sequential(torch.nn.Linear(4, 4))
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1)

    def optimizer_step(self) -> float:
        with torch.no_grad():
            self.module[0].weight += 1
        return 0.5


def test_a_sync_tells_what_the_updates_before_it_did(attempt: Path) -> None:
    class Hooked(Engine):
        pass

    class Worker:
        def __init__(self) -> None:
            self.actor = SimpleNamespace(engine=Hooked())

        async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> tuple[int | None, str]:
            """As verl's."""
            return global_steps, mode

    Worker.update_weights.attrs_of_verl = {"dispatch_mode": 1}  # type: ignore[attr-defined]
    rlx_verl_weights.hook_engine(Hooked)
    rlx_verl_weights.hook_worker(Worker)
    worker = Worker()
    assert asyncio.run(worker.update_weights(global_steps=0)) == (0, "auto")
    assert worker.actor.engine.optimizer_step() == worker.actor.engine.optimizer_step() == 0.5
    assert asyncio.run(worker.update_weights(1, "naive")) == (1, "naive")
    assert inspect.iscoroutinefunction(Worker.update_weights)
    assert Worker.update_weights.attrs_of_verl == {"dispatch_mode": 1}  # type: ignore[attr-defined]
    _, first, second = lines(attempt)
    assert (first["moving"], second["updates"], second["moving"], second["lr"]) == (0, 2, 2, 0.1)
    assert first["digests"] != second["digests"]


def test_what_breaks_in_a_hook_reaches_no_training(attempt: Path) -> None:
    class Worker:
        actor = None

        async def update_weights(self, global_steps: int | None = None) -> str:
            return "synced"

    rlx_verl_weights.hook_worker(Worker)
    assert asyncio.run(Worker().update_weights(3)) == "synced"
    assert [line["kind"] for line in lines(attempt)] == ["unable"]


def test_an_engine_records_what_it_received(attempt: Path) -> None:
    class Worker:
        rank = 3

        def __init__(self) -> None:
            parallel = SimpleNamespace(tensor_parallel_size=2, data_parallel_index=1)
            config = SimpleNamespace(parallel_config=parallel)
            self.model_runner = SimpleNamespace(model=torch.nn.Linear(4, 4), vllm_config=config)

        def update_weights_from_ipc(self, peft_config: Any = None, base_sync_done: bool = False) -> str:
            with torch.no_grad():
                self.model_runner.model.weight += 1
            return "received"

    rlx_verl_weights.hook_vllm(Worker)
    worker = Worker()
    assert [worker.update_weights_from_ipc() for _ in range(2)] == ["received"] * 2
    told, first, second = lines(attempt)
    assert told["role"] == "served" and told["process"] == {"replica": 0, "shard": 1, "rank": 1, "node": 0}
    assert first["digests"] != second["digests"] and "step" not in first
