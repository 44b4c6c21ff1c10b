"""Launches as people have them, and the recipes, keys and findings that are made of them.

Each folder of tests/cases/init-from has a launch `run.*`, further ones that become arms, and beside them what is
expected: the recipe, and for each arm its keys that differ and its findings. RLX_WRITE_CASES=1 writes both anew.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.api.recipe_from import RecipeFrom, recipe_from
from rlx.errors import UsageError
from rlx.recipe import load_recipe
from rlx.recipe.problems import RecipeError
from rlx.recipe.source import RecipeSource
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.wording import settled

FOLDERS = sorted((CASES / "init-from").iterdir())
EXPECTED = ("recipe.yaml", "expected.json")


def facts(made: RecipeFrom) -> str:
    """Of each arm, as JSON: how many keys and variables it has, which are not as the launch has them, the findings."""
    found = {}
    for arm, one in made.arms.items():
        fates = (*one.keys, *one.environment)
        found[arm] = {
            "keys": len(fates),
            "differing": [fate.key for fate in fates if not fate.is_equal],
            "findings": [f"{finding.severity} {finding.id}" for finding in one.findings],
        }
    return json.dumps(found, indent=1) + "\n"


def said(made: RecipeFrom) -> list[str]:
    """Return why each key differs, and the message of each finding."""
    lines = []
    for arm, one in made.arms.items():
        lines += [f"{arm}: {fate.key}: {fate.reason}" for fate in (*one.keys, *one.environment) if not fate.is_equal]
        lines += [f"{arm}: {finding.id}: {finding.message}" for finding in one.findings]
    return lines


@pytest.fixture
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RecipeFrom:
    folder: Path = request.param
    monkeypatch.chdir(folder)
    others = sorted(path.name for path in folder.glob("*.sh") if path.stem != "run")
    source = next(folder.glob("run.*")).name
    return recipe_from(
        (folder / source).read_text(encoding="utf-8") if folder.name == "line" else source,
        arms={Path(each).stem: each for each in others},
    )


@pytest.mark.parametrize(
    ("made", "folder"), [(each, each) for each in FOLDERS], indirect=["made"], ids=lambda x: x.name
)
def test_a_launch_becomes_what_is_expected(made: RecipeFrom, folder: Path, wording: SnapshotAssertion) -> None:
    found = dict(zip(EXPECTED, (made.text, facts(made)), strict=True))
    if os.environ.get("RLX_WRITE_CASES"):
        for name, text in found.items():
            (folder / name).write_text(text, encoding="utf-8")
    assert found == {name: (folder / name).read_text(encoding="utf-8") for name in EXPECTED}
    assert said(made) == wording
    if "???" in made.text:
        with pytest.raises(RecipeError) as refused:
            load_recipe(RecipeSource("made", folder, made.text))
        assert {problem.id for problem in refused.value.problems} == {"RLX004"}
        return
    file = load_recipe(RecipeSource("made", folder, made.text))
    assert set(file.arms) == (set(made.arms) if len(made.arms) > 1 else {"main"})


SECRETS = ("NotARealToken", "0123456789abcdef", "secretpassword", "hunter2hunter2", "abcdefghijkl")


@pytest.mark.parametrize("option", [[], ["--json"]], ids=["text", "json"])
def test_no_secret_of_a_script_is_shown_or_written(option: list[str], tmp_path: Path) -> None:
    script = CASES / "init-from/ray-job/run.sh"
    assert all(secret in script.read_text(encoding="utf-8") for secret in SECRETS)
    done = rlx("init", "--from", str(script), str(tmp_path / "new.yaml"), *option)
    everything = done.stdout + done.stderr + (tmp_path / "new.yaml").read_text(encoding="utf-8")
    assert [secret for secret in SECRETS if secret in everything] == []
    assert "HF_TOKEN" in done.stdout and "http_proxy" in done.stdout


def test_files_and_lengths_are_no_secrets_and_literal_ones_are(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        "export TRAIN_FILES=/data/hf_gsm8k_math_train/a.parquet\n"
        "OPENAI_API_KEY=qwertyuiop python3 -m verl.trainer.main_ppo data.train_files=$TRAIN_FILES data.max_token_len=5 "
        "+trainer.hub_token=qwertyuiop +trainer.other=qwertyuiop trainer.total_epochs=1\n",
        encoding="utf-8",
    )
    done = rlx("init", "--from", str(tmp_path / "run.sh"), str(tmp_path / "new.yaml"), "--json")
    text = (tmp_path / "new.yaml").read_text(encoding="utf-8")
    assert "qwertyuiop" not in done.stdout + done.stderr + text
    assert "secrets: [HUB_TOKEN, OTHER, OPENAI_API_KEY]" in text
    assert "hf_gsm8k_math_train" in text and "TRAIN_FILES: /data/hf_gsm8k_math_train" in text


REFUSED = {
    "missing.sh": (None, "missing.sh"),
    "empty.sh": ("\n \n", "empty.sh"),
    "binary.sh": ("\0\x01\x02" * 100, "binary.sh"),
    "large.sh": ("# x\n" * 2_600_000, "large.sh"),
    "self.sh": ("f() { f; }; f", "self.sh"),
    "endless.sh": ("while :; do :; done", "endless.sh"),
    "foreign.sh": ("#!/bin/bash\necho hello; make all", "foreign.sh"),
    "other.sh": ("python train.py --lr 1", "rlx launch --script"),
    "entropy.sh": ("python3 -m recipe.entropy.main_entropy a=1", "rlx launch --script"),
    "dpo.sh": ("python cli/train_dpo.py --config-name x", "rlx launch --script"),
    "sft.sh": ("torchrun -m verl.trainer.sft_trainer data.train_files=/a", "given answers"),
    "generation.sh": ("python3 -m verl.trainer.main_generation a=1", "trains nothing"),
    "own-trainer.sh": ("ray job submit -- python3 -m mine actor_rollout_ref.model.path=/m", "verl"),
    "slime.sh": ("ray job submit -- python3 train.py --actor-num-nodes 1 --colocate", "slime"),
    "swift.sh": ("swift infer --model a\nNPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model a", "line 2: swift"),
    "trl.sh": ("trl grpo --config x.yaml", "TRL"),
    "open-r1.sh": ("accelerate launch --num_processes 7 src/open_r1/grpo.py --config recipes/grpo.yaml", "open-r1"),
    "trl.yaml": ("model_name_or_path: /m\ndataset_name: d\nnum_generations: 8\n", "trl grpo --config"),
    "open-r1.yaml": ("model_name_or_path: /m\ndataset_name: d\nsystem_prompt: s\n", "src/open_r1/grpo.py --config"),
    "swift.yaml": ("model: m\ndataset: [d]\ntuner_type: lora\n", "swift rlhf"),
    "cluster.yaml": ("apiVersion: ray.io/v1\nkind: RayCluster\nspec: {}\n", "RayCluster"),
    "notebook.ipynb": ("{}", "program"),
    "train.py": ("print(1)", "program"),
    "own-yaml.sh": (
        "python3 -m verl.trainer.main_ppo --config-path /their/config --config-name tool",
        "/their/config/tool.yaml",
    ),
    "no-yaml.sh": ("python cli/train_grpo.py --config-name lost", "lost.yaml"),
    "other.yaml": ("a: 1", "other.yaml"),
    "recipe.yaml": ("version: 1\nbackend: {}", "rlx validate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_launch_is_refused_in_a_sentence(name: str, tmp_path: Path, wording: SnapshotAssertion) -> None:
    text, fact = REFUSED[name]
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    begun = time.process_time()
    done = rlx("init", "--from", str(tmp_path / name), str(tmp_path / "new.yaml"), code=None)
    assert done.returncode == 2
    assert fact in done.stderr and "Traceback" not in done.stderr
    assert settled(done.stderr, {str(tmp_path): "folder"}) == wording
    assert not (tmp_path / "new.yaml").exists()
    assert time.process_time() - begun < 2


def test_a_broken_configuration_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [1", encoding="utf-8")
    done = rlx("init", "--from", str(tmp_path / "broken.yaml"), str(tmp_path / "new.yaml"), code=2)
    assert "broken.yaml, line 2" in done.stderr and "  fix: " in done.stderr
    assert not (tmp_path / "new.yaml").exists()


def test_nothing_is_overwritten_and_options_go_with_a_launch(tmp_path: Path, wording: SnapshotAssertion) -> None:
    script = str(CASES / "init-from/arms/run.sh")
    target = tmp_path / "new.yaml"
    target.write_text("mine", encoding="utf-8")
    other = str(tmp_path / "x.yaml")
    refused = [
        rlx("init", "--from", script, str(target), code=2),
        rlx("init", "--from", script, other, "--arm", "aqn", code=2),
        rlx("init", "--json", other, code=2),
        rlx("init", "--from", script, other, "--arm", f"baseline={script}", code=2),
    ]
    assert target.read_text(encoding="utf-8") == "mine" and not Path(other).exists()
    assert [settled(done.stderr, {script: "script", str(tmp_path): "folder"}) for done in refused] == wording


def test_a_printed_configuration_becomes_a_recipe() -> None:
    """Of a configuration with all its keys only those that are not verl's own value are told."""
    made = recipe_from(str(CASES / "printed-config/log"), version="0.9.1")
    fates = made.arms["baseline"].keys
    assert 10 < len(fates) < 120
    differing = {fate.key for fate in fates if not fate.is_equal}
    assert differing == {"trainer.experiment_name", "trainer.default_local_dir", "trainer.validation_data_dir"}


