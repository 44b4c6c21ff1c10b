"""rlx aqn schedule says what the plan promises, and what rounding leaves of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.api.noise import norm_weights
from rlx.cli.aqn import aqn
from rlx.cli.text.noise_text import percent
from rlx.errors import RlxError, UsageError
from tests.backends.conftest import BASE, CPU, merge

NOISE = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 10}


def written(folder: Path, *changes: dict[str, Any]) -> str:
    document: dict[str, Any] = {}
    for change in (BASE, CPU, {"arms": {"baseline": {}, "aqn": {"aqn": NOISE}}, "control": "baseline"}, *changes):
        merge(document, change)
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return str(path)


def said(*arguments: str) -> str:
    return CliRunner().invoke(aqn, ["schedule", *arguments], catch_exceptions=False).output


def answer(*arguments: str) -> dict[str, Any]:
    (arm,) = json.loads(said(*arguments, "--json"))["arms"]
    return dict(arm)


def test_stages_as_rows(tmp_path: Path, wording: SnapshotAssertion) -> None:
    lines = said(written(tmp_path, {"model": {"dtype": "bfloat16"}})).splitlines()
    assert re.findall(r"\b\d+\b", lines[0]) == ["116", "104"]
    assert "bfloat16" in lines[1] and "11" in lines[1] and "0.0005" in lines[1]
    assert lines[:2] == wording
    assert lines[2].split() == ["steps", "sigma", "bfloat16", "*", "float16", "float32"]
    assert lines[3].split() == ["1–12", "none", "–", "–", "–"]
    assert lines[4].split("  ")[0] == "13–24" and "95 % change, std 0.05" in lines[4]
    assert len([line for line in lines if "–" in line]) == 10


def test_the_numbers_of_a_published_measurement(tmp_path: Path) -> None:
    """bfloat16 weights around 1: sigma 1e-2 changes 77 %, 1e-3 changes 2.5 % (torch 2.13, 200,000 weights)."""
    found = answer(written(tmp_path, {"model": {"dtype": "bfloat16"}}), "--set", "arms.aqn.aqn.sigma_start=0.01",
                   "--set", "arms.aqn.aqn.sigma_end=0.001", "--set", "arms.aqn.aqn.stages=3")  # fmt: skip
    shares = [stage["survives"]["rmsnorm"]["bfloat16"]["changed"] for stage in found["stages"][1:]]
    assert shares == [pytest.approx(0.77, abs=0.01), pytest.approx(0.025, abs=0.002)]
    assert found["stages"][0]["survives"] == {}
    assert found["steps_mostly_rounded_away"] == {"rmsnorm": 0}  # a tenth of them moves, and far: std 6e-4 of 1e-3


@pytest.mark.parametrize("schedule", ["geometric", "linear", "constant"])
def test_json_is_what_the_plan_promises(schedule: str, tmp_path: Path) -> None:
    noise = {"schedule": schedule, "per_epoch": True, **({"sigma_end": 0.05} if schedule == "constant" else {})}
    found = answer(written(tmp_path, {"arms": {"aqn": {"aqn": noise}}}))
    assert len(found["sigmas"]) == found["total_steps"] == 116
    # 58 steps an epoch; both begin with a stage free of noise, and the second goes on where the first ended.
    assert [stage["first"] for stage in found["stages"] if stage["sigma"] == 0] == [1, 59]
    assert found["noisy_steps"] == 116 - 2 * 6
    ends = {"geometric": 0.005, "linear": (0.05 + 0.0005) / 2, "constant": 0.05}
    assert found["sigmas"][57] == pytest.approx(ends[schedule]) == pytest.approx(found["sigmas"][64])
    for stage in found["stages"]:
        assert set(found["sigmas"][stage["first"] - 1 : stage["last"]]) == {stage["sigma"]}


def test_each_layer_type_has_its_own_weights(tmp_path: Path) -> None:
    both = {"arms": {"aqn": {"aqn": {"layer_types": ["rmsnorm", "linear"]}}}}
    recipe = written(tmp_path, {"model": {"dtype": "bfloat16"}}, both)
    found = answer(recipe)
    assert found["weights_around"] == {"rmsnorm": 1.0, "linear": 0.02}
    last = found["stages"][-1]["survives"]
    assert last["rmsnorm"]["bfloat16"]["changed"] < 0.001 < 0.9 < last["linear"]["bfloat16"]["changed"]
    assert "arm aqn, linear layers" in said(recipe)


def test_markdown(tmp_path: Path) -> None:
    lines = said(written(tmp_path), "--md").splitlines()
    assert lines[2:4] == ["| steps | sigma | bfloat16 | float16 | float32 \\* |", "| --- | --- | --- | --- | --- |"]
    assert lines[5].startswith("| 13–24 | 0.05 | 95 % change, std 0.05 | ")


@pytest.mark.parametrize(("name", "begins"), [("s.svg", b"<?xml"), ("s.png", b"\x89PNG")])
def test_a_plot(name: str, begins: bytes, tmp_path: Path) -> None:
    said(written(tmp_path), "--plot", str(tmp_path / name))
    content = (tmp_path / name).read_bytes()
    assert content.startswith(begins)
    if name.endswith("svg"):
        assert b"planned 0.05" in content and b"applied" not in content


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--arm", "baseline"), "no noise in baseline"),
        (("--json", "--md"), "exclude each other"),
        (("--plot", "-"), "--plot -"),
        (("--plot", "a.pdf"), "a.pdf"),
        (("--set", "data.train_rows=null"), "the length of the run is not known"),
        (("--set", "data.train_rows=3"), "arm aqn: the run has no step"),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        said(written(tmp_path), *arguments)


class TestRealWeights:
    def saved(self, folder: Path, dtype: str, **tensors: list[float]) -> Path:
        torch = pytest.importorskip("torch")
        from safetensors.torch import save_file

        kind = getattr(torch, dtype)
        made = {name.replace("__", "."): torch.tensor(values, dtype=kind) for name, values in tensors.items()}
        save_file(made, folder / "model.safetensors")
        return folder

    @pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
    def test_are_read_from_every_dtype(self, dtype: str, tmp_path: Path) -> None:
        self.saved(tmp_path, dtype, layers__0__input_layernorm__weight=[1.0, 1.5, -1.25, 0.0], norm__weight=[4.0],
                   q_proj__weight=[[9.0]], layers__0__input_layernorm__bias=[7.0])  # fmt: skip
        assert norm_weights(tmp_path) == {1.0: 1, 1.5: 2, 0.0: 1, 4.0: 1}

    def test_change_what_survives(self, tmp_path: Path) -> None:
        recipe = written(tmp_path, {"model": {"dtype": "bfloat16"}})
        self.saved(tmp_path, "bfloat16", norm__weight=[8.5, 9.5, 10.5])
        plain, real = answer(recipe), answer(recipe, "--weights", str(tmp_path))
        assert real["weights_around"] == {"rmsnorm": 12.0}
        assert real["steps_mostly_rounded_away"]["rmsnorm"] > plain["steps_mostly_rounded_away"]["rmsnorm"]

    @pytest.mark.parametrize("content", [None, b"", b"\x05\0\0\0\0\0\0\0[1,2]", b"\xff" * 20, b"\x02\0\0\0\0\0\0\0{}"])
    def test_where_there_are_none(self, content: bytes | None, tmp_path: Path) -> None:
        if content is not None:
            (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(RlxError, match="weights"):
            norm_weights(tmp_path)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (1e-9, "0 %"), (4.7e-5, "0.0047 %"), (0.5, "50 %"), (0.9999, "<100 %"), (1, "100 %")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share: float, text: str) -> None:
    assert percent(share) == text
