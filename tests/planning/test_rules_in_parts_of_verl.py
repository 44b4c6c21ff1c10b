"""What verl refuses only after its start: the very function that refuses it, given what the case's recipe gives it."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlx.backends.verl.log import GRAMMAR
from rlx.evidence.log_grammar import Role
from rlx.planning.rules.facts import facts_of
from tests.planning.verl_configuration import configured, resolved

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")


REJECTED = (Role.REJECTED_SAMPLES, Role.REJECTED_TOKENS)


def part(path: str) -> Any:
    """Of a package without type hints."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def test_verls_asynchronous_trainer_wants_whole_updates() -> None:
    from verl.trainer.ppo.v1 import get_trainer_cls

    config = configured(resolved("RLX119-breaks-separate"))
    with pytest.raises(AssertionError, match="train_batch_size=128, parameter_sync_step=8, ppo_mini_batch_size=32"):
        get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    # What keeps the rule comes to the next thing that this trainer wants: devices of its own for the rollout.
    config = configured(resolved("RLX119-passes-separate"))
    with pytest.raises(AssertionError, match="nnodes must be > 0"):
        get_trainer_cls(config.trainer.v1.trainer_mode)(config)


def trainer_with(name: str) -> Any:
    """As much of verl's trainer as its methods ask for, before any worker is there."""
    return SimpleNamespace(config=configured(resolved(name)))


def test_verls_trainer_wants_a_metric_to_filter_by() -> None:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    with pytest.raises(ValueError, match=r"filter_groups\.metric must be set"):
        PPOTrainer._resolve_filter_groups_metric(trainer_with("RLX121-breaks-metric"))
    assert PPOTrainer._resolve_filter_groups_metric(trainer_with("RLX121-passes-metric")) == "acc"


def test_verl_never_looks_for_the_checkpoints_of_a_run_that_may_not_resume(tmp_path: Path) -> None:
    (tmp_path / "global_step_20").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("20", encoding="utf-8")
    trainer = trainer_with("RLX737-breaks-disabled")
    trainer.config.trainer.default_local_dir = str(tmp_path)
    part("verl.trainer.ppo.v1.trainer_base.PPOTrainer")._load_checkpoint(trainer)
    assert trainer.global_steps == 0


def test_a_shared_folder_gives_a_run_the_checkpoints_of_another(tmp_path: Path) -> None:
    """RLX741."""
    find_latest = part("verl.utils.checkpoint.checkpoint_manager.find_latest_ckpt_path")
    (tmp_path / "global_step_20").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("20", encoding="utf-8")
    assert find_latest(str(tmp_path)) == str(tmp_path / "global_step_20")


def test_a_batch_of_verls_data_loader_has_a_row() -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    rows = list(range(5))
    with pytest.raises(ValueError, match="batch_size should be a positive integer value, but got batch_size=-1"):
        StatefulDataLoader(rows, trainer_with("RLX114-breaks-less-than-none").config.data.val_batch_size or len(rows))
    # As the trainer of 0.9 writes it.
    whole = trainer_with("RLX114-passes-the-whole-set-in-0.9").config.data.val_batch_size or len(rows)
    assert whole == len(rows)


def test_verl_loads_no_more_than_it_saved() -> None:
    checkpoint = trainer_with("RLX736-breaks-no-optimizer").config.actor_rollout_ref.actor.checkpoint
    assert list(checkpoint.load_contents) == ["model"]
    checkpoint = trainer_with("RLX736-passes-no-optimizer").config.actor_rollout_ref.actor.checkpoint
    assert list(checkpoint.load_contents) == ["model", "optimizer", "extra"]


@pytest.mark.parametrize(
    ("name", "raised", "words"),
    [
        ("RLX735-breaks-none", TypeError, "'NoneType' object is not iterable"),
        ("RLX742-breaks-unknown", AssertionError, "wandbb is not supported"),
    ],
)
def test_verl_starts_no_such_loggers(name: str, raised: type[Exception], words: str) -> None:
    from verl.utils.tracking import Tracking

    with pytest.raises(raised, match=words):
        Tracking("project", "experiment", trainer_with(name).config.trainer.logger)


def test_a_group_of_one_has_no_baseline_and_equal_scores_no_advantage() -> None:
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    def advantages(scores: list[float], groups: list[int]) -> list[float]:
        rewards = torch.tensor(scores)[:, None]
        shares, _ = compute_grpo_outcome_advantage(rewards, torch.ones_like(rewards), np.array(groups))
        return [round(float(share), 3) for share in shares[:, 0]]

    assert facts_of(resolved("RLX112-breaks-no-group")).whole("actor_rollout_ref.rollout.n") == 1
    assert advantages([1.0, 0.0, 1.0], [0, 1, 2]) == [1.0, 0.0, 1.0]
    assert advantages([1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1]) == [0.0, 0.0, 0.0, 0.0]
    assert advantages([1.0, 0.0], [0, 0]) != [0.0, 0.0]


