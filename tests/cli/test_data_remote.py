"""`rlx data` where the data belongs: on a host, and in a container of a host, whose own Python does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.rig.rig import Rig

ROWS = [{"question": f"{i}+1?", "answer": f"so\n#### {i + 1}"} for i in range(3)]
RECIPE = """\
version: 1
name: far
backend: {kind: verl, version: "0.7.1"}
model: {path: /nowhere}
data:
  {train: /data/gsm8k/train.parquet, val: /data/gsm8k/test.parquet, train_rows: 3, val_rows: 1,
   max_prompt_tokens: 16, max_response_tokens: 16}
reward: gsm8k
train: {batch_size: 1, mini_batch_size: 1, micro_batch_size: 2, lr: 1.0e-6}
rollout: {n: 2, log_prob_micro_batch_size: 2}
layout: {device: npu}
"""


def published(folder: Path) -> None:
    folder.mkdir(parents=True)
    for split, rows in (("train", ROWS), ("test", ROWS[:1])):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_on_a_host_nothing_but_its_python_is_needed(rig: Rig) -> None:
    host = rig.host("h1")
    published(host.path("/srv/in"))
    command = ("data", "gsm8k", "/srv/in", "--for", "mindspeed-rl", "--tokenizer", "/m", "--host", "h1", "--to")
    done = rig.client.rlx(*command, "/srv/out", "--json")
    assert [(file["path"], file["rows"], file["written"]) for file in json.loads(done.stdout)["files"]] == [
        ("/srv/out/train.jsonl", 3, True),
        ("/srv/out/test.jsonl", 1, True),
        ("/srv/out/gsm8k.yaml", 0, True),
    ]
    assert json.loads(host.path("/srv/out/train.jsonl").read_text(encoding="utf-8").splitlines()[1])["answer"] == "2"
    assert sorted(path.name for path in host.path("/srv/out").iterdir()) == ["gsm8k.yaml", "test.jsonl", "train.jsonl"]
    refused = rig.client.rlx(*command, "out", check=False)
    assert refused.returncode == 2
    assert b"--to out is not a full path on h1" in refused.stderr


def test_in_a_container_that_has_pyarrow(docker_rig: Rig) -> None:
    pytest.importorskip("pyarrow")
    host, client = docker_rig.host("h1"), docker_rig.client
    host.docker.container("rl", {"/srv": "/data"}, python=True)
    published(host.path("/srv/in"))
    there = ("--host", "h1", "--container", "rl")
    client.rlx("data", "gsm8k", "/data/in", "--to", "/data/gsm8k", *there)
    assert sorted(path.name for path in host.path("/srv/gsm8k").iterdir()) == ["test.parquet", "train.parquet"]
    client.path("/root/recipe.yaml").write_text(RECIPE, encoding="utf-8")
    done = client.rlx("data", "check", "/root/recipe.yaml", *there, "--json", check=False)
    assert done.returncode == 5
    answer = json.loads(done.stdout)
    assert [(finding["id"], finding["severity"]) for finding in answer["findings"]] == [
        ("RLX024", "error"),
        ("RLX023", "note"),
    ]
    assert answer["files"]["train"]["rows"] == 3
    done = client.rlx("doctor", "h1", "--container", "rl", "--recipe", "/root/recipe.yaml", "--json", check=False)
    findings = json.loads(done.stdout)["findings"]
    assert [finding["severity"] for finding in findings if finding["id"] == "RLX024"] == ["error"]
