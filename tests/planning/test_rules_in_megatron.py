"""What Megatron's own configuration refuses: megatron-core's class gets what verl would hand it.

As verl builds it (`_get_base_transformer_config` of 0.5.0 to 0.9.1): the model's shapes, the sizes of the split, and
`override_transformer_config` over them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.backends.verl.rules.facts import ACTOR, VerlFacts
from rlx.backends.verl.rules.megatron import OF_OTHERS
from rlx.planning.rules.facts import facts_of
from rlx.recipe import load_recipe
from tests.conftest import CASES, REPOSITORY
from tests.wheels import wheel_folder

# The last that needs neither Transformer Engine nor a device to check a configuration.
VERSION = "0.12.1"
RULES = ("RLX289", "RLX290", "RLX291", "RLX292", "RLX293")
# verl itself drops these keys before Megatron sees them.
DROPPED = "RLX293-breaks-left-out"
BREAKING = {
    "RLX289-breaks-selective": "recompute_num_layers must be None",
    "RLX289-breaks-full-without-layers": "recompute_num_layers must be between",
    "RLX289-breaks-unknown": 'must be "full"or "selective"',
    "RLX290-breaks-experts-and-tensors": "sequence parallelism must be used",
    "RLX290-breaks-no-tensors": "without tensor parallelism",
    "RLX291-breaks-allgather": "does not support variable sequence length",
    "RLX291-breaks-deepep": "DeepEP backend is only supported with flex token dispatcher",
    "RLX292-breaks-pipeline": "no support for Pipeline parallelism with CPU offloading",
    "RLX293-breaks-mbridge": "unexpected keyword argument 'overlap_grad_reduce'",
    DROPPED: "unexpected keyword argument 'grad_reduce_in_fp32'",
}
SECTIONS = (f"{ACTOR}.megatron", "critic.megatron")


def handed_over(facts: VerlFacts, section: str) -> dict[str, Any]:
    shape, own = facts.architecture, f"{section}.override_transformer_config"
    assert shape is not None
    experts = {"num_moe_experts": shape.experts.count, "moe_router_topk": shape.experts.active} if shape.experts else {}
    sizes = {
        f"{name}_model_parallel_size": facts.count(f"{section}.{name}_model_parallel_size") or 1
        for name in ("tensor", "pipeline", "expert")
    }
    written = {
        key.removeprefix(f"{own}."): value
        for key, value in facts.settings.section(own).items()
        if key not in facts.settings.removed
    }
    # What MindSpeed adds to the class; the strings that verl makes types of.
    for name in ("use_flash_attn", "attention_backend", "params_dtype", "pipeline_dtype"):
        written.pop(name, None)
    return {
        "num_layers": shape.layers,
        "hidden_size": shape.hidden,
        "ffn_hidden_size": shape.mlp_hidden,
        "num_attention_heads": shape.heads,
        "num_query_groups": shape.kv_heads,
        "kv_channels": shape.head_dim,
        "add_bias_linear": False,
        "gated_linear_unit": True,
        "variable_seq_lengths": True,
        "bf16": True,
        "moe_token_dispatcher_type": "alltoall",
        "pipeline_dtype": "bfloat16",
        "sequence_parallel": sizes["tensor_model_parallel_size"] > 1,
        **experts,
        **sizes,
        **written,
    }


def facts_at(path: Path) -> VerlFacts:
    file = load_recipe(path)
    found = facts_of(file.resolve(file.arms[0]))
    assert isinstance(found, VerlFacts)
    return found


def asked() -> Iterator[tuple[str, dict[str, Any]]]:
    """All configurations: of the rules' cases, and of both roles of the recipes that come along."""
    for folder in sorted(folder for id in RULES for folder in (CASES / "preflight").glob(f"{id}-*")):
        yield folder.name, handed_over(facts_at(folder / "recipe.yaml"), SECTIONS[0])
    for path in sorted((REPOSITORY / "recipes").glob("*.yaml")):
        recipe = load_recipe(path).resolve(load_recipe(path).arms[0]).recipe
        if (recipe.backend.kind, recipe.backend.engine) == ("verl", "megatron"):
            for section in SECTIONS[: 2 if recipe.backend.entrypoint else 1]:
                yield f"{path.stem} {section}", handed_over(facts_at(path), section)


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What megatron-core says to each, asked in one process: the wheel's folder is in its path alone."""
    folder = wheel_folder("megatron-core", VERSION)
    configurations = dict(asked())
    question = json.dumps({"fields": sorted(OF_OTHERS), "configurations": list(configurations.values())})
    command = [sys.executable, str(Path(__file__).with_name("megatron_configurations.py")), str(folder)]
    done = subprocess.run(command, input=question, capture_output=True, text=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["fields of the model"] == [], "OF_OTHERS names fields that the model's configuration has"
    return dict(zip(configurations, answer["refused"], strict=True))


@pytest.mark.parametrize(("name", "words"), BREAKING.items(), ids=BREAKING)
def test_megatron_refuses_what_breaks_a_rule(said: dict[str, str], name: str, words: str) -> None:
    assert words in said[name]


def test_megatron_takes_what_keeps_the_rules_and_every_recipe(said: dict[str, str]) -> None:
    rest = {name: words for name, words in said.items() if name not in BREAKING}
    assert [name for name in rest if "-breaks-" in name] == []
    assert len([name for name in rest if not name.startswith("RLX")]) >= 7
    assert {name: words for name, words in rest.items() if words} == {}