@pytest.mark.parametrize(("name", "refused"), [("RLX220-breaks-sequence", True), ("RLX220-passes-sequence", False)])
def test_verl_patches_a_model_for_sequences_that_fit_its_heads(name: str, refused: bool) -> None:
    apply_monkey_patch = part("verl.models.transformers.monkey_patch.apply_monkey_patch")
    config, model_of = part("transformers.Qwen2Config"), part("transformers.Qwen2ForCausalLM")
    facts = facts_of(resolved(name))
    assert facts.architecture and facts.cp
    heads, kv_heads = facts.architecture.heads, facts.architecture.kv_heads
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "hidden_size": 4 * heads, "vocab_size": 8}
    model = model_of(config(num_hidden_layers=1, intermediate_size=8, **sizes))
    if not refused:
        apply_monkey_patch(model, ulysses_sp_size=facts.cp)
        return
    with pytest.raises(AssertionError, match=f"must be divisible by ulysses_sp_size {facts.cp}"):
        apply_monkey_patch(model, ulysses_sp_size=facts.cp)


@pytest.mark.parametrize(("name", "refused"), [("RLX252-breaks-rank", True), ("RLX252-passes-rank", False)])
def test_verl_rounds_a_rank_up_to_one_that_vllm_takes(name: str, refused: bool) -> None:
    rank = facts_of(resolved(name)).lora_rank
    assert rank
    if not refused:
        assert max_lora_rank(rank) >= rank
        return
    with pytest.raises(ValueError, match=f"lora_rank must be less than or equal to 512, but got {rank}"):
        max_lora_rank(rank)


def max_lora_rank(rank: int) -> int:
    """verl's own function, taken out of a module that cannot be imported without vLLM."""
    import typing

    import verl

    path = Path(verl.__file__).parent / "workers/rollout/vllm_rollout/utils.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body: list[ast.stmt] = [
        one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "get_vllm_max_lora_rank"
    ]
    names: dict[str, Any] = {"Literal": typing.Literal, "get_args": typing.get_args}
    exec(compile(ast.Module(body, []), str(path), "exec"), names)
    found: int = names["get_vllm_max_lora_rank"](rank)
    return found


def test_verl_adapts_megatron_with_its_bridge_only() -> None:
    get_peft_cls = part("verl.workers.config.megatron_peft.get_peft_cls")
    facts = facts_of(resolved("RLX250-breaks-no-bridge"))
    model = SimpleNamespace(lora={"rank": facts.lora_rank})
    with pytest.raises(AssertionError, match="LoRA/PEFT only supported via Megatron-Bridge"):
        get_peft_cls(model, bridge=None, provider=None)


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("breaks-kind-of-0.6", "Invalid rollout_rs option: geometric"),
        ("breaks-bounds-of-a-divergence", "must provide a single upper bound"),
        ("breaks-one-threshold-too-many", "exactly 2 thresholds"),
        ("breaks-no-threshold", "rollout_rs_threshold must be"),
        ("passes-two-kinds", ""),
    ],
)
def test_verl_takes_its_own_kinds_of_rejection_only(name: str, refused: str) -> None:
    import torch

    correction = configured(resolved(f"RLX663-{name}")).algorithm.rollout_correction
    arguments = torch.zeros(2, 3), torch.ones(2, 3), correction.rollout_rs, correction.rollout_rs_threshold
    mask = part("verl.trainer.ppo.rollout_corr_helper.compute_rollout_rejection_mask")
    if refused:
        with pytest.raises(ValueError, match=refused):
            mask(*arguments)
    else:
        assert mask(*arguments)[0].all()


def test_the_names_of_what_verl_logs_of_a_rejection() -> None:
    """RLX660: a token that is 10 % off is masked, and the sample with it counts as one."""
    import torch

    log_ratio = torch.tensor([[0.0, 0.1], [0.0, 0.0]])
    mask = part("verl.trainer.ppo.rollout_corr_helper.compute_rollout_rejection_mask")
    _, by_sample = mask(log_ratio, torch.ones(2, 2), "seq_mean_k1", "0.999_1.001")
    _, by_token = mask(log_ratio, torch.ones(2, 2), "token_k1", "0.999_1.001")
    logged = {f"rollout_corr/{key}": value for key, value in by_sample.items()}
    assert {logged[name] for role in REJECTED for name in GRAMMAR.metrics[role]} == {0.5}
    assert (by_token["rollout_rs_seq_masked_fraction"], by_token["rollout_rs_masked_fraction"]) == (0.5, 0.25)
