"""A recipe in small: what is changed, that it keeps the rules, and that verl itself takes it. Nothing is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hydra import compose, initialize_config_dir
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.overrides import chosen
from rlx.backends.verl.rules.batch import MINI
from rlx.backends.verl.rules.facts import BATCH
from rlx.errors import RlxError, UsageError
from rlx.model import Severity
from rlx.planning.rehearsal import Places, Rehearsal, RehearsalEngine, rehearsal_of
from rlx.planning.rules import check
from rlx.planning.rules.facts import facts_of
from rlx.recipe import ResolvedRecipe, load_recipe
from tests.backends.conftest import config_tree
from tests.conftest import CASES, REPOSITORY
from tests.wheels import INSTALLED
from tests.wording import settled

PLACES = Places("/tiny/model", "/tiny/data")
FOLDERS = sorted((CASES / "rehearsal").iterdir())
BASE = REPOSITORY / "recipes/qwen2.5-1.5b-gsm8k-npu.yaml"


def resolved(path: Path, *sets: str, arm: str | None = None) -> ResolvedRecipe:
    file = load_recipe(path, sets)
    return file.resolve(arm or file.arms[0])


def errors(recipe: ResolvedRecipe) -> list[str]:
    return [finding.id for finding in check(recipe) if finding.severity is Severity.ERROR]


def of_case(folder: Path) -> Rehearsal:
    case = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    return rehearsal_of(resolved(REPOSITORY / case["recipe"], *case.get("set", ()), arm=case["arm"]), PLACES)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_change_is_told(folder: Path, wording: SnapshotAssertion) -> None:
    made = of_case(folder)
    changes = [f"{one.key}: {one.recipe} -> {one.rehearsed}" for one in made.changes]
    shown = "\n".join([f"factor {made.factor}", *changes]).replace(f"{REPOSITORY}/", "") + "\n"
    assert shown == (folder / "expected.txt").read_text(encoding="utf-8")
    reasons = [f"{one.key}: {one.why}" for one in made.changes]
    assert [made.model.shown, *reasons, *(f"{one.what}: {one.why}" for one in made.untold)] == wording


def test_a_rehearsal_is_no_run_of_an_experiment(tmp_path: Path) -> None:
    asked = tmp_path / "asked.yaml"
    metric = "{metric: val-core/openai/gsm8k/acc/mean@1}"
    experiment = f"experiment: {{question: Does it help?, primary: {metric}, test: superiority, seeds: 5}}"
    asked.write_text(f"version: 1\nname: asked\nextends: {BASE}\n{experiment}\n", encoding="utf-8")
    recipe = resolved(asked)
    assert recipe.experiment is not None
    twin = rehearsal_of(recipe, PLACES).resolved
    assert twin.experiment is None and not errors(twin)


def test_every_recipe_for_verl_that_comes_with_rlx_has_its_case() -> None:
    cases = [json.loads((folder / "input.json").read_text(encoding="utf-8"))["recipe"] for folder in FOLDERS]
    there = (path for path in (REPOSITORY / "recipes").glob("*.yaml") if resolved(path).recipe.backend.kind == "verl")
    # Those of tiny-cpu read the home directory of whoever tests.
    names = {path.name for path in there if not path.name.startswith("tiny-cpu")}
    assert names == {Path(case).name for case in cases}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_verl_takes_what_is_rehearsed(folder: Path) -> None:
    """Composed by Hydra from verl's own tree, then its own check."""
    from verl.utils.config import validate_config

    twin = of_case(folder).resolved
    with initialize_config_dir(str(config_tree(INSTALLED)), version_base=None):
        # Paths of a run are not there yet.
        words = [one.argument() for one in chosen(rendering_of(twin)) if not one.key.startswith("hydra")]
        config = compose("ppo_trainer", words)
    validate_config(config, use_reference_policy=twin.recipe.algorithm.kl is not None, use_critic=False)


sizes = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 16])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["fsdp", "megatron"]), sizes, sizes, sizes, st.sampled_from([1, 2, 4, 6, 8]), sizes, sizes)
def test_what_keeps_the_rules_keeps_them_in_small(
    engine: str, mini: int, updates: int, n: int, devices: int, micro: int, log_prob: int
) -> None:
    numbers = {
        "backend.engine": engine,
        "train.mini_batch_size": mini,
        "train.batch_size": mini * updates,
        "train.micro_batch_size": micro,
        "rollout.n": n,
        "rollout.log_prob_micro_batch_size": log_prob,
        "layout.devices_per_node": devices,
        "train.lr": 1.0e-6,
    }
    recipe = resolved(BASE, *(f"{key}={value}" for key, value in numbers.items()))
    assume(not errors(recipe))
    made = rehearsal_of(recipe, PLACES)
    assert not errors(made.resolved)
    whole, small = facts_of(recipe), facts_of(made.resolved)
    for key in (BATCH, MINI):
        assert whole.count(key) == made.factor * (small.count(key) or 0)
    assert small.devices == min(2, whole.data_parallel or 1) or small.devices == 1
    assert small.samples is not None and whole.samples is not None and small.samples <= whole.samples


def test_keys_are_translated_or_named() -> None:
    overrides = {
        "actor_rollout_ref.rollout.update_weights_bucket_megabytes": 512,
        "actor_rollout_ref.rollout.enable_chunked_prefill": "false",
        "trainer.logger": "[console]",
        "+trainer.noise_injection.epoch_aware": "true",
        "actor_rollout_ref.actor.ppo_mini_batch_size": 16,
    }
    made = rehearsal_of(resolved(BASE, *(f"overrides.{key}={value}" for key, value in overrides.items())), PLACES)
    assert made.resolved.recipe.overrides == {
        "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes": 512,
        "actor_rollout_ref.rollout.enable_chunked_prefill": False,
    }
    told = " ".join(one.what for one in made.untold)
    assert all(key in told for key in ("trainer.logger", "noise_injection.epoch_aware", "ppo_mini_batch_size"))