def test_no_secret_is_in_a_refusal(tmp_path: Path, wording: SnapshotAssertion) -> None:
    (tmp_path / "run.sh").write_text(
        "export API_KEY=qwertyuiop\npython https://me:other-word@host/$API_KEY.py\n", encoding="utf-8"
    )
    done = rlx("init", "--from", str(tmp_path / "run.sh"), str(tmp_path / "new.yaml"), code=2)
    assert settled(done.stderr, {str(tmp_path): "folder"}) == wording
    assert "qwertyuiop" not in done.stderr and "other-word" not in done.stderr


def test_no_secret_of_a_configuration_is_shown_or_written(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "actor_rollout_ref: {model: {path: /m}}\n"
        "trainer: {wandb_token: qwertyuiop, proxy: 'http://me:qwertyuiop@p', name: fine}\n"
        "ray_kwargs: {ray_init: {runtime_env: {env_vars: {HF_TOKEN: qwertyuiop, list: [hf_qwertyuiop]}}}}\n"
        "data: {prompt_key: prompt, max_token_len: 5, reward_fn_key: data_source}\n",
        encoding="utf-8",
    )
    done = rlx("init", "--from", str(tmp_path / "run.yaml"), str(tmp_path / "new.yaml"), "--json")
    text = (tmp_path / "new.yaml").read_text(encoding="utf-8")
    assert "qwertyuiop" not in done.stdout + done.stderr + text
    assert "secrets: [WANDB_TOKEN, PROXY, HF_TOKEN, LIST]" in text
    assert "reward_fn_key: data_source" in text


