"""AQN in the rollout's weights: the schedule, which layers, what survives rounding, and what the record says."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

torch = pytest.importorskip("torch")

from rlx_aqn import Injector  # noqa: E402
from rlx_aqn_layers import choose, is_mixture_of_experts  # noqa: E402
from rlx_aqn_noise import stable_seed  # noqa: E402
from rlx_aqn_settings import SCHEDULES, InjectionSettings  # noqa: E402

from rlx.model import sigmas_by_step  # noqa: E402
from tests.payload.models import dense, moe, moved, weights  # noqa: E402


def injector(tmp_path: Path, **changes: object) -> Injector:
    settings = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 5, "total_steps": 20, "seed": 1, **changes}
    return Injector(InjectionSettings(**settings), tmp_path / "events.jsonl")


class TestSchedule:
    @given(
        start=st.floats(1e-3, 1), ratio=st.floats(1e-4, 1), stages=st.integers(3, 40), total=st.integers(1, 400),
        schedule=st.sampled_from(SCHEDULES), epoch=st.none() | st.integers(1, 200),
    )  # fmt: skip
    def test_equals_the_plan_s(
        self, start: float, ratio: float, stages: int, total: int, schedule: str, epoch: int | None
    ) -> None:
        settings = InjectionSettings(start, start * ratio, stages, total, schedule=schedule, epoch_steps=epoch)
        promised = sigmas_by_step(start, start * ratio, stages, total, schedule, epoch)
        assert [settings.sigma(step) for step in range(1, total + 1)] == pytest.approx(promised, rel=1e-12, abs=0)

    def test_nothing_before_the_first_and_after_the_last_step(self) -> None:
        settings = InjectionSettings(0.05, 0.0005, 5, 20)
        assert (settings.sigma(0), settings.sigma(20), settings.sigma(21)) == (0.0, pytest.approx(0.0005), 0.0)

    @pytest.mark.parametrize("changes", [{"stages": 2}, {"layer_types": ("attention",)}, {"schedule": "cosine"}])
    def test_refuses_what_it_cannot_do(self, changes: dict[str, object]) -> None:
        with pytest.raises(ValueError, match="AQN"):
            InjectionSettings(**{"sigma_start": 0.05, "sigma_end": 0.01, "stages": 5, "total_steps": 20, **changes})


class TestLayers:
    def names(self, model, kind: str = "rmsnorm", targets="auto", exclude=()) -> list[str]:
        return [layer.name for layer in choose(model, kind, targets, exclude)[0]]

    def test_a_dense_model_with_gate_proj_is_no_mixture_of_experts(self) -> None:
        assert any("gate_proj" in name for name, _ in dense().named_modules())
        assert not is_mixture_of_experts(dense())
        assert is_mixture_of_experts(moe())

    def test_dense_takes_every_norm(self) -> None:
        assert len(self.names(dense())) == 2 * 2 + 1

    def test_moe_takes_the_post_attention_norms_only(self) -> None:
        chosen, skipped = choose(moe(), "rmsnorm", "auto", ())
        assert [layer.name for layer in chosen] == [f"model.layers.{i}.post_attention_layernorm" for i in (0, 1)]
        assert skipped == 7  # two input norms, two q_norm, two k_norm, the final norm

    def test_exclude_wins_over_targets(self) -> None:
        assert self.names(dense(), exclude=("input_layernorm", "model.norm")) == self.names(
            dense(), targets=("post_attention",)
        )

    def test_a_class_that_is_only_named_like_a_norm_counts(self) -> None:
        class VendorRMSNorm(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(4))

        assert self.names(torch.nn.ModuleDict({"input_layernorm": VendorRMSNorm()})) == ["input_layernorm"]

    def test_linear_leaves_head_embeddings_and_routers_alone(self) -> None:
        names = self.names(moe(), "linear")
        assert "model.layers.0.self_attn.q_proj" in names
        assert "model.layers.0.mlp.experts" in names
        assert not [name for name in names if name.endswith("mlp.gate") or "lm_head" in name or "embed" in name]

    def test_patterns_of_experts_and_mlp_never_reach_the_router(self) -> None:
        assert self.names(moe(), "linear", ("experts", "mlp")) == [f"model.layers.{i}.mlp.experts" for i in (0, 1)]

    def test_the_head_takes_noise_where_it_is_named(self) -> None:
        assert self.names(dense(), "linear", ("lm_head",)) == ["lm_head"]
        assert self.names(dense(), "linear", ("head",)) == []


class TestNoise:
    def test_only_the_chosen_weights_move(self, tmp_path: Path) -> None:
        model = dense()
        clean = weights(model)
        injector(tmp_path).apply(model, 5)
        assert moved(model, clean) == {name for name in clean if "norm" in name}

    def test_calls_do_not_accumulate(self, tmp_path: Path) -> None:
        model, noise = dense(), injector(tmp_path)
        noise.apply(model, 5)
        once = weights(model)
        noise.apply(model, 5)
        assert not moved(model, once)

    def test_validation_restores_the_clean_weights_bit_for_bit(self, tmp_path: Path) -> None:
        model, noise = dense().bfloat16(), injector(tmp_path)
        clean = weights(model)
        noise.apply(model, 5)
        assert moved(model, clean)
        noise.apply(model, 4, phase="validation")
        assert not moved(model, clean)

    def test_weights_of_a_new_sync_are_not_overwritten(self, tmp_path: Path) -> None:
        model, other, noise = dense(), dense(), injector(tmp_path)
        torch.nn.init.constant_(other.model.norm.weight, 3.0)
        noise.apply(model, 5)
        model.load_state_dict(other.state_dict())
        noise.apply(model, 1)
        assert not moved(model, other.state_dict())

    def test_the_same_seed_replica_step_and_name_give_the_same_noise(self, tmp_path: Path) -> None:
        def noised(step: int = 5, replica: int = 0, seed: int = 1) -> torch.Tensor:
            model = dense()
            injector(tmp_path, seed=seed).apply(model, step, replica)
            return model.model.norm.weight.detach()

        assert torch.equal(noised(), noised())
        for other in (noised(step=6), noised(replica=1), noised(seed=2)):
            assert not torch.equal(noised(), other)

    def test_the_seed_does_not_depend_on_the_process(self) -> None:
        assert stable_seed(1, 0, 5, "model.norm.weight") == 2100176462392420180

    def test_linear_noise_moves_linear_weights(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        model = moe()
        clean = weights(model)
        injector(tmp_path, layer_types=("linear",)).apply(model, 5)
        assert "model.layers.0.mlp.experts.gate_up_proj" in moved(model, clean)
        assert not any("norm" in name or "mlp.gate.weight" in name for name in moved(model, clean))
        assert "linear layers (skipped 1 excluded layers)" in capsys.readouterr().out

    def test_refuses_an_unknown_phase(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="phase"):
            injector(tmp_path).apply(dense(), 5, phase="training")


class TestRecord:
    def events(self, tmp_path: Path, kind: str = "noise") -> list[dict[str, object]]:
        events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()]
        return [event for event in events if event["kind"] == kind]

    def test_the_umask_decides_who_may_read_it(self, tmp_path: Path) -> None:
        # root of a container writes for a user of the host
        before = os.umask(0o022)
        try:
            injector(tmp_path).apply(dense(), 5)
        finally:
            os.umask(before)
        assert (tmp_path / "events.jsonl").stat().st_mode & 0o777 == 0o644

    def test_noise_is_printed_and_recorded(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], wording: SnapshotAssertion
    ) -> None:
        injector(tmp_path, exclude=("input_layernorm",)).apply(dense(), 5, replica=2)
        assert capsys.readouterr().out == wording
        event = self.events(tmp_path)[0]
        assert event.pop("time") > 0
        assert event.pop("effective_std") == pytest.approx(0.05, rel=0.4)
        assert len(event.pop("fingerprint")) == 16
        assert len({event.pop("digest_clean"), event.pop("digest_after")}) == 2
        assert event == {
            "kind": "noise", "phase": "rollout", "step": 5, "sigma": 0.05, "replica": 2,
            "layers": 3, "skipped": 2, "elements": 48, "changed": 48, "restored": 0, "asked_std": 0.05,
            "dtypes": ["float32"], "seq": 1, "process": {"replica": 2, "shard": 0, "rank": 0, "node": 0},
            "synced": False, "digest_before": "",
        }  # fmt: skip

    def test_what_a_sync_puts_back_is_counted(self, tmp_path: Path) -> None:
        model, noise = dense(), injector(tmp_path)
        noise.apply(model, 5)
        assert noise.restore() == 5
        assert noise.restore() == 0  # a second part of the same sync
        noise.apply(model, 6)
        noise.apply(model, 6)
        assert [(event["restored"], event["synced"]) for event in self.events(tmp_path)] == [
            (0, False), (5, True), (5, False),
        ]  # fmt: skip

    def test_lines_are_numbered_over_all_that_a_process_writes(self, tmp_path: Path) -> None:
        for _ in range(2):
            injector(tmp_path).apply(dense(), 5)
        lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [(line["seq"], line["kind"]) for line in lines] == [
            (0, "settings"), (1, "noise"), (2, "settings"), (3, "noise"),
        ]  # fmt: skip

    def test_at_its_end_a_process_says_how_many(self, tmp_path: Path) -> None:
        from rlx.resources import payload_folder

        path = tmp_path / "aqn-a-1.jsonl"
        code = "import pathlib, sys; from rlx_aqn_events import *; path = pathlib.Path(sys.argv[1]); "
        code += "writer(path).append('x', Process(), {})"
        command = [sys.executable, "-c", code, str(path)]
        subprocess.run(command, check=True, env={"PYTHONPATH": str(payload_folder())})
        last = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
        assert (last["kind"], last["seq"], last["count"]) == ("end", 1, 2)

    def test_a_clean_sync_leaves_a_record_and_no_print(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        noise = injector(tmp_path)
        noise.apply(dense(), 1)
        noise.apply(dense(), 8, phase="validation")
        assert capsys.readouterr().out == ""
        recorded = [(event["phase"], event["step"], event["sigma"], event["layers"]) for event in self.events(tmp_path)]
        assert recorded == [("rollout", 1, 0.0, 0), ("validation", 8, 0.0, 0)]

    def test_declared_validation_noise_is_that_of_the_validated_step(self, tmp_path: Path) -> None:
        event = injector(tmp_path, validation_noise=True).apply(dense(), 5, phase="validation")
        assert (event.sigma, event.layers) == (0.05, 5)

    # From a measurement with 200,000 weights around w: share of elements changed, effective sigma.
    @pytest.mark.parametrize(
        ("sigma", "around", "share", "effective"),
        [(5e-2, 1.0, 0.95, 5.0e-2), (1e-2, 3.0, 0.43, 1.1e-2), (1e-3, 0.3, 0.34, 1.1e-3), (1e-3, 1.0, 0.025, 6e-4),
         (5e-4, 3.0, 0.0, 0.0), (1e-4, 0.3, 0.0, 0.0)],
    )  # fmt: skip
    def test_bfloat16_swallows_small_noise(
        self, tmp_path: Path, sigma: float, around: float, share: float, effective: float
    ) -> None:
        class RMSNorm(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                spread = around + 0.1 * around * torch.randn(200_000, generator=torch.Generator().manual_seed(0))
                self.weight = torch.nn.Parameter(spread.bfloat16())

        event = injector(tmp_path, sigma_start=sigma, sigma_end=sigma).apply(RMSNorm(), 5)
        assert event.changed / event.elements == pytest.approx(share, abs=0.03)
        assert event.effective_std == pytest.approx(effective, rel=0.15, abs=2e-5)


class TestRunDirectory:
    @pytest.fixture
    def run_dir(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("RLX_RUN_DIR", str(tmp_path))
        monkeypatch.setenv("RLX_ATTEMPT_DIR", str(tmp_path / "attempts/1"))
        (tmp_path / "payload").mkdir()
        return tmp_path

    def test_no_file_no_injector(self, run_dir: Path) -> None:
        assert Injector.from_run_directory() is None

    def test_no_run_no_injector(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("RLX_RUN_DIR", raising=False)
        assert Injector.from_run_directory() is None

    def test_reads_the_settings_and_writes_into_the_attempt(self, run_dir: Path) -> None:
        settings = {
            "sigma_start": 0.05, "sigma_end": 0.0005, "stages": 5, "total_steps": 20, "layer_types": ["rmsnorm"],
            "targets": ["post_attention"], "exclude": ["layers.0"], "seed": 1, "validation_noise": False,
        }  # fmt: skip
        (run_dir / "payload" / "aqn.json").write_text(json.dumps(settings), encoding="utf-8")
        Injector.from_run_directory().apply(dense(), 5)
        (written,) = (run_dir / "attempts/1/events").glob("aqn-*.jsonl")
        settings_line, noise_line = map(json.loads, written.read_text(encoding="utf-8").splitlines())
        assert (settings_line["kind"], noise_line["layers"]) == ("settings", 1)
        assert (settings_line["layers"], settings_line["elements"]) == (["model.layers.1.post_attention_layernorm"], 16)
        read = (run_dir / "payload/aqn.json").read_bytes()
        assert settings_line["digest"] == hashlib.sha256(read).hexdigest()[:16]

    def test_each_process_signs_as_itself(self, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 5, "total_steps": 20}
        (run_dir / "payload" / "aqn.json").write_text(json.dumps(settings), encoding="utf-8")
        monkeypatch.setenv("RLX_NODE", "3")
        Injector.from_run_directory(tp_size=2, shard=1, rank=1).apply(dense(), 5, replica=4)
        (written,) = (run_dir / "attempts/1/events").glob("aqn-*.jsonl")
        lines = list(map(json.loads, written.read_text(encoding="utf-8").splitlines()))
        assert {tuple(line["process"].values()) for line in lines} == {(4, 1, 1, 3)}

    def test_an_unknown_setting_is_an_error(self, run_dir: Path) -> None:
        (run_dir / "payload" / "aqn.json").write_text('{"sigma_strat": 0.05}', encoding="utf-8")
        with pytest.raises(TypeError, match="sigma_strat"):
            Injector.from_run_directory()
