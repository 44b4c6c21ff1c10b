"""Several draws of noise in one step: each its own, equal whenever it comes back, and counted by its answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

torch = pytest.importorskip("torch")

from rlx_aqn import Injector  # noqa: E402
from rlx_aqn_settings import InjectionSettings  # noqa: E402

from tests.payload.models import dense, weights  # noqa: E402


def injector(folder: Path, perturbations: int = 3) -> Injector:
    settings = InjectionSettings(0.05, 0.05, 5, 20, seed=1, schedule="constant", perturbations=perturbations)
    return Injector(settings, folder / "events.jsonl")


def records(folder: Path) -> list[dict[str, object]]:
    lines = map(json.loads, (folder / "events.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == "noise"]


def test_each_draw_is_another_and_the_same_when_it_comes_back(tmp_path: Path) -> None:
    noise, model = injector(tmp_path), dense()
    prints = [noise.apply(model, 9, draw=draw).fingerprint for draw in (0, 1, 2, 0, 1)]
    assert len(set(prints)) == 3
    assert prints[:2] == prints[3:]


def test_the_first_draw_is_that_of_a_step_with_one(tmp_path: Path) -> None:
    alone = injector(tmp_path / "alone", perturbations=1).apply(dense(), 9)
    several = injector(tmp_path / "several").apply(dense(), 9)
    assert alone == several
    assert "draw" not in records(tmp_path / "alone")[0]


def test_a_draw_starts_from_clean_weights(tmp_path: Path) -> None:
    noise, model = injector(tmp_path), dense()
    clean = weights(model)
    for draw in range(3):
        noise.apply(model, 9, draw=draw)
    noise.restore()
    assert all(torch.equal(weight, clean[name]) for name, weight in weights(model).items())
    told = records(tmp_path)
    assert len({line["digest_clean"] for line in told}) == 1
    assert [line["digest_before"] for line in told[1:]] == [line["digest_after"] for line in told[:-1]]


def test_each_record_counts_the_answers_since_the_one_before(tmp_path: Path) -> None:
    noise, model = injector(tmp_path), dense()
    for step, draw in ((9, 0), (9, 1), (9, 2), (10, 0)):
        noise.apply(model, step, draw=draw)
        noise.answered(4 + draw)
    assert [(line["draw"], line["answered"]) for line in records(tmp_path)] == [(0, 0), (1, 4), (2, 5), (0, 6)]


def test_no_draw_is_no_noise(tmp_path: Path, wording: SnapshotAssertion) -> None:
    with pytest.raises(ValueError, match="AQN") as refused:
        injector(tmp_path, perturbations=0)
    assert str(refused.value) == wording
