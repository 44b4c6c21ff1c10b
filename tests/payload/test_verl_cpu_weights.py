"""Weights as verl sends them arrive in a mixture of experts of transformers, all or none; for every class of model."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import transformers  # noqa: E402
from rlx_verl_cpu_weights import load_checked, with_fused_experts  # noqa: E402

from rlx.planning.models.architectures import Architecture, known_architectures  # noqa: E402
from rlx.planning.tiny_shapes import stand_in  # noqa: E402
from rlx.planning.tiny_shapes import tiny_model as in_small  # noqa: E402

SHAPES = {str(in_small(shape).config): shape for shape in known_architectures()}
CLASSES = {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "llama": "LlamaForCausalLM",
}
LLAMA = Architecture("llama-3-8b", 4096, 32, 32, 8, 128, 14336, 128256, False, "test", True)


def made(shape: Architecture, folder: Path) -> tuple[Any, dict[str, Any]]:
    """The model as its folder holds it, and what the maker said."""
    import tiny_model

    order = in_small(shape)
    said = io.StringIO()
    with redirect_stdout(said):
        tiny_model.make(folder, {"model_type": order.model_type, "chat": order.chat, "config": dict(order.config)})
    return transformers.AutoModelForCausalLM.from_pretrained(folder), json.loads(said.getvalue())


@pytest.mark.parametrize("shape", [*SHAPES.values(), LLAMA], ids=lambda shape: shape.name)
def test_the_small_model_is_one_of_the_real_class(shape: Architecture, tmp_path: Path) -> None:
    model, said = made(shape, tmp_path)
    config = model.config
    assert type(model).__name__ == said["class"] == CLASSES[config.model_type]
    assert said["parameters"] < 2_000_000
    assert config.num_attention_heads / config.num_key_value_heads == shape.heads / shape.kv_heads
    assert bool(config.tie_word_embeddings) == shape.tied
    experts = getattr(config, "num_experts", None) or getattr(config, "n_routed_experts", None)
    assert bool(experts) == bool(shape.experts)
    if shape.experts:
        assert config.num_experts_per_tok < experts
        assert bool(getattr(config, "first_k_dense_replace", 0)) == bool(shape.dense_layers)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "3 + 4 = é?"}], add_generation_prompt=True, return_dict=False
    )
    assert "3 + 4 = é?" in tokenizer.decode(ids)
    assert torch.isfinite(model(input_ids=torch.tensor([ids])).logits).all()


def test_the_stand_in_has_grouped_heads() -> None:
    assert stand_in().model_type == "qwen2"
    assert stand_in().config["num_attention_heads"] == 2 * stand_in().config["num_key_value_heads"]


@pytest.mark.parametrize("name", ["qwen1.5-moe-a2.7b", "qwen3-30b-a3b", "deepseek-v3"])
def test_what_verl_takes_apart_is_put_together(name: str, tmp_path: Path) -> None:
    utils = pytest.importorskip("verl.workers.engine.fsdp.utils")
    (shape,) = [shape for shape in known_architectures() if shape.name == name]
    model, _ = made(shape, tmp_path)
    sent = dict(utils.unfuse_moe_params(model.state_dict().items(), model.config.model_type))
    assert any(".experts.3.up_proj.weight" in key for key in sent)
    other = transformers.AutoModelForCausalLM.from_config(model.config)
    load_checked(other, sent)
    mine, theirs = model.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_an_expert_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    block = "model.layers.0.mlp.experts"
    state = {f"{block}.{number}.{part}_proj.weight": torch.zeros(2, 2) for number in (0, 1) for part in ("gate", "up")}
    state |= {f"{block}.0.down_proj.weight": torch.zeros(2, 2)}
    with pytest.raises(ValueError, match=r"lacks model\.layers\.0\.mlp\.experts\.1\.down_proj"):
        with_fused_experts(state, {f"{block}.gate_up_proj"})


def test_adapters_that_were_not_merged_are_refused(tmp_path: Path) -> None:
    model, _ = made(LLAMA, tmp_path)
    state = {**model.state_dict(), "model.layers.0.self_attn.q_proj.lora_A.weight": torch.zeros(2, 2)}
    with pytest.raises(ValueError, match="lora_A"):
        load_checked(model, state)
