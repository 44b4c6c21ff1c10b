"""Shapes and parameter counts: the table against published counts, the formulas against transformers' own modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.errors import UsageError
from rlx.planning.models.architecture_config import (
    architecture_from_config,
    architecture_from_text,
    known_architecture,
)
from rlx.planning.models.architectures import (
    architecture_of,
    count_parameters,
    find_architecture,
    known_architectures,
    linear_attention,
)
from rlx.recipe import load_recipe

# Billions, total and for one token, as the model cards round them; so 1 % (5 % where one digit is given).
PUBLISHED = {
    "qwen2.5-0.5b": (0.49, None),
    "qwen2.5-1.5b": (1.54, None),
    "qwen2.5-3b": (3.09, None),
    "qwen2.5-7b": (7.61, None),
    "qwen2.5-14b": (14.7, None),
    "qwen2.5-32b": (32.5, None),
    "qwen3-0.6b": (0.6, None),
    "qwen3-1.7b": (1.7, None),
    "qwen3-4b": (4.0, None),
    "qwen3-8b": (8.2, None),
    "qwen3-14b": (14.8, None),
    "qwen3-32b": (32.8, None),
    "qwen3-30b-a3b": (30.5, 3.3),
    "qwen3-235b-a22b": (235, 22),
    "qwen1.5-moe-a2.7b": (14.3, 2.7),
    "deepseek-v3": (671, 37),
    "deepseek-r1": (671, 37),
    "qwen2.5-72b": (72.7, None),
    "qwen2.5-vl-3b": (3.75, None),
    "qwen2.5-vl-7b": (8.29, None),
    "qwen3-vl-2b": (2.127532032, None),
    "qwen3-vl-4b": (4.44, None),
    "qwen3-vl-8b": (8.77, None),
    "qwen3-vl-30b-a3b": (31.1, None),
    "moonlight-16b-a3b": (16, 3),
}


@pytest.mark.parametrize("shape", known_architectures(), ids=lambda shape: shape.name)
def test_parameters_of_the_table_are_the_published_ones(shape: Any) -> None:
    total, active = PUBLISHED[shape.name]
    counted = count_parameters(shape)
    assert counted.total / 1e9 == pytest.approx(total, rel=0.01 if total not in (0.6, 1.7, 4.0) else 0.05)
    if active is not None:
        assert counted.active / 1e9 == pytest.approx(active, rel=0.03)


def test_every_row_of_the_table_is_confirmed_and_says_by_what() -> None:
    assert [shape.name for shape in known_architectures() if not shape.confirmed or not shape.source] == []


@pytest.mark.parametrize("name", ["Qwen/Qwen3-Next-80B-A3B-Instruct", "/models/Qwen3.5-9B", "qwen3_5_moe"])
def test_linear_attention_is_recognised_and_not_estimated(name: str) -> None:
    assert find_architecture(name) is None
    assert "linear attention" in linear_attention(name)
    assert linear_attention("Qwen3-4B-Instruct-2507") == ""


VISION: dict[str, dict[str, Any]] = {
    "qwen2_5_vl": {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64},
    "qwen3_vl": {"depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}
    | {"num_position_embeddings": 16, "deepstack_visual_indexes": [0, 2]},
}


@pytest.mark.parametrize("kind", VISION)
def test_parameters_with_a_vision_tower_are_those_of_transformers(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    text = {**SMALL, "num_key_value_heads": 2, "head_dim": 16}
    config = transformers.AutoConfig.for_model(kind, text_config=text, vision_config=VISION[kind])
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    real = sum(parameter.numel() for parameter in model.parameters())
    assert count_parameters(architecture_from_config(config.to_dict())).total == real
    if kind == "qwen2_5_vl":
        # Published files of this kind have the language model's numbers at the top.
        flat = {**text, "model_type": kind, "vision_config": VISION[kind]}
        assert count_parameters(architecture_from_config(flat)).total == real


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Qwen/Qwen2.5-1.5B-Instruct", "qwen2.5-1.5b"),
        ("/data/nfs/models/Qwen1.5-MoE-A2.7B-Chat", "qwen1.5-moe-a2.7b"),
        ("/data/nfs/models/Qwen3-30B-A3B-Instruct-2507/", "qwen3-30b-a3b"),
        ("DeepSeek-R1", "deepseek-r1"),
        ("/data/my-own-model", None),
        ("", None),
    ],
)
def test_names_of_models_and_folders(name: str, found: str | None) -> None:
    shape = find_architecture(name)
    assert (shape.name if shape else None) == found


def test_recipes_name_comes_before_its_folder() -> None:
    moved = load_recipe("starter", ["model.arch=qwen3-8b"]).resolve("baseline").recipe
    by_folder = load_recipe("starter", ["model.arch=null"]).resolve("baseline").recipe
    assert (architecture_of(moved) or fail()).name == "qwen3-8b"
    assert (architecture_of(by_folder) or fail()).name == "qwen2.5-1.5b"


def fail() -> Any:
    raise AssertionError("no architecture")


SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 80}
MIXED = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
LATENT = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_group": 1,
    "topk_group": 1,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "num_key_value_heads": 2},
    "qwen2": {"model_type": "qwen2", "num_key_value_heads": 2},
    "qwen2 tied": {"model_type": "qwen2", "num_key_value_heads": 1, "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 24},
    "qwen2_moe": {"model_type": "qwen2_moe", "num_key_value_heads": 4, "shared_expert_intermediate_size": 40, **MIXED},
    "qwen2_moe sparse": {
        "model_type": "qwen2_moe",
        "num_key_value_heads": 2,
        "shared_expert_intermediate_size": 40,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
        **MIXED,
    },
    "qwen3_moe": {"model_type": "qwen3_moe", "num_key_value_heads": 2, "head_dim": 16, **MIXED},
    "deepseek_v3": {"model_type": "deepseek_v3", "num_key_value_heads": 4, **LATENT},
    "deepseek_v2 without q rank": {
        "model_type": "deepseek_v2",
        "num_key_value_heads": 4,
        **LATENT,
        "q_lora_rank": None,
    },
}


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_of_the_modules_of_transformers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    settings = {**SMALL, **CONFIGS[name]}
    config = transformers.AutoConfig.for_model(**settings)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    real = sum(parameter.numel() for parameter in model.parameters())
    assert count_parameters(architecture_from_config(settings)).total == real
    # What transformers writes itself, with every default and its newest names.
    assert count_parameters(architecture_from_config(config.to_dict())).total == real


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba'"),
        ({}, "model_type None"),
        ({"model_type": "qwen3_next"}, "linear attention"),
        ({"model_type": "qwen3_vl", **SMALL}, "vision_config is no mapping"),
        ({"model_type": "qwen3_vl", **SMALL, "text_config": 3, "vision_config": {}}, "text_config is no mapping"),
        ({"model_type": "qwen2_5_vl", **SMALL, "vision_config": {"depth": "x"}}, "depth is 'x'"),
        ({"model_type": "qwen2", **SMALL, "num_hidden_layers": "4"}, "num_hidden_layers is '4'"),
        ({"model_type": "qwen2", **SMALL, "num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"model_type": "qwen3_moe", **SMALL}, "num_experts is None"),
    ],
)
def test_what_cannot_be_read_is_named(config: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as error:
        architecture_from_config(config)
    assert says in error.value.message


@given(
    st.dictionaries(st.sampled_from([*SMALL, *MIXED, *LATENT, "model_type"]), st.none() | st.integers() | st.just("4"))
)
def test_any_mapping_is_read_or_refused(config: dict[str, Any]) -> None:
    for kind in ("qwen2", "qwen3_moe", "deepseek_v3"):
        try:
            shape = architecture_from_config({**SMALL, **config, "model_type": kind})
        except UsageError:
            continue
        assert count_parameters(shape).total > 0


@pytest.mark.parametrize("layers", [3, 1.5, "3", {"a": 1}, [[]], [{}], [None], [True]], ids=repr)
def test_dense_layers_that_are_no_list_of_numbers(layers: object) -> None:
    with pytest.raises(UsageError, match="mlp_only_layers"):
        architecture_from_config({**SMALL, **MIXED, "model_type": "qwen3_moe", "mlp_only_layers": layers})


@given(st.lists(st.sampled_from('{}[],:"01 nultre')).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"there/config\.json"):
        architecture_from_text(text, "there/config.json")


def test_config_on_this_machine_comes_before_the_table(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**SMALL, **CONFIGS["qwen3"]}), encoding="utf-8")
    recipe = load_recipe("starter", [f"model.path={tmp_path}"]).resolve("baseline").recipe
    assert (known_architecture(recipe) or fail()).hidden == 64