LAUNCH = "python3 -m verl.trainer.main_ppo data.train_files=/d/t.parquet data.val_files=/d/v.parquet"
NO_NUMBERS = ["a,b", "'1e-6,5e-7'", "[1e-6,5e-7]", "'about 3'"]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_text_and_lists_in_place_of_a_number_are_errors(value: str, tmp_path: Path) -> None:
    made = recipe_from(f'{LAUNCH} "actor_rollout_ref.actor.optim.lr={value}"\n', tmp_path / "recipe.yaml")
    assert "error RLX029" in rlx("validate", str(made.written), code=2).stdout


@pytest.mark.parametrize("value", ["5e-7", "1", "${oc.env:LR}", "1_000"])
def test_numbers_and_interpolations_are_none(value: str, tmp_path: Path) -> None:
    made = recipe_from(f"{LAUNCH} 'actor_rollout_ref.actor.optim.lr={value}'\n", tmp_path / "recipe.yaml")
    assert "RLX029" not in rlx("validate", str(made.written), code=None).stdout


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"{LAUNCH} -m 'actor_rollout_ref.rollout.n=range(1,5)'\n", "Hydra chooses these values"),
        (f"for i in {{1..65}}; do {LAUNCH} data.train_batch_size=$i; done\n", "starts 65 trainings"),
        (f"{LAUNCH} -m data.train_batch_size={','.join(map(str, range(1, 70)))}\n", "starts 65 trainings"),
    ],
)
def test_a_sweep_that_is_no_recipe_is_refused_with_the_fix(script: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        recipe_from(script)
    assert message in refused.value.message
    assert refused.value.hint


def test_a_loop_that_starts_the_same_again_is_one_launch() -> None:
    made = recipe_from(f"for i in 1 2 3; do {LAUNCH} && break; sleep 60; done\n")
    assert list(made.arms) == ["baseline"]


def test_a_secret_that_is_a_word_of_its_own_is_hidden(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        f"TRAIN_FILES=/d/t.parquet\n{LAUNCH} --password hunter2hunter2 data.train_files=$TRAIN_FILES "
        "data.train_batch_size=$(curl -u me:pw12345678 http://x)\n",
        encoding="utf-8",
    )
    answer = rlx("init", "--from", str(script), str(tmp_path / "recipe.yaml"), "--verbose")
    written = (tmp_path / "recipe.yaml").read_text(encoding="utf-8")
    for text in (answer.stdout, answer.stderr, written):
        assert "hunter2" not in text and "pw123" not in text
    assert "/d/t.parquet" in answer.stdout and "/d/t.parquet" in written
