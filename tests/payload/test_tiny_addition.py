"""`rlx data tiny-cpu`: the tiny model and its hundred questions are what the recipe promises, and made once."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import venv
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
parquet = pytest.importorskip("pyarrow.parquet")

import make_folder  # noqa: E402

from rlx.backends.shared.vllm_cpu import HEAD_SIZES  # noqa: E402
from rlx.cli.data import tiny_cpu  # noqa: E402
from rlx.errors import RlxError  # noqa: E402
from rlx.resources import payload_folder, recipes_folder  # noqa: E402

MAKER = payload_folder() / "tiny_addition.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache") / "tiny-cpu"
    tiny_cpu(to=str(folder))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def compute_score(answer: str, truth: str) -> dict[str, float]:
    path = recipes_folder() / "tiny-cpu" / "reward.py"
    spec = importlib.util.spec_from_file_location("tiny_reward", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compute_score(data_source="rlx/tiny-addition", solution_str=answer, ground_truth=truth)


class TestContent:
    def test_validation_asks_each_sum_once_and_training_four_times(self, made: Path) -> None:
        asked = {
            split: [row["prompt"][0]["content"] for row in parquet.read_table(made / f"{split}.parquet").to_pylist()]
            for split in ("train", "val")
        }
        assert sorted(asked["val"]) == sorted(f"{a}+{b}=?" for a in range(10) for b in range(10))
        assert sorted(asked["train"]) == sorted(asked["val"] * 4)

    def test_ground_truths_are_the_sums(self, made: Path) -> None:
        for row in parquet.read_table(made / "val.parquet").to_pylist():
            left, right = row["prompt"][0]["content"].removesuffix("=?").split("+")
            assert row["reward_model"]["ground_truth"] == str(int(left) + int(right))

    def test_one_model_has_heads_that_vllm_knows_on_a_cpu(self, made: Path) -> None:
        config = json.loads((made / "model-heads-32" / "config.json").read_text(encoding="utf-8"))
        assert config["hidden_size"] // config["num_attention_heads"] in HEAD_SIZES

    def test_prompts_and_answers_fit_the_recipe_s_lengths(self, made: Path) -> None:
        import tiny_addition
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(made / "model")
        prompt, answer = tiny_addition._prompt_and_answer(tokenizer, (9, 9))
        assert len(prompt) <= 32
        assert len(answer) == 3  # two digits and the end of the turn
        assert tokenizer.decode(prompt) == "<|im_start|>user\n9+9=?<|im_end|>\n<|im_start|>assistant\n"

    def test_the_warmed_up_model_is_sometimes_right(self, made: Path) -> None:
        import tiny_addition
        from rlx_verl_cpu_sampling import SamplingRequest, sample
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(made / "model").eval()
        tokenizer = AutoTokenizer.from_pretrained(made / "model")
        pairs = tiny_addition.sums()
        prompts = [tuple(tiny_addition._prompt_and_answer(tokenizer, pair)[0]) for pair in pairs]
        requests = [SamplingRequest(prompt, seed=0, max_tokens=8, temperature=0.0) for prompt in prompts]
        answers = sample(model, requests, frozenset({tokenizer.eos_token_id}))
        right = [
            compute_score(tokenizer.decode(answer.tokens), str(sum(pair)))["acc"]
            for answer, pair in zip(answers, pairs, strict=True)
        ]
        # Room to learn above, something to reinforce below; the exact share depends on the processor.
        assert 0.2 <= sum(right) / len(right) <= 0.85

    def test_the_same_files_each_time(self, tmp_path: Path) -> None:
        import tiny_addition

        for name in ("first", "second"):
            tiny_addition.make(tmp_path / name, warm_up_steps=2)
        assert contents(tmp_path / "first") == contents(tmp_path / "second")

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [("12", 1.0), (" 12\n", 1.0), ("12<|im_end|>", 1.0), ("1", 0.0), ("12 ", 1.0), ("", 0.0)],
    )
    def test_reward(self, answer: str, expected: float) -> None:
        assert compute_score(answer, "12") == {"score": expected, "acc": expected}


class TestCommand:
    def test_what_is_complete_is_left_alone(self, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
        tiny_cpu(to=str(made))
        assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before
        assert capsys.readouterr().out == f"{made}\n"

    def test_a_changed_or_missing_file_is_noticed(self, made: Path, tmp_path: Path) -> None:
        import shutil

        folder = Path(shutil.copytree(made, tmp_path / "copy"))
        assert make_folder.is_complete(folder, MAKER.read_bytes())
        (folder / "val.parquet").write_bytes(b"")
        assert not make_folder.is_complete(folder, MAKER.read_bytes())
        shutil.copy(made / "val.parquet", folder)
        (folder / "model" / "config.json").unlink()
        assert not make_folder.is_complete(folder, MAKER.read_bytes())

    def test_nothing_is_left_beside_the_folder(self, made: Path) -> None:
        assert [path.name for path in made.parent.iterdir()] == [made.name]

    def test_a_folder_that_rlx_did_not_make_is_not_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
        with pytest.raises(RlxError, match=re.escape(str(tmp_path))):
            tiny_cpu(to=str(tmp_path), force=True)
        assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "years of work"

    def test_missing_packages_are_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        bare = tmp_path / "bare"
        venv.create(bare)
        monkeypatch.setattr(sys, "executable", str(bare / "bin/python"))
        with pytest.raises(RlxError, match="transformers") as caught:
            tiny_cpu(to=str(tmp_path / "new"))
        assert "[verl-cpu]" in caught.value.hint
        assert not (tmp_path / "new").exists()
