"""`eval: post` for real: verl trains, its merger converts, transformers answers; verl's own validation is beside it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.payload.mask_secrets import spellings
from tests.training.conftest import RECIPE, Laptop, assert_nothing_is_left, metrics

pytestmark = pytest.mark.training

POST = "val-core/post/acc/mean@1"
EXPERIMENT = f"""
version: 1
name: post
extends: {RECIPE}
train: {{steps: 2, save_every: 5}}
reward: {{path: chatty.py, function: compute_score}}
secrets: [TOKEN_OF_TEST]
eval: {{every: 2, before_train: false, post: {{rows: ~/.cache/rlx/tiny-cpu/val.parquet, row_count: 100}}}}
"""


# A reward function that tells its secret, in the workers of Ray.
CHATTY = """
import os
import sys


def compute_score(solution_str, ground_truth, **_):
    print("graded with", os.environ["TOKEN_OF_TEST"])
    print("graded with", os.environ["TOKEN_OF_TEST"].encode().hex(), file=sys.stderr)
    correct = float(solution_str.removesuffix("<|im_end|>").strip() == ground_truth)
    return {"score": correct, "acc": correct}
"""


def launched(laptop: Laptop, *sets: str) -> dict[str, Any]:
    (laptop.folder / "post.yaml").write_text(EXPERIMENT, encoding="utf-8")
    (laptop.folder / "chatty.py").write_text(CHATTY, encoding="utf-8")
    changes = [word for change in sets for word in ("--set", change)]
    laptop.rlx("launch", "post.yaml", "--host", "local", "--arm", "baseline", "--follow", *changes, code=None)
    return laptop.status("baseline")[0]


def answers(path: Path) -> dict[str, str]:
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line["input"]: line["output"] for line in lines}


@pytest.mark.parametrize(
    "sets", [(), ("model.lora={rank: 8, alpha: 16}", "train.lr=0.002")], ids=["all weights", "adapters"]
)
def test_the_last_checkpoint_is_evaluated_and_agrees_with_verl(
    sets: tuple[str, ...], new_laptop: Callable[[], Laptop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps take the accuracy from 0.45 to over 0.7: weights of before the training would not agree."""
    laptop = new_laptop()
    monkeypatch.setenv("TOKEN_OF_TEST", secret := f"hf_{secrets.token_urlsafe(20)}")
    row = launched(laptop, *sets)
    run_dir = Path(row["run_dir"])
    assert (row["state"], row["verdict"]["status"]) == ("finished", "valid"), row
    attempt = run_dir / "latest"
    ours, verls = answers(attempt / "validation/2.jsonl"), answers(attempt / "validation-in-training/2.jsonl")
    assert len(ours) == 100 and ours.keys() == verls.keys()
    # verl's merger rounds float32 weights to bfloat16: that may turn an answer where two tokens are nearly as likely.
    assert sum(ours[question] != verls[question] for question in ours) <= 3
    values = metrics(run_dir)[2]
    (verl_s,) = (value for key, value in values.items() if key.startswith("val-core/") and key != POST)
    assert values[POST] == pytest.approx(verl_s, abs=0.03) and values[POST] > 0.6
    assert not (attempt / "converted").exists()
    assert (run_dir / "checkpoints/global_step_2/actor").is_dir()
    assert_nothing_is_left(row["run_id"])
    nobody_has(secret, laptop, row["run_id"])


def nobody_has(secret: str, laptop: Laptop, run_id: str) -> None:
    """The secret was printed at every answer: in workers, through Ray's files, and to the log."""
    forms = spellings(secret.encode())
    log = laptop.rlx("logs", run_id, "--grep", "graded with").stdout
    assert "graded with ***" in log and secret not in log
    laptop.rlx("report", run_id, "-o", "report.html", code=None)
    laptop.rlx("pull", run_id, "--to", "pulled", "--checkpoints")
    places = [laptop.folder, *Path("/tmp").glob("rlx-*")]
    # Other tests remove theirs meanwhile: `walk` passes over a folder that has gone, where `rglob` raises.
    files = [Path(at, name) for place in places for at, _, names in os.walk(place) for name in names]
    files = [path for path in files if path.is_file()]
    assert len(files) > 50
    assert [path for path in files if any(form in content(path) for form in forms)] == []


def content(path: Path) -> bytes:
    """The bytes of a file, which another test may just have removed."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
