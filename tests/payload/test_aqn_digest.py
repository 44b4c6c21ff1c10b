"""Digests of the weights that take noise: equal for equal weights, other for whatever was touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from rlx_aqn import Injector  # noqa: E402
from rlx_aqn_digest import WeightSnapshot  # noqa: E402
from rlx_aqn_settings import InjectionSettings  # noqa: E402

from tests.payload.models import dense, weights  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def digest(**named: torch.Tensor) -> str:
    return WeightSnapshot(named.items()).digest


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (5, 8), (5, 3), (2, 3, 5)])
def test_one_changed_bit_shows(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    weight = torch.ones(shape, dtype=dtype)
    before = digest(a=weight)
    assert len(before) == 16 and digest(a=weight.clone()) == before
    weight.view(-1)[-1] = torch.nextafter(weight.view(-1)[-1].float(), torch.tensor(9.0)).to(dtype) + 0.01
    assert digest(a=weight) != before


def test_names_dtypes_and_shapes_count_and_the_order_does_not() -> None:
    one, two = torch.zeros(4), torch.ones(4)
    assert digest(a=one, b=two) == digest(b=two, a=one) != digest(a=two, b=one)
    assert len({digest(a=one), digest(b=one), digest(a=torch.zeros(8).half()), digest(a=torch.zeros(2, 2))}) == 4
    assert digest() == ""


def test_what_it_is_at_that_moment() -> None:
    weight = torch.zeros(4)
    taken = WeightSnapshot([("a", weight)])
    before = digest(a=weight)
    weight += 1
    assert taken.digest == before


class TestInASync:
    """Settings with noise from step 2 of 3 on, in bfloat16 too small for any weight to change at step 3."""

    def run(self, tmp_path: Path, dtype: torch.dtype = torch.float32) -> list[dict[str, object]]:
        settings = InjectionSettings(sigma_start=0.05, sigma_end=0.0001, stages=3, total_steps=3, seed=1)
        injector = Injector(settings, tmp_path / "events.jsonl")
        model = dense().to(dtype)
        clean = weights(model)
        for step in (1, 2, 3):
            injector.restore()
            model.load_state_dict({name: weight + step for name, weight in clean.items()})
            injector.apply(model, step)
            injector.apply(model, step - 1, phase="validation")
            injector.apply(model, step)
        lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if line["kind"] == "noise"]

    @pytest.mark.parametrize("dtype", DTYPES[:2])
    def test_what_is_found_is_what_was_left(self, tmp_path: Path, dtype: torch.dtype) -> None:
        lines = self.run(tmp_path, dtype)
        assert [line["digest_before"] for line in lines[1:]] == [line["digest_after"] for line in lines[:-1]]
        assert lines[0]["digest_before"] == ""

    @pytest.mark.parametrize("dtype", DTYPES[:2])
    def test_other_than_clean_if_and_only_if_something_changed(self, tmp_path: Path, dtype: torch.dtype) -> None:
        lines = self.run(tmp_path, dtype)
        assert [line["digest_after"] != line["digest_clean"] for line in lines] == [
            line["changed"] > 0 for line in lines
        ]
        changed = [bool(line["changed"]) for line in lines if line["phase"] == "rollout"]
        assert changed == [False, False, True, True, dtype == torch.float32, dtype == torch.float32]

    def test_validations_have_what_the_sync_brought(self, tmp_path: Path) -> None:
        lines = self.run(tmp_path)
        assert [line["synced"] for line in lines] == [True, False, False] * 3
        for sync, validation, back in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
            assert validation["digest_after"] == sync["digest_clean"] == back["digest_clean"]
            assert back["digest_after"] == sync["digest_after"]
        assert len({line["digest_clean"] for line in lines}) == 3

    def test_an_engine_that_gave_its_weights_away_found_nothing(self, tmp_path: Path) -> None:
        injector = Injector(InjectionSettings(0.05, 0.0005, 3, 3), tmp_path / "events.jsonl")
        model = dense()
        for _ in range(2):
            injector.restore(kept=False)
            event = injector.apply(model, 2)
        assert (event.digest_before, event.synced) == ("", True)
