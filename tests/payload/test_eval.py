"""The evaluation after a training, as launch.sh runs it: a program with a checkpoint, rows and a reward function.

The checkpoint is a small trained model in Hugging Face's form, and the converter copies it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet
import pytest
import transformers
from rlx_eval_checkpoint import convert
from rlx_eval_generate import answers
from rlx_eval_order import EvalOrder
from rlx_eval_rows import read_rows
from rlx_verl_cpu_sampling import SamplingRequest, sample

from rlx.evidence import read_evidence, read_items
from rlx.resources import payload_folder

METRIC = "val-core/post/acc/mean@{}"
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info, **kwargs):
    right = float(solution_str.strip() == ground_truth)
    return {"score": 2 * right - 1, "acc": right, "split": extra_info["split"]}
"""
CONVERT = """#!/bin/sh
set -eu
cp -r "$1"/hf/. "$2"
"""


@dataclass
class Run:
    folder: Path

    @property
    def attempt(self) -> Path:
        return self.folder / "attempts/1"

    def order(self, **changes: Any) -> None:
        path = self.folder / "payload/eval.json"
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")

    def rlx_eval(self, what: str = "run") -> subprocess.CompletedProcess[str]:
        environment = {"RLX_RUN_DIR": str(self.folder), "RLX_ATTEMPT_DIR": str(self.attempt), "HF_HUB_OFFLINE": "1"}
        return subprocess.run(
            [sys.executable, self.folder / "payload/rlx_eval.py", what],
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
            encoding="utf-8",
        )

    def lines(self, step: int = 4) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for line in (self.attempt / f"validation/{step}.jsonl").read_text(encoding="utf-8").splitlines()
        ]

    def files(self) -> set[Path]:
        return {path for path in self.folder.rglob("*") if "__pycache__" not in path.parts}

    def left(self) -> set[str]:
        return {path.name for path in self.attempt.iterdir()}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is often right and often wrong, and 100 rows."""
    import tiny_addition

    folder = tmp_path_factory.mktemp("tiny")
    tiny_addition.make(folder)
    return folder


@pytest.fixture
def run(tiny: Path, tmp_path: Path) -> Run:
    payload = tmp_path / "payload"
    payload.mkdir()
    for path in [payload_folder() / "data_rows.py", *payload_folder().glob("rlx_eval*.py")]:
        shutil.copy(path, payload)
    (payload / "reward.py").write_text(REWARD, encoding="utf-8")
    convert = tmp_path / "convert.sh"
    convert.write_text(CONVERT, encoding="utf-8")
    convert.chmod(0o700)
    checkpoint = tmp_path / "checkpoints/iter_0000004"
    shutil.copytree(tiny / "model", checkpoint / "hf")
    (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text("4", encoding="utf-8")
    attempt = tmp_path / "attempts/1"
    attempt.mkdir(parents=True)
    (attempt / "metrics.jsonl").write_text(
        '{"step": 3, "data": {"a": 1}}\n{"step": 4, "data": {"a": 2}}\n', encoding="utf-8"
    )
    (payload / "eval.json").write_text(json.dumps(_order(tiny, convert)), encoding="utf-8")
    return Run(tmp_path)


def _order(tiny: Path, convert: Path) -> dict[str, Any]:
    return {
        "metric": METRIC.format(1),
        "rows": str(tiny / "val.parquet"),
        "row_count": 100,
        "prompt_key": "prompt",
        "n": 1,
        "temperature": 0.0,
        "seed": 1,
        "max_response_tokens": 8,
        "engine": "transformers",
        "batch_size": 64,
        "device": "cpu",
        "dtype": "float32",
        "devices": 1,
        "memory": 0.5,
        "eager": True,
        "reward": {"file": "reward.py", "function": "compute_score", "kwargs": {}},
        "convert": str(convert),
        "merge": [],
        "lora_alpha": None,
    }


def test_the_result_stands_where_evidence_looks(run: Run) -> None:
    before = run.files()
    done = run.rlx_eval()
    assert done.returncode == 0, done.stderr
    # Of all that is there now, only the converted weights were removed again.
    assert run.files() - before == {run.attempt / "validation", run.attempt / "validation/4.jsonl"}
    assert before <= run.files()
    lines = run.lines()
    value = fmean(line["acc"] for line in lines)
    assert 0.1 < value < 0.95, "a model that is always right or always wrong would show nothing"
    assert done.stdout.splitlines()[-1] == f"step:4 - {METRIC.format(1)}:{value!r}"
    (run.attempt / "log").write_text(done.stdout, encoding="utf-8")
    evidence = read_evidence([run.attempt])
    assert dict(evidence.metrics[4]) == {"a": 2, METRIC.format(1): value}
    assert evidence.answers == {4: 100} and not evidence.disagreements
    items = read_items(run.attempt / "validation", 4, METRIC.format(1))
    assert items is not None and len(items.scores) == 100 and items.mean == pytest.approx(value)
    assert items.source == "post", "which tells them from outputs of verl's own validations"
    first = lines[0]
    assert first["input"].startswith("user\n") and first["gts"] == str(eval(first["input"][5:8]))
    assert (first["score"], first["reward"], first["split"]) == (2 * first["acc"] - 1,) * 2 + ("val",)


def test_rewards_that_verl_knows_by_name_are_its_own(run: Run) -> None:
    """Which one, verl says by the source of the row: it has none for the sums of two digits."""
    run.order(reward={"name": "math"})
    assert run.rlx_eval("check").returncode == 0
    done = run.rlx_eval()
    assert done.returncode == 1
    assert re.search(r"row 1: .*NotImplementedError", done.stderr.splitlines()[-1])
    assert "rlx/tiny-addition" in done.stderr.splitlines()[-1]


def outputs(tiny: Path, folder: Path, samples: int = 1, **changes: Any) -> list[str]:
    """The answers of a model to the 100 rows, in this process: torch takes seconds to load."""
    order = EvalOrder(**{**_order(tiny, Path("/unused")), "batch_size": 100, **changes})
    chats = [row.chat for row in read_rows(order) for _ in range(samples)]
    return [output for _, output in answers(order, folder, chats)]


def test_answers_are_those_of_the_rollout_that_validates(tiny: Path) -> None:
    """Greedy, by the sampler that verl's own validation has on a CPU: padding may turn a near tie, no more."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny / "model").float().eval()
    chats = pyarrow.parquet.read_table(tiny / "val.parquet").column("prompt").to_pylist()
    prompts = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False) for chat in chats]
    requests = [SamplingRequest(tuple(prompt), seed=0, max_tokens=8, temperature=0.0) for prompt in prompts]
    expected = [
        tokenizer.decode(answer.tokens, skip_special_tokens=True)
        for answer in sample(model, requests, {tokenizer.eos_token_id})
    ]
    found = outputs(tiny, tiny / "model", batch_size=7)
    assert sum(one == other for one, other in zip(found, expected, strict=True)) >= 98


