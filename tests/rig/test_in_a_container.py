"""What rlx does in a container that somebody else started: it reads a log, reads the back-end, and leaves no trace."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from tests.backends.conftest import BASE, merge
from tests.conftest import CASES
from tests.rig import Client, Container
from tests.runs.toys import until
from tests.wheels import INSTALLED

BASELINE = (CASES / "logs/tiny-baseline/log").read_bytes()


@pytest.fixture
def client(container: Container, docker_rig: Any) -> Client:
    docker_rig.client.rlx("hosts", "add", "h1", "h1", "--container", "rl")
    return docker_rig.client


def row(client: Client, name: str) -> dict[str, Any]:
    (found,) = json.loads(client.rlx("status", name, "--json").stdout)["runs"]
    return dict(found)


def zombies(container: Container) -> int:
    states = container.run("sh", "-c", "cat /proc/[0-9]*/status").stdout.decode()
    return states.count("State:\tZ")


def write_on(container: Container) -> None:
    """Somebody's training by hand, which still writes: `cat` holds the log open as tee would."""
    container.run("sh", "-c", "mkfifo /tmp/more; (cat /tmp/more >>/tmp/x.log) & (sleep 1000 >/tmp/more) &")


def test_a_run_started_by_hand_in_a_container(client: Client, container: Container, wording: SnapshotAssertion) -> None:
    """Its log lies in the container's own layer, where the host does not see it."""
    middle = BASELINE.index(b"\n", BASELINE.index(b"step:7 ")) + 1
    container.run("sh", "-c", "cat >/tmp/x.log", stdin=BASELINE[:middle])
    write_on(container)
    run = client.rlx("adopt", "h1:rl:/tmp/x.log", "--name", "mine").stdout.decode().strip()
    seen = row(client, "mine")
    assert (seen["state"], seen["steps_done"], seen["container"]) == ("running", 7, "rl")
    assert "h1:rl" in client.rlx("status").stdout.decode()
    container.run("sh", "-c", "cat >/tmp/more", stdin=BASELINE[middle:])
    until(lambda: container.run("cat", "/tmp/x.log").stdout == BASELINE, "what was sent to the writer is in the log")
    seen = row(client, "mine")
    assert (seen["state"], seen["steps_done"]) == ("running", 20)
    assert b"step:20 " in client.rlx("logs", run, "--grep", "step:20 ").stdout
    assert client.rlx("stop", "mine", check=False).returncode != 0
    container.stop()
    assert row(client, "mine")["steps_done"] == 20
    assert b"step:20 " in client.rlx("logs", run, "--grep", "step:20 ").stdout
    container.start()
    # The writer is gone, but a container does not see who else may write: only time can tell.
    seen = row(client, "mine")
    assert (seen["state"], "h1:rl:/tmp/x.log" in seen["detail"]) == ("running", True)
    assert re.sub(r"\d+ s", "<time>", seen["detail"]) == wording


def test_what_is_not_there_cannot_be_adopted(client: Client, container: Container, wording: SnapshotAssertion) -> None:
    refused = client.rlx("adopt", "h1:rl:/tmp/nope.log", "--name", "mine", check=False)
    assert refused.returncode in (1, 4) and refused.stderr.decode() == wording
    refused = client.rlx("adopt", "h1:other:/tmp/x.log", "--name", "mine", check=False)
    assert refused.returncode in (1, 4) and b"docker ps -a" in refused.stderr
    container.stop()
    refused = client.rlx("adopt", "h1:rl:/tmp/x.log", "--name", "mine", check=False)
    assert refused.returncode == 4 and b"docker start rl" in refused.stderr


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    document = json.loads(json.dumps(BASE))
    merge(document, {"backend": {"version": "0.7.1"}})
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_the_back_end_of_the_container_counts(client: Client, recipe: Path, tmp_path: Path) -> None:
    (planned,) = json.loads(client.rlx("plan", str(recipe), "--host", "h1", "--json", check=False).stdout)["plans"]
    messages = {finding["id"]: finding["message"] for finding in planned["findings"]}
    assert "rl of h1" in messages["RLX402"] and f"verl {INSTALLED}" in messages["RLX402"]
    (tree,) = (tmp_path / "home/trees").iterdir()
    assert (tree / "ppo_trainer.yaml").is_file()


def test_a_fork_in_the_container_counts(client: Client, container: Container, recipe: Path) -> None:
    """Its own key is known there, and nowhere else; its files are read and none is written."""
    package = container.run("python", "-c", "import verl; print(verl.__path__[0])").stdout.decode().strip()
    fork = "mkdir -p /data/fork && cp -r $0 /data/fork/verl && cd /data/fork/verl/trainer/config && "
    fork += "sed -i 's/^trainer:/trainer:\\n  noise_injection: {log_changes: false}/' ppo_trainer.yaml"
    container.run("sh", "-c", fork, package)
    words = ("plan", str(recipe), "--host", "h1", "--set", "backend.workdir=/data/fork")
    words += ("--set", "overrides={trainer.noise_injection.log_changes: true}")
    unknown = client.rlx(*words, "--container", "", "--json", check=False).stdout
    assert b"noise_injection" in unknown or b"RLX403" in unknown
    (planned,) = json.loads(client.rlx(*words, "--json", check=False).stdout)["plans"]
    assert not [one for one in planned["findings"] if one["severity"] == "error"], planned["findings"]


def test_looking_leaves_no_zombie(client: Client, container: Container, recipe: Path) -> None:
    """Process 1 of this container never waits for anybody."""
    client.rlx("doctor", "h1")
    client.rlx("plan", str(recipe), "--host", "h1", check=False)
    container.run("sh", "-c", "echo >/tmp/x.log")
    client.rlx("adopt", "h1:rl:/tmp/x.log", "--name", "mine")
    client.rlx("status", "--host", "h1")
    # What docker itself started there it reaps a moment later.
    until(lambda: zombies(container) == 0, "no zombie stays")
