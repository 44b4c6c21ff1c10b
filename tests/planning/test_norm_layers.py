"""The norm layers that a plan promises are those that the payload finds in transformers' own modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlx.model import Link
from rlx.planning.models.architecture_config import architecture_from_config
from rlx.planning.models.architectures import count_parameters, find_architecture
from rlx.planning.noise_layers import noisy_layers, norm_layers
from rlx.planning.preflight import sealed_plan
from rlx.recipe.schema import Aqn
from rlx.resources import payload_folder
from tests.backends.conftest import AQN, CPU, resolved

SIZES = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 32, "tie_word_embeddings": True,
}  # fmt: skip
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 8}
_LATENT = {"kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}
_ROUTED = {"n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 8},
    "qwen2_moe": {**_EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 8},
    "qwen3_moe": {**_EXPERTS, "num_experts": 4, "head_dim": 8},
    "deepseek_v3": {**_EXPERTS, **_LATENT, **_ROUTED, "q_lora_rank": 12, "num_key_value_heads": 2},
}
CHOICES: list[dict[str, Any]] = [
    {},
    {"exclude": ["layers.0."]},
    {"targets": ["input_layernorm", "model.norm"]},
    {"targets": ["layernorm"], "exclude": ["layers.1.post"]},
]


def model_and_shape(kind: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(kind, **{**SIZES, **KINDS[kind]})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return model, architecture_from_config(config.to_dict())


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_payload_finds_the_promised_layers(
    kind: str, choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(payload_folder()))
    from rlx_aqn_layers import choose

    model, shape = model_and_shape(kind)
    aqn = Aqn.model_validate({**AQN, **choice})
    found, _ = choose(model, "rmsnorm", aqn.targets, aqn.exclude)
    assert {layer.name: layer.weights[0][1].numel() for layer in found} == noisy_layers(aqn, shape)


@pytest.mark.parametrize("name", ["qwen2.5-1.5b", "qwen3-30b-a3b", "deepseek-v3"])
def test_they_are_the_norms_that_are_counted_as_parameters(name: str) -> None:
    shape = find_architecture(name)
    assert shape is not None
    assert sum(norm_layers(shape).values()) == count_parameters(shape).norms


def test_57_norms_of_1536_weights_as_logs_of_that_model_have() -> None:
    shape = find_architecture("Qwen2.5-1.5B-Instruct")
    assert shape is not None
    assert len(noisy_layers(Aqn.model_validate(AQN), shape)) == 57


@pytest.mark.parametrize(
    ("aqn", "layers", "factor"),
    [
        ({}, 57, 1.0),
        ({"multipliers": {"model.norm": 2.0}}, 57, (60 / 57) ** 0.5),
        ({"layer_types": ["linear"]}, 0, 1.0),
    ],
)
def test_a_checked_plan_promises_them(tmp_path: Path, aqn: dict[str, Any], layers: int, factor: float) -> None:
    from rlx.backends.verl.backend import plan
    from rlx.model import Site

    recipe = resolved(tmp_path, CPU, {"aqn": {**AQN, **aqn}, "model": {"arch": "qwen2.5-1.5b"}})
    noise = sealed_plan(plan(recipe, Site()), recipe).expectations.noise
    assert noise is not None and noise.promise is not None
    promise = noise.promise
    assert promise.expects(Link.REACHED)
    assert (len(promise.layers), promise.elements) == (layers, layers * 1536 or None)
    assert promise.factor == pytest.approx(factor)
    assert promise.confirmed


@pytest.mark.parametrize(("choice", "layers"), [({}, 57), ({"exclude": ["input_layernorm"]}, 29)])
def test_the_layers_of_a_fork_are_counted(tmp_path: Path, choice: dict[str, Any], layers: int) -> None:
    """Its lines tell their number alone: nothing is said of names or weights there."""
    from rlx.backends.verl.backend import plan
    from rlx.model import Site

    changes = {"aqn": {**AQN, "provider": "builtin", **choice}, "model": {"arch": "qwen2.5-1.5b"}}
    recipe = resolved(tmp_path, CPU, changes)
    noise = sealed_plan(plan(recipe, Site()), recipe).expectations.noise
    assert noise is not None and noise.promise is not None
    assert not noise.promise.expects(Link.REACHED)
    assert len(noise.promise.layers) == layers
