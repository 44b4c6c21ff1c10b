"""Recipes that nobody would write and the schema allows: `rlx validate` says what it says, and never ends otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from rlx.cli.frame.app import command_line
from tests.planning.test_rules_against_verl import OVERRIDES

SIZES = st.one_of(st.integers(1, 40), st.sampled_from([61, 128, 1024, 2**31, 2**40]))
ANY = st.one_of(SIZES, st.floats(allow_nan=False, allow_infinity=False), st.none(), st.booleans(), st.text(max_size=3))
VERSIONS = st.sampled_from(["0.9.1", "0.8.0", "0.7.1", "0.6.1", "0.5.0", "2.3.0"])
POST = (None, {"rows": "/r.parquet"}, {"rows": "/r.jsonl", "n": 3, "convert": "/c"})
KEYS = (
    *OVERRIDES,
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size",
    "actor_rollout_ref.model.lora.rank",
    "actor_rollout_ref.rollout.max_model_len",
    "algorithm.filter_groups.enable",
    "data.train_max_samples",
    "trainer.logger",
    "trainer.nnodes",
    "trainer.test_freq",
    "trainer.total_epochs",
    "trainer.v1.trainer_mode",
)


@st.composite
def recipes(draw: st.DrawFn) -> dict[str, Any]:
    kinds = {"kind": draw(st.sampled_from(["verl", "verl", "mindspeed-rl"])), "version": draw(VERSIONS)}
    layout = {name: draw(SIZES) for name in ("nodes", "devices_per_node", "tp", "pp", "ep", "cp")}
    noise = {"sigma_start": draw(st.floats(1e-6, 10)), "sigma_end": 1e-7, "stages": draw(st.integers(3, 60))}
    lengths = {name: draw(SIZES) for name in ("max_prompt_tokens", "max_response_tokens", "train_rows")}
    return {
        "version": 1,
        "name": "odd",
        "backend": {**kinds, "engine": draw(st.sampled_from(["fsdp", "fsdp2", "megatron"]))},
        "model": {
            "path": "/m",
            "arch": draw(st.sampled_from([None, "qwen3-30b-a3b", "deepseek-r1", "qwen2.5-7b", "x"])),
        },
        "data": {"train": "/a", "val": "/b", **lengths},
        "reward": draw(st.sampled_from(["gsm8k", {"path": "/none.py"}, {"verifiers": ["acc", "x"]}])),
        "algorithm": {"kind": draw(st.sampled_from(["grpo", "ppo", "rloo", "reinforce_plus_plus"]))},
        "train": {name: draw(SIZES) for name in ("batch_size", "mini_batch_size", "micro_batch_size")} | {"lr": 1e-6},
        "rollout": {name: draw(SIZES) for name in ("n", "tp", "ep", "log_prob_micro_batch_size")},
        "layout": {"device": draw(st.sampled_from(["npu", "cuda", "cpu"])), **layout},
        "aqn": draw(st.sampled_from([None, {**noise, "provider": "builtin"}, noise])),
        "eval": {"every": draw(st.one_of(st.none(), SIZES)), "post": draw(st.sampled_from(POST))},
        "overrides": draw(st.dictionaries(st.sampled_from(KEYS), ANY, max_size=4)),
    }


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recipe=recipes())
def test_validate_judges_any_recipe(recipe: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    result = CliRunner().invoke(command_line(["validate"]), ["validate", str(tmp_path / "recipe.yaml"), "--json"])
    assert result.exit_code in (0, 2), result.output
    (row,) = json.loads(result.output)["recipes"]
    assert row["valid"] is (result.exit_code == 0)
    for finding in row["findings"]:
        # Values are named as YAML writes them.
        assert finding["message"] and "None" not in finding["message"] and "True" not in finding["message"]
