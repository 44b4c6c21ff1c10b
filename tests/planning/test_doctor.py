"""`rlx doctor` as a person types it: on this machine, over ssh, and into a container of a remote host."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.hosts import LocalTransport
from rlx.model import Site
from rlx.planning.host_query import query_host, query_site
from rlx.planning.host_requirements import HostRequirements
from tests.cli.support import rlx
from tests.rig.rig import Rig
from tests.wording import settled

RECIPE = """\
version: 1
name: probe
backend: {{kind: verl, version: "{version}", python: {python}}}
model: {{path: {folder}/model}}
data: {{train: {folder}/train.parquet, val: {folder}/val.parquet, train_rows: 3, prompt_key: question,
       max_prompt_tokens: 8, max_response_tokens: 8}}
reward: gsm8k
algorithm: {{kind: grpo}}
train: {{batch_size: 1, mini_batch_size: 1, micro_batch_size: 1, epochs: 1, lr: 1.0e-6}}
rollout: {{engine: vllm, n: 2, log_prob_micro_batch_size: 1}}
layout: {{device: {device}, devices_per_node: {devices}}}
eval: {{every: 1}}
"""


def looked(*arguments: str, code: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(rlx("doctor", "--json", *arguments, code=code).stdout)
    assert document["schema_version"] == 1
    return document


def ids(document: dict[str, Any], *severities: str) -> set[str]:
    return {found["id"] for found in document["findings"] if found["severity"] in (severities or ("error", "warning"))}


def test_this_machine() -> None:
    document = looked()
    assert document["host"] == "local" and document["facts"]["container"] is None
    assert document["facts"]["host"]["machine"]["uid"] == os.getuid()
    assert document["facts"]["host"]["packages"]["packages"]["verl"]
    least, most = document["clock_ahead_s"]
    assert least <= 0 <= most
    text = rlx("doctor").stdout
    assert text.startswith("local: ") and "\nhost local\n" in text


def test_a_recipe_whose_files_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(
        RECIPE.format(version="0.9.1", python="python3", folder=tmp_path, device="cpu", devices=1), encoding="utf-8"
    )
    document = looked("--recipe", str(tmp_path / "recipe.yaml"), code=5)
    errors = [found["message"] for found in document["findings"] if found["severity"] == "error"]
    assert len(errors) == 3 and all(str(tmp_path) in message for message in errors)


@pytest.mark.long
def test_rows_and_columns_of_real_data(tmp_path: Path, wording: SnapshotAssertion) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for name, column in (("train", "question"), ("val", "prompt")):
        parquet.write_table(arrow.table({column: ["a", "b"]}), tmp_path / f"{name}.parquet")
    (tmp_path / "model").mkdir()
    for file in ("config.json", "model.safetensors"):
        (tmp_path / "model" / file).write_text("{}", encoding="utf-8")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        RECIPE.format(version="0.9.1", python="python3", folder=tmp_path, device="cpu", devices=1), encoding="utf-8"
    )
    document = looked("--recipe", str(recipe), code=5)
    by_id = {found["id"]: found["message"] for found in document["findings"]}
    assert settled(by_id["RLX551"], {str(tmp_path): "folder"}) == wording
    assert settled(by_id["RLX552"], {str(tmp_path): "folder"}) == wording
    assert "RLX550" not in by_id and "RLX544" not in by_id


def test_nothing_is_written(tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    root = tmp_path / "root"
    query_site(LocalTransport(), Site(root=str(root), leases=str(tmp_path / "leases")))
    assert sorted(tmp_path.rglob("*")) == before


def test_the_launch_of_a_plan_without_a_recipe_asks_less() -> None:
    seen = query_host(LocalTransport(), Site(root="/var/tmp/rlx"), HostRequirements())
    assert set(seen.results.host.facts) == {"machine", "tools", "devices", "disk", "shell"}
    assert not seen.results.host.silent and not seen.warnings
    assert not {finding.id for finding in seen.findings} & {"RLX510", "RLX520"}


def test_who_cannot_be_asked() -> None:
    assert "unknown host" in rlx("doctor", "nowhere", code=2).stderr
    done = rlx("doctor", "ssh://nobody@127.0.0.1:1", code=4)
    assert done.stdout == "" and "fix:" in done.stderr


def test_a_host_over_ssh(rig: Rig) -> None:
    host = rig.host("h1")
    host.add_devices("davinci_manager", *(f"davinci{number}" for number in range(16)))
    host.play_npu_smi("a3-ascend910-busy")
    document = json.loads(rig.client.rlx("doctor", "h1", "--json").stdout)
    facts = document["facts"]["host"]
    assert facts["machine"]["name"] == "h1"
    assert len(facts["npu_smi"]["chips"]) == 16 and facts["devices"]["numbers"] == list(range(16))
    assert {"RLX535"} <= ids(document, "note")
    by_id = {found["id"]: found["message"] for found in document["findings"]}
    assert "9: python (99412)" in by_id["RLX535"]
    host.play_npu_smi("driver-down")
    document = json.loads(rig.client.rlx("doctor", "h1", "--json").stdout)
    assert "RLX531" in ids(document, "warning")
    host.cut()
    assert rig.client.rlx("doctor", "h1", check=False).returncode == 4


def test_a_container_of_a_remote_host(docker_rig: Rig) -> None:
    host = docker_rig.host("h1")
    host.path("/srv/data").mkdir()
    host.docker.container("rl", {"/srv/data": "/data"}, python=True)
    done = docker_rig.client.rlx("doctor", "h1", "--container", "rl", "--json")
    document = json.loads(done.stdout)
    inside, outside = document["facts"]["container"], document["facts"]["host"]
    assert (outside["machine"]["name"], inside["machine"]["name"]) == ("h1", "rl")
    assert {mount["destination"]: mount["source"] for mount in outside["container"]["mounts"]}["/data"] == "/srv/data"
    assert inside["packages"]["packages"]["verl"] and "packages" not in outside
    assert "RLX524" in ids(document, "note")
    assert not ids(document, "error")
    text = docker_rig.client.rlx("doctor", "h1", "--container", "rl").stdout.decode()
    assert re.search(r"^.*\bcontainer rl$", text, re.M)
    gone = json.loads(docker_rig.client.rlx("doctor", "h1", "--container", "nobody", "--json", check=False).stdout)
    assert ids(gone, "error") == {"RLX522"}
    host.docker.stop()
    down = json.loads(docker_rig.client.rlx("doctor", "h1", "--container", "rl", "--json", check=False).stdout)
    assert ids(down, "error") == {"RLX521"}
