"""Runs as jobs of a real Slurm, each in a container of its own that its job makes with a real Docker Engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.plan import LaunchPlan, RunState
from rlx.preflight.preflight import checked
from rlx.runs import RunRef
from tests.rig import Host
from tests.rig.capabilities import RigUnavailable
from tests.rig.docker import IMAGE
from tests.rig.fixtures import leave_out
from tests.rig.slurm import NPUS, ROOT, Cluster, cluster
from tests.runs.laptop import GO, Laptop, go, is_up, log, npu_toy, patiently, run_folder

TRAPS = "trap 'echo told; exit 5' TERM; while :; do sleep 0.1; done\n"


@pytest.fixture(scope="module")
def slurm(rig_switch: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        with cluster(2, rig_switch, [tmp_path_factory.getbasetemp()]) as started:
            for node in started.nodes:
                _ = node.docker
            yield started
    except RigUnavailable as reason:
        leave_out(reason)


@pytest.fixture
def laptop(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    monkeypatch.delenv("RLX_SSH_CONFIG", raising=False)
    found = Laptop(slurm.rig.client, tmp_path / "home")
    write_entry(found)
    yield found
    slurm.login.run("scancel", "--user=root")
    slurm.until_idle()


def write_entry(laptop: Laptop, name: str = "hpc", *, options: dict[str, str] | None = None, **image: Any) -> None:
    """The entry of the cluster, with an image of which each job makes its container."""
    file = laptop.home / "hosts.yaml"
    known = json.loads(file.read_text())["hosts"] if file.exists() else {}
    slurm = {"partition": "main", "gres": f"npu:{NPUS}", **(options or {})}
    entry = {"name": IMAGE, "mounts": ["/usr:/usr:ro"], **image}
    known[name] = {"ssh": "h1", "root": ROOT, "slurm": slurm, "image": entry}
    file.write_text(json.dumps({"hosts": known}))


def launched(laptop: Laptop, plan: LaunchPlan) -> RunRef:
    """Started by the command line, as a person does."""
    said = laptop.rlx("launch", "--plan", laptop.write_plans(checked(plan)))
    assert said.code == 0, said.err
    return next(ref for ref in laptop.runs() if ref.run_id == said.out.strip())


def job_of(laptop: Laptop, script: str, arm: str = "main", count: int = 1, host: str = "hpc") -> RunRef:
    return launched(laptop, npu_toy(laptop.site(host), script, count=count, arm=arm))


def containers(host: Host) -> list[str]:
    return sorted(host.run("docker", "ps", "-a", "--format", "{{.Names}}").stdout.decode().split())


def node_of(slurm: Cluster, ref: RunRef) -> Host:
    return slurm.rig.host(slurm.job(ref.run_id, "%N"))


def left_on(host: Host, ref: RunRef) -> list[str]:
    """The pids of processes there that carry the mark of the run."""
    marked = f"grep -lzxF RLX_RUN={ref.run_id} /proc/[0-9]*/environ"
    return host.run("sh", "-c", marked, check=False).stdout.decode().split()


INSIDE = """
echo "sees $(ls /dev | grep -x 'davinci[0-9]*' | paste -s -d ' ') leased $RLX_DEVICES."
echo "init $(tr '\\0' ' ' </proc/1/cmdline)"
echo "host $(hostname) user $(id -u) HOME $HOME slurm ${SLURM_JOB_ID-none}"
"""


def test_a_job_runs_in_its_own_container(slurm: Cluster, laptop: Laptop) -> None:
    ref = job_of(laptop, INSIDE + GO, count=2)
    patiently(lambda: is_up(slurm.login, ref), log(slurm.login, ref))
    node = node_of(slurm, ref)
    assert containers(node) == [f"rlx-job-{ref.run_id}"]
    go(slurm.login, ref)
    seen = laptop.ended(ref)
    print(log(slurm.login, ref))
    assert seen.state is RunState.FINISHED
    assert containers(node) == []
    said = log(slurm.login, ref)
    assert "sees davinci0 davinci1 leased 0,1." in said
    assert "slurm none" in said and "init /sbin/docker-init" in said
    assert (run_folder(slurm.login, ref) / "image").read_text().startswith("sha256:")