def test_samples_follow_from_the_seed(tiny: Path) -> None:
    """The answers to a row stand together, and are answers of their own."""
    first, again, other = (outputs(tiny, tiny / "model", samples=3, temperature=1.0, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert any(len(set(first[start : start + 3])) > 1 for start in range(0, 300, 3))


def test_generation_settings_that_come_with_a_model_do_not_count(tiny: Path, tmp_path: Path) -> None:
    """Qwen's ask for a repetition penalty and top_k 20: verl's rollout does not, so neither does this."""
    shutil.copytree(tiny / "model", tmp_path / "model")
    path = tmp_path / "model/generation_config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"repetition_penalty": 50.0, "min_new_tokens": 8}),
        encoding="utf-8",
    )
    assert outputs(tiny, tmp_path / "model") == outputs(tiny, tiny / "model")


def test_adapters_beside_the_weights_are_folded_in(run: Run, tiny: Path, tmp_path: Path) -> None:
    """verl's merger leaves them in `lora_adapter`, before 0.9 with alpha 0, which would be the base alone."""
    import peft

    adapted = peft.get_peft_model(
        transformers.AutoModelForCausalLM.from_pretrained(tiny / "model"),
        peft.LoraConfig(r=4, lora_alpha=64, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
    )
    checkpoint, folder, merged = run.folder / "checkpoints/iter_0000004", tmp_path / "converted", tmp_path / "merged"
    adapted.save_pretrained(checkpoint / "hf/lora_adapter")
    config = checkpoint / "hf/lora_adapter/adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text(encoding="utf-8")) | {"lora_alpha": 0}), encoding="utf-8")
    shutil.copytree(tiny / "model", merged)
    adapted.merge_and_unload().save_pretrained(merged)
    folder.mkdir()
    convert(EvalOrder(**_order(tiny, run.folder / "convert.sh") | {"lora_alpha": 64}), checkpoint, folder)
    assert outputs(tiny, folder) == outputs(tiny, merged) != outputs(tiny, tiny / "model")


@pytest.mark.parametrize("place", ["actor/model/huggingface", "actor/huggingface"], ids=["0.9", "0.7"])
def test_weights_that_need_no_merging_are_taken_as_they_are(place: str, tiny: Path, tmp_path: Path) -> None:
    """As Megatron's checkpoints of verl have them with a bridge. They stay when the converted ones are removed."""
    checkpoint, folder = tmp_path / "global_step_4", tmp_path / "converted"
    shutil.copytree(tiny / "model", checkpoint / place)
    folder.mkdir()
    order = {**_order(tiny, Path("/unused")), "convert": None, "merge": ["--backend", "megatron"]}
    convert(EvalOrder(**order), checkpoint, folder)
    assert outputs(tiny, folder) == outputs(tiny, tiny / "model")
    shutil.rmtree(folder)
    assert (checkpoint / place / "model.safetensors").is_file()


def _rows(tiny: Path, run: Run, change: Callable[[dict[str, Any]], object]) -> None:
    rows = pyarrow.parquet.read_table(tiny / "val.parquet").to_pylist()
    change(rows[41])
    path = run.folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run.order(rows=str(path))


BEFORE: Mapping[str, tuple[Callable[[Path, Run], object], str]] = {
    "rows not there": (
        lambda tiny, run: run.order(rows="/nowhere/rows.parquet"),
        "/nowhere/rows.parquet: No such file",
    ),
    "no parquet": (lambda tiny, run: run.order(rows=__file__.replace(".py", ".parquet")), "test_eval.parquet: No such"),
    "fewer rows": (lambda tiny, run: run.order(row_count=99), "has 100 rows, and eval.post.row_count says 99"),
    "other column": (lambda tiny, run: run.order(prompt_key="messages"), "row 1: no chat in the column messages"),
    "no truth": (lambda tiny, run: _rows(tiny, run, lambda row: row.pop("reward_model")), "row 42: no reward_model"),
    "prompt as text": (lambda tiny, run: _rows(tiny, run, lambda row: row.update(prompt="1+1")), "row 42: no chat"),
    "no function": (
        lambda tiny, run: run.order(reward={"file": "reward.py", "function": "score"}),
        "the reward function cannot be loaded: AttributeError",
    ),
    "no converter": (lambda tiny, run: run.order(convert="/nowhere/convert"), "/nowhere/convert is no program"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_would_fail_is_told_before_the_training(name: str, run: Run, tiny: Path) -> None:
    change, said = BEFORE[name]
    assert run.rlx_eval("check").returncode == 0
    change(tiny, run)
    done = run.rlx_eval("check")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rlx: eval.post: ") and said in done.stderr and done.stderr.count("\n") == 1
    assert run.left() == {"metrics.jsonl"}


def _reward(text: str) -> Callable[[Run], object]:
    return lambda run: (run.folder / "payload/reward.py").write_text(
        f"def compute_score(**_):\n    {text}\n", encoding="utf-8"
    )


def _converter(text: str) -> Callable[[Run], object]:
    return lambda run: (run.folder / "convert.sh").write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")


AFTER: Mapping[str, tuple[Callable[[Run], object], str]] = {
    "no checkpoint": (lambda run: shutil.rmtree(run.folder / "checkpoints"), "there is no checkpoint: "),
    "its folder is gone": (
        lambda run: shutil.rmtree(run.folder / "checkpoints/iter_0000004"),
        "there is no checkpoint of step 4 in ",
    ),
    "an earlier step": (
        lambda run: (run.attempt / "metrics.jsonl").write_text('{"step": 6, "data": {}}\n', encoding="utf-8"),
        "the last checkpoint is of step 4, and the training ended at step 6",
    ),
    "converter fails": (_converter("exit 3"), "convert.sh ended with 3"),
    "converter leaves nothing": (_converter("exit 0"), "there is no config.json"),
    "reward raises": (_reward("return 1 / 0"), "row 1: the reward function fails: ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("name", AFTER)
def test_a_failure_leaves_the_training_s_evidence_as_it_was(name: str, run: Run) -> None:
    change, said = AFTER[name]
    change(run)
    before = (run.attempt / "metrics.jsonl").read_text(encoding="utf-8")
    done = run.rlx_eval()
    assert done.returncode == 1 and "step:" not in done.stdout
    told = done.stderr.splitlines()[-1]
    assert told.startswith("rlx: eval.post: ") and said in told and "Traceback" not in done.stderr
    assert run.left() == {"metrics.jsonl"}
    assert (run.attempt / "metrics.jsonl").read_text(encoding="utf-8") == before
