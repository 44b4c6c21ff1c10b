"""Stock verl in a Ray cluster that is there already: it waits for its devices, joins, trains and is judged."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlx.hosts.inventory.host_files import user_file
from tests.ray_cluster import RayHead, ray_head
from tests.training.conftest import RECIPE, Laptop, assert_nothing_is_left, processes_of

# What verl reserves for one worker, and a driver's own actor.
CPUS = 10
SMALL = ("--arm", "baseline", "--set", "train.steps=2", "--set", "eval.every=2")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayHead]:
    with tempfile.TemporaryDirectory(prefix="rlx-ray-", dir="/tmp") as folder, ray_head(Path(folder), CPUS, 1) as head:
        yield head


@pytest.fixture
def laptop(new_laptop: Callable[[], Laptop]) -> Laptop:
    return new_laptop()


def launched(laptop: Laptop, cluster: RayHead) -> str:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(f"hosts:\n  local: {{ray: {{address: '{cluster.address}'}}}}\n", encoding="utf-8")
    (run,) = laptop.rlx("launch", str(RECIPE), "--host", "local", "-y", *SMALL).stdout.split()
    return run


def test_it_waits_for_its_devices_trains_and_is_valid(cluster: RayHead, laptop: Laptop) -> None:
    cluster.submit("neighbour", "sleep 3000", gpus=1)
    cluster.until(lambda: cluster.free()["GPU"] == 0, "the cluster is full")
    run = launched(laptop, cluster)
    waiting = laptop.until(run, lambda row: row["state"] == "queued" and "0 of 1" in row["detail"])
    assert "1 GPU" in waiting["detail"]
    cluster.stop("neighbour")
    row = laptop.until(run, lambda row: row["state"] == "finished", 1100)
    assert (row["steps_done"], row["last_validation"]["step"], row["verdict"]["status"]) == (2, 2, "valid"), row
    events = [path.name for path in (Path(row["run_dir"]) / "latest/events").iterdir()]
    assert events, "the workers, which Ray started, wrote their evidence"
    assert cluster.until(lambda: cluster.state(run) == "SUCCEEDED", "Ray knows")
    assert cluster.until(lambda: cluster.free()["GPU"] == 1, "its devices are given back")
    assert_nothing_is_left(run)
    # The cluster is as it was.
    assert json.loads(laptop.rlx("queue", "local", "--json").stdout)["hosts"][0]["jobs"] == []


def test_a_stop_ends_its_workers_and_not_the_cluster(cluster: RayHead, laptop: Laptop) -> None:
    run = launched(laptop, cluster)
    laptop.until(run, lambda row: row["steps_done"] >= 1, 1100)
    assert any("ray::" in line for line in processes_of(run).values())
    laptop.rlx("stop", run)
    assert not processes_of(run)
    assert laptop.status(run)[0]["state"] == "stopped"
    assert cluster.until(lambda: cluster.free()["GPU"] == 1, "its devices are given back")
    assert cluster.lives
