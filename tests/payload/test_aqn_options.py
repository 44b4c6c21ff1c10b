"""Every option of the noise either has an effect, which the record shows, or ends the run before it begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

from rlx_aqn import Injector  # noqa: E402
from rlx_aqn_settings import InjectionSettings  # noqa: E402

from tests.payload.models import dense, moe, moved, weights  # noqa: E402


def injector(tmp_path: Path, tp_size: int = 1, **changes: object) -> Injector:
    settings = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 5, "total_steps": 20, "seed": 1, **changes}
    return Injector(InjectionSettings(**settings), tmp_path / "events.jsonl", tp_size)


def records(tmp_path: Path, kind: str) -> list[dict[str, object]]:
    lines = map(json.loads, (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == kind]


class TestWithoutEffect:
    @pytest.mark.parametrize(
        ("changes", "option", "pattern"),
        [
            ({"targets": ("post_attention", "no_such_layer")}, "targets", "no_such_layer"),
            ({"targets": ("no_such_layer",)}, "targets", "no_such_layer"),
            ({"exclude": ("no_such_layer",)}, "exclude", "no_such_layer"),
            ({"exclude": ("norm",)}, "exclude", "norm leaves no rmsnorm layer"),
            # Excluded already by the targets: the pattern decides about nothing.
            ({"targets": ("post_attention",), "exclude": ("input_layernorm",)}, "exclude", "input_layernorm"),
            ({"multipliers": {"q_proj": 0.5}}, "multipliers", "q_proj"),
            ({"exclude": ("input_layernorm",), "multipliers": {"input_layernorm": 2.0}}, "multipliers", "input_layern"),
            ({"layer_types": ("rmsnorm", "linear"), "targets": ("norm",)}, "layer_types", "linear"),
        ],
    )  # fmt: skip
    def test_an_option_is_an_error_at_start(
        self, changes: dict[str, object], option: str, pattern: str, tmp_path: Path
    ) -> None:
        noise = injector(tmp_path, **changes)
        with pytest.raises(ValueError, match=rf"^RLX640 aqn\.{option}: {pattern}.*\(fix: .*aqn\.{option}"):
            noise.apply(dense(), 1)  # step 1 has no noise yet: it is the start that counts
        assert not (tmp_path / "events.jsonl").exists()

    def test_a_model_without_such_layers_is_named_so(self, tmp_path: Path, wording: SnapshotAssertion) -> None:
        with pytest.raises(ValueError, match="RLX640 ") as refused:
            injector(tmp_path).apply(torch.nn.Linear(4, 4), 1)
        assert str(refused.value) == wording

    def test_it_is_checked_once(self, tmp_path: Path) -> None:
        noise = injector(tmp_path)
        for step in (1, 5, 9):
            noise.apply(dense(), step)
        assert len(records(tmp_path, "settings")) == 1


class TestRecord:
    def test_every_option_shows(self, tmp_path: Path) -> None:
        changes = {
            "layer_types": ("rmsnorm", "linear"), "targets": ("layers",), "exclude": ("layers.0.mlp",),
            "multipliers": {"post_attention": 0.5, "layers.1.": 2.0}, "schedule": "linear", "epoch_steps": 10,
            "validation_noise": True, "seed": 7,
        }  # fmt: skip
        injector(tmp_path, **changes).apply(dense(), 1)
        (record,) = records(tmp_path, "settings")
        for option, value in changes.items():
            assert record[option] == (list(value) if isinstance(value, tuple) else value), option
        assert record["reached"] == {
            "layer_types": {"rmsnorm": 4, "linear": 11},
            "targets": {"layers": 15},
            "exclude": {"layers.0.mlp": 3},
            "multipliers": {"post_attention": 2, "layers.1.": 9},
        }

    def test_the_fingerprint_names_the_noise_and_not_the_weights(self, tmp_path: Path) -> None:
        def fingerprint(model: torch.nn.Module, step: int = 5, **changes: object) -> object:
            return injector(tmp_path, **changes).apply(model, step).fingerprint

        first = fingerprint(dense())
        assert first == fingerprint(dense().bfloat16()) != ""
        for other in (fingerprint(dense(), step=6), fingerprint(dense(), seed=2)):
            assert other != first

    def test_dtypes_are_those_of_the_weights(self, tmp_path: Path) -> None:
        model = dense()
        model.model.norm.bfloat16()
        assert injector(tmp_path).apply(model, 5).dtypes == ("bfloat16", "float32")


class TestMultipliers:
    def test_factors_that_match_are_multiplied(self, tmp_path: Path) -> None:
        def change(**changes: object) -> dict[str, torch.Tensor]:
            model = dense()
            clean = weights(model)
            injector(tmp_path, **changes).apply(model, 5)
            return {name: weight - clean[name] for name, weight in model.state_dict().items()}

        plain = change()
        scaled = change(multipliers={"layers.1.": 2.0, "post_attention": 0.25})
        factors = {"model.layers.0.input": 1, "model.layers.1.input": 2, "model.layers.0.post": 0.25}
        for start, factor in {**factors, "model.layers.1.post": 0.5, "model.norm": 1}.items():
            (name,) = [name for name in plain if name.startswith(start)]
            torch.testing.assert_close(scaled[name], plain[name] * factor, rtol=1e-4, atol=1e-7)

    def test_the_record_says_what_was_asked_for(self, tmp_path: Path) -> None:
        event = injector(tmp_path, multipliers={"norm": 0.1}).apply(dense(), 5)
        assert (event.sigma, event.asked_std) == (0.05, pytest.approx(0.005))
        assert event.effective_std == pytest.approx(0.005, rel=0.4)


class TestLayers:
    def test_a_weight_that_two_modules_share_takes_noise_once(self, tmp_path: Path) -> None:
        model = dense()
        model.model.layers[1].input_layernorm.weight = model.model.layers[0].input_layernorm.weight
        clean, noise = weights(model), injector(tmp_path)
        assert noise.apply(model, 5).layers == 4
        noise.apply(model, 4, phase="validation")
        assert not moved(model, clean)

    def test_adapters_and_wrapped_routers_take_none(self, tmp_path: Path) -> None:
        class Wrapped(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.base_layer, self.lora_A = torch.nn.Linear(4, 4), torch.nn.ModuleDict()
                self.lora_A["default"] = torch.nn.Linear(4, 2)

        model = torch.nn.ModuleDict({"q_proj": Wrapped(), "gate": Wrapped()})
        clean = weights(model)
        injector(tmp_path, layer_types=("linear",)).apply(model, 5)
        assert moved(model, clean) == {"q_proj.base_layer.weight"}

    @pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8])
    def test_codes_of_a_quantisation_take_none(self, dtype: torch.dtype, tmp_path: Path) -> None:
        model = torch.nn.ModuleDict({"plain": torch.nn.Linear(4, 4), "coded": torch.nn.Linear(4, 4)})
        model.coded.weight = torch.nn.Parameter(torch.ones(4, 4).to(dtype), requires_grad=False)
        event = injector(tmp_path, layer_types=("linear",)).apply(model, 5)
        assert (event.layers, event.elements) == (1, 16)


class TestTensorParallel:
    def test_ranks_agree_on_whole_norms(self, tmp_path: Path) -> None:
        ranks = [dense(), dense()]
        for model in ranks:
            injector(tmp_path, tp_size=2).apply(model, 5, replica=3)
        assert torch.equal(ranks[0].model.norm.weight, ranks[1].model.norm.weight)
        one, other = records(tmp_path, "noise")
        assert one["fingerprint"] == other["fingerprint"]

    def test_split_matrices_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"^RLX642 .*q_proj over 2 ranks.*\(fix: rollout\.tp: 1"):
            injector(tmp_path, tp_size=2, layer_types=("linear",)).apply(moe(), 1)

    def test_norms_that_a_rank_holds_in_part_are_refused(self, tmp_path: Path) -> None:
        class MiniMaxText01RMSNormTP(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(4))

        model = torch.nn.ModuleDict({"q_norm": MiniMaxText01RMSNormTP()})
        with pytest.raises(ValueError, match=r"RLX642 .*q_norm"):
            injector(tmp_path, tp_size=2).apply(model, 1)
        injector(tmp_path, tp_size=1).apply(model, 1)
