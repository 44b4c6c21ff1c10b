"""`rlx data check`: what is found in the files of a recipe, case by case."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

from rlx.cli.data import data
from tests.conftest import CASES
from tests.wording import settled

FOLDERS = sorted((CASES / "data").iterdir())
RECIPE = """\
version: 1
name: case
backend: {kind: verl, version: "0.7.1"}
model: {path: /nowhere/model}
data:
  {train: FOLDER/train.jsonl, val: FOLDER/val.jsonl, train_rows: 4, val_rows: 2,
   max_prompt_tokens: 16, max_response_tokens: 16}
reward: gsm8k
train: {batch_size: 2, mini_batch_size: 2, micro_batch_size: 2, lr: 1.0e-6}
rollout: {n: 2, log_prob_micro_batch_size: 2}
layout: {device: npu}
"""


def check(*arguments: str) -> Result:
    result = CliRunner().invoke(data, ["check", *arguments, "--host", "local", "--trust"])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def written(folder: Path) -> str:
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.replace("FOLDER", str(folder)), encoding="utf-8")
    return str(recipe)


@pytest.mark.parametrize("case", FOLDERS, ids=lambda folder: folder.name)
def test_case(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    folder = Path(shutil.copytree(case, tmp_path / "case"))
    monkeypatch.chdir(folder)  # a path in --set starts from where one stands
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    sets = [word for value in expected["sets"] for word in ("--set", value)]
    answer = check(written(folder), *sets, "--json")
    document = json.loads(answer.stdout)
    found = document["findings"]
    assert [f"{finding['id']} {finding['severity']}" for finding in found] == expected["findings"]
    for fact in expected["facts"]:
        assert any(fact in f"{finding['message']} {finding['fix']}" for finding in found), found
    said = [f"{finding['id']}: {finding['message']}\n  fix: {finding['fix']}" for finding in found]
    assert [settled(each, {str(folder): "folder"}) for each in said] == wording
    fits = not any(finding["severity"] == "error" for finding in found)
    assert (document["fits"], answer.exit_code) == (fits, 0 if fits else 5)


def test_the_text_says_the_same(tmp_path: Path, wording: SnapshotAssertion) -> None:
    folder = Path(shutil.copytree(CASES / "data/validation-in-training", tmp_path / "case"))
    answer = check(written(folder))
    assert "warning RLX024 1 of 2 " in answer.stdout
    assert settled(answer.stdout, {str(folder): "folder"}) == wording
    assert check(written(folder), "--strict").exit_code == 5


def test_lengths_are_counted_by_the_model_s_own_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = Path(shutil.copytree(CASES / "data/fits", tmp_path / "case"))
    long = {"prompt": [{"role": "user", "content": "one two three four five"}], "data_source": "openai/gsm8k"}
    with (folder / "train.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({**long, "reward_model": {"ground_truth": "5"}}) + "\n")
    from transformers import PreTrainedTokenizerFast

    words = ["[UNK]", "user", "train", "val", "0", "1", "2", "3", "one", "two", "three", "four", "five"]
    model = tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    bare = tokenizers.Tokenizer(model)
    bare.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="[UNK]")
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] + ' ' + m['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder / "model")
    sets = ["--set", f"model.path={folder}/model", "--set", "data.max_prompt_tokens=5"]

    answer = json.loads(check(written(folder), *sets, "--set", "data.train_rows=5", "--json").stdout)
    (found,) = (finding for finding in answer["findings"] if finding["id"] == "RLX022")
    assert all(fact in found["message"] for fact in ("1 of 5 rows", "row 5", "6 tokens", "over 5"))
    assert "data.max_prompt_tokens to 6" in found["fix"] and "data.train_rows: 4" in found["fix"]
    assert "RLX" not in check(written(folder), *sets).stdout  # 4 rows are promised, and 4 are used