def test_secrets_that_are_not_set_here_are_left_out() -> None:
    recipe = resolved(BASE, "secrets=[JUDGE_TOKEN, OTHER_TOKEN]")
    assert rehearsal_of(recipe, PLACES, ("JUDGE_TOKEN",)).resolved.recipe.secrets == ("JUDGE_TOKEN",)


def test_another_back_end_is_refused(wording: SnapshotAssertion) -> None:
    recipe = resolved(BASE, "backend.kind=mindspeed-rl")
    with pytest.raises(UsageError, match="verl") as refused:
        rehearsal_of(recipe, PLACES)
    assert refused.value.message == wording


def test_a_critic_is_refused(wording: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as refused:
        rehearsal_of(resolved(BASE, "algorithm.kind=ppo"), PLACES)
    assert refused.value.message == wording


def test_an_unknown_model_has_a_stand_in(tmp_path: Path) -> None:
    made = rehearsal_of(resolved(BASE, "model.arch=null", "model.path=/data/models/Unheard-Of-9B"), PLACES)
    assert made.model.model_type == "qwen2"
    assert any("Unheard-Of-9B" in one.what for one in made.untold)


def test_the_models_own_config_decides(tmp_path: Path) -> None:
    config = {"model_type": "llama", "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}
    more = {"num_hidden_layers": 32, "intermediate_size": 14336, "vocab_size": 128256}
    (tmp_path / "config.json").write_text(json.dumps({**config, **more}), encoding="utf-8")
    model = rehearsal_of(resolved(BASE, f"model.path={tmp_path}"), PLACES).model
    assert (model.model_type, model.chat) == ("llama", "llama")
    assert (model.config["num_attention_heads"], model.config["num_key_value_heads"]) == (8, 2)


def parquet(path: Path, questions: list[str], key: str = "prompt") -> Path:
    rows = [
        {key: [{"role": "user", "content": text}], "data_source": "mine", "extra_info": {"index": number}, "odd": 1.5}
        for number, text in enumerate(questions)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def rows_with(path: Path, *sets: str) -> Any:
    return rehearsal_of(resolved(BASE, f"data.train={path}", *sets), PLACES)


def test_rows_are_the_users_own_with_all_their_columns(tmp_path: Path) -> None:
    path = parquet(tmp_path / "own.parquet", ["long " * 1000, "short?", "a little longer?"])
    made = rows_with(path)
    table = made.rows["train"].table
    assert table.schema == pyarrow.parquet.read_schema(path)
    assert made.rows["train"].is_own and not made.rows["val"].is_own
    assert table.num_rows == made.resolved.recipe.data.train_rows
    asked = [prompt[0]["content"] for prompt in table.column("prompt").to_pylist()]
    assert set(asked) == {"short?", "a little longer?"}, "too long for a rehearsal, or not repeated"


def test_prompts_that_are_all_too_long_are_made_up(tmp_path: Path, wording: SnapshotAssertion) -> None:
    made = rows_with(parquet(tmp_path / "own.parquet", ["long " * 1000]))
    assert not made.rows["train"].is_own
    assert settled(made.rows["train"].said, {str(tmp_path): "folder"}) == wording


@pytest.mark.parametrize("sets", [(), ("data.prompt_key=question",)])
def test_data_that_cannot_be_read_ends_it(tmp_path: Path, sets: tuple[str, ...], wording: SnapshotAssertion) -> None:
    path = tmp_path / "own.parquet"
    if sets:
        parquet(path, ["short?"])
    else:
        path.write_text("version https://git-lfs.github.com/spec/v1\n", encoding="utf-8")
    with pytest.raises(RlxError, match=str(path)) as refused:
        rows_with(path, *sets)
    assert settled(refused.value.message, {str(tmp_path): "folder"}) == wording


VLLM = RehearsalEngine("vllm", "/there/.venv-engines/bin/python", 32, "the real vLLM, its CPU build")


def test_the_real_engine_gets_the_arguments_that_a_cpu_build_knows(wording: SnapshotAssertion) -> None:
    rollout = "overrides.actor_rollout_ref.rollout"
    sets = (
        f"{rollout}.max_model_len=64",
        f"{rollout}.enable_prefix_caching=false",
        f"overrides.+{rollout.removeprefix('overrides.')}.engine_kwargs.vllm.block_size=32",
        f"overrides.+{rollout.removeprefix('overrides.')}.engine_kwargs.vllm.additional_config.torchair=true",
        "rollout.tp=4",
        "rollout.enforce_eager=true",
        "layout.devices_per_node=8",
        "model.lora={rank: 4, alpha: 8}",
    )
    made = rehearsal_of(resolved(BASE, *sets), PLACES, engine=VLLM)
    recipe = made.resolved.recipe
    assert not errors(made.resolved)
    assert (recipe.rollout.engine, recipe.rollout.tp, recipe.rollout.enforce_eager) == ("vllm", 2, True)
    assert (recipe.backend.python, recipe.model.lora is not None) == (VLLM.python, True)
    room = recipe.data.max_prompt_tokens + recipe.data.max_response_tokens
    key = "actor_rollout_ref.rollout"
    assert recipe.overrides == {
        f"{key}.max_model_len": room,
        f"{key}.enable_prefix_caching": False,
        f"+{key}.engine_kwargs.vllm.block_size": 32,
    }
    assert made.model.config["hidden_size"] == 32 * made.model.config["num_attention_heads"]
    told = {one.what: one.why for one in made.untold}
    assert "vllm" not in told
    assert told == wording
    assert any("additional_config" in what for what in told)
