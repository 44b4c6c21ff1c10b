"""Scripts that were written for a machine of one's own, on one that others use: unchanged, kept within their runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import rlx
from tests.devices import machine_with

VENV = Path(sys.executable).parent
# As slime's examples begin.
SCRIPT = """#!/bin/bash
pkill -9 python
ray stop --force
pkill -9 ray
set -x
# Ray gives itself 30 s, which a busy machine may not keep.
for attempt in 1 2 3 4 5 6; do
    ray start --head --port 6379 --num-cpus 1 --num-gpus 8 --object-store-memory 80000000 --disable-usage-stats && break
    ray stop --force
done
set -e
ray job submit --address="http://127.0.0.1:8265" -- python3 {train} {go}
"""
TRAIN = """
import os, pathlib, sys, time
import ray
ray.init(log_to_driver=False)
where = ray.get_runtime_context().gcs_address
print("trains on", os.environ["CUDA_VISIBLE_DEVICES"], "at", where, int(ray.cluster_resources()["GPU"]), flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.2)
print("trained", ray.get(ray.remote(num_cpus=0)(lambda: 42).remote()), flush=True)
"""
STRANGER = (
    "until ray start --head --port 6379 --num-cpus 1 --object-store-memory 80000000 --disable-usage-stats "
    ">/dev/null 2>&1; do ray stop --force >/dev/null 2>&1; done; "
    "python3 -c 'import time; time.sleep(9999)' >/dev/null 2>&1 & echo $! $(pgrep -x 'raylet|gcs_server')"
)
# It prints no steps; whether its job counts as steps is not the question here.
LIVE = ("queued", "starting", "running", "stalled")
TRAINS = re.compile(r"trains on (\S+) at (\S+) (\d+)")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """The local host is a machine of its own with two GPUs. Yields what runs a command of sh there, as a stranger."""
    folder = Path(os.environ["RLX_CONFIG"])
    folder.mkdir(parents=True)
    entry = "{device: {kind: cuda, count: 2}}"
    (folder / "hosts.yaml").write_text(f"hosts: {{local: {entry}}}\n", encoding="utf-8")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with machine_with(tmp_path, monkeypatch, "nvidia0", "nvidia1", is_alone=True) as programs:
        own = {**os.environ, "PATH": f"{VENV}:{os.environ['PATH']}", "RAY_TMPDIR": str(link := short(tmp_path))}

        def told(command: str) -> str:
            words = [str(programs / "sh"), "-c", command]
            return subprocess.run(words, env=own, stdout=subprocess.PIPE, text=True, check=True, timeout=900).stdout

        yield told
        link.unlink()


def short(folder: Path) -> Path:
    """A name of this folder that is short enough for Ray's sockets."""
    link = Path("/tmp", f"s-{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(folder)
    return link


def launched(folder: Path, name: str) -> str:
    train = folder / "train.py"
    train.write_text(TRAIN, encoding="utf-8")
    path = folder / f"{name}.sh"
    path.write_text(SCRIPT.format(train=train, go=folder / f"go-{name}"), encoding="utf-8")
    words = ("launch", "--script", str(path), "--name", name, "--host", "local", "--devices", "1")
    return rlx(*words).stdout.strip()


def row_of(run: str) -> dict[str, Any]:
    (row,) = json.loads(rlx("status", run, "--json").stdout)["runs"]
    return dict(row)


def trains(run: str) -> tuple[str, str, str]:
    """Wait until it trains; return its device, the address of its Ray, and how many GPUs that offers."""
    deadline = time.monotonic() + 900
    while True:
        row = row_of(run)
        log = (Path(row["run_dir"]) / "latest/log").read_text(encoding="utf-8")
        if found := TRAINS.search(log):
            return found[1], found[2], found[3]
        assert row["state"] in LIVE and time.monotonic() < deadline, log
        time.sleep(1)


def finished(folder: Path, name: str, run: str) -> dict[str, Any]:
    (folder / f"go-{name}").touch()
    rlx("wait", run, code=None, timeout_s=500)
    row = row_of(run)
    assert "trained 42" in (Path(row["run_dir"]) / "latest/log").read_text(encoding="utf-8")
    return row


@pytest.mark.slow
def test_two_at_once_beside_a_stranger(tmp_path: Path, machine: Callable[[str], str]) -> None:
    others = machine(STRANGER).split()
    assert len(others) == 3
    first, second = launched(tmp_path, "first"), launched(tmp_path, "second")
    seen = [trains(run) for run in (first, second)]
    assert sorted(device for device, _, _ in seen) == ["0", "1"]
    assert len({address for _, address, _ in seen}) == 2 and not any(":6379" in address for _, address, _ in seen)
    assert {offered for _, _, offered in seen} == {"1"}
    assert finished(tmp_path, "second", second)["state"] == "finished"
    third = launched(tmp_path, "third")
    trains(third)
    rlx("stop", third, timeout_s=200)
    assert row_of(third)["state"] == "stopped"
    assert row_of(first)["state"] in LIVE
    row = finished(tmp_path, "first", first)
    assert row["state"] == "finished"
    machine(f"kill -0 {' '.join(others)}")
    attempt = Path(row["run_dir"], "latest")
    (job,) = map(json.loads, (attempt / "ray_jobs.jsonl").read_text(encoding="utf-8").splitlines())
    assert (job["submission_id"], job["own"]) == (first, True) and not job["address"].endswith(":8265")
    kept = [
        json.loads(line) for line in (attempt / "events/interventions.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [each["command"] for each in kept][:2] == ["pkill -9 python", "ray stop"]
    assert re.search(r"[1-9]\d* of others left alone", kept[0]["done"])
