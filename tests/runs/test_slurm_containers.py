"""Runs as jobs of a real Slurm, each in a container of its own that its job makes with a real Docker Engine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.hosts import user_file
from rlx.hosts.node_plans import as_nodes
from rlx.model import Image, RunState
from rlx.runs import RunRef
from tests.conftest import CASES
from tests.rig import Host
from tests.rig.capabilities import RigUnavailable
from tests.rig.docker import IMAGE
from tests.rig.fixtures import leave_out
from tests.rig.machine import python_folders
from tests.rig.slurm import NPUS, ROOT, Cluster
from tests.runs.laptop import GO, Laptop, go, is_up, job_of, launched, log, npu_toy, patiently, run_folder

# A second SIGTERM would be told, too.
TRAPS = "trap 'echo told; n=1' TERM; echo up; while [ ! \"$n\" ]; do sleep 0.1; done; sleep 1; exit 5\n"
IGNORES = "trap '' TERM\n"
DEAF = f"{IGNORES}echo up; while :; do sleep 0.1; done\n"


@pytest.fixture(scope="module")
def slurm(new_cluster: Callable[..., Cluster]) -> Cluster:
    started = new_cluster(2)
    try:
        assert all(node.docker for node in started.nodes)
    except RigUnavailable as reason:
        leave_out(reason)
    # As from a registry: one and the same on all nodes.
    first, second = started.nodes
    second.run("docker", "load", stdin=first.run("docker", "save", IMAGE).stdout)
    return started


@pytest.fixture
def laptop(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    monkeypatch.delenv("RLX_SSH_CONFIG", raising=False)
    found = Laptop(slurm.rig.client, tmp_path / "home")
    write_entry()
    yield found
    slurm.login.run("scancel", "--user=root")
    slurm.until_idle()


def write_entry(
    host: str = "hpc", *, options: dict[str, str] | None = None, ssh: str = "h1", root: str = ROOT, **image: Any
) -> None:
    """The entry of the cluster, with an image of which each job makes its container."""
    file = user_file()
    known = json.loads(file.read_text(encoding="utf-8"))["hosts"] if file.exists() else {}
    slurm = {"partition": "main", "gres": f"npu:{NPUS}", **(options or {})}
    entry = {"name": IMAGE, "mounts": ["/usr:/usr:ro"], **image}
    known[host] = {"ssh": ssh, "root": root, "slurm": slurm, "image": entry}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"hosts": known}), encoding="utf-8")


def containers(host: Host) -> list[str]:
    return sorted(host.run("docker", "ps", "-a", "--format", "{{.Names}}").stdout.decode().split())


def name_of(slurm: Cluster, ref: RunRef) -> str:
    """Of the container of its job."""
    return f"rlx-job-{ref.run_id}-{slurm.job(ref.run_id, '%i')}"


def node_of(slurm: Cluster, ref: RunRef) -> Host:
    return slurm.rig.host(slurm.job(ref.run_id, "%N"))


def left_on(host: Host, ref: RunRef) -> list[str]:
    """The pids of processes there that carry the mark of the run."""
    marked = f"grep -lzxF RLX_RUN={ref.run_id} /proc/[0-9]*/environ"
    return host.run("sh", "-c", marked, check=False).stdout.decode().split()


INSIDE = """
echo "sees $(ls /dev | grep -x 'davinci[0-9]*' | paste -s -d ' ') leased $RLX_DEVICES."
echo "user $(id -u):$(id -g) HOME $HOME slurm ${SLURM_JOB_ID-none}"
"""


def test_a_script_gets_its_verdict_and_its_image(
    slurm: Cluster, laptop: Laptop, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    """The login node has no docker at all; what it cannot see, nobody pretends to have seen."""
    assert slurm.login.run("docker", "version", check=False).returncode
    script = tmp_path / "run_grpo.sh"
    script.write_text(f"cat {CASES / 'printed-config/log'} {CASES / 'logs/tiny-baseline/log'}\n", encoding="utf-8")
    mounts = ["/usr:/usr:ro", f"{CASES}:{CASES}:ro", *(f"{folder}:{folder}:ro" for folder in python_folders())]
    write_entry(mounts=mounts)
    doctor = laptop.rlx("doctor", "hpc").out
    assert any("RLX589" in line and IMAGE in line for line in doctor.splitlines())
    assert json.loads(laptop.rlx("doctor", "hpc", "--json").out)["facts"]["container"] is None
    assert "Python" not in doctor
    refused = laptop.rlx("hosts", "start", "hpc")
    assert refused.code == 2 and refused.err == wording
    write_entry("other", name="rlx-rig:other")
    launch = ("launch", "--script", str(script), "--name", "mine", "--arm")
    said = laptop.rlx(*launch, "entry", "--host", "hpc", "--dry-run")
    assert any(f"{ROOT} on hpc" in line and IMAGE in line for line in said.out.splitlines())
    for arm, words in (("entry", ("hpc",)), ("named", ("other", "--image", IMAGE)), ("missing", ("other",))):
        said = laptop.rlx(*launch, arm, "--host", *words)
        assert said.code == 0, said.err
    runs = {ref.arm: ref for ref in laptop.runs()}
    assert all(laptop.ended(ref) for ref in runs.values())
    rows = laptop.rows("--all")
    # By its name alone there is no /usr in it, and so no shell.
    assert {arm: row["state"] for arm, row in rows.items()} == {
        "entry": "finished",
        "named": "failed",
        "missing": "failed",
    }
    assert "5 validations" in rows["entry"]["verdict"]["sentence"] and "step 20" in rows["entry"]["verdict"]["sentence"]
    assert {arm: rows[arm]["detail"][:6] for arm in ("named", "missing")} == {"named": "RLX589", "missing": "RLX589"}
    assert IMAGE in log(slurm.login, runs["named"]) and "rlx-rig:other" in log(slurm.login, runs["missing"])
    said = log(slurm.login, runs["entry"])
    folder = run_folder(slurm.login, runs["entry"])
    image = (folder / "image").read_text(encoding="utf-8").strip()
    assert re.search(rf"^rlx: .*{IMAGE} on h[23]: {image}$", said, re.MULTILINE)
    assert (
        json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["plan"]["site"]["job_image"]["name"] == IMAGE
    )


def test_a_plan_that_asks_docker_for_more_is_refused(laptop: Laptop, wording: SnapshotAssertion) -> None:
    """It may come from a file."""
    site = laptop.site("hpc")
    for image in (
        Image("--privileged"),
        Image(IMAGE, mounts=("/:/host:rshared",)),
        Image(IMAGE, user="0 --privileged"),
    ):
        with pytest.raises(RlxError) as caught:
            laptop.launch(npu_toy(replace(site, job_image=image), GO))
        assert caught.value.message == wording
    with pytest.raises(RlxError) as caught:
        laptop.launch(npu_toy(replace(site, batch=None), GO))
    assert caught.value.message == wording
    (script := laptop.home / "own.sh").write_text("true\n", encoding="utf-8")
    refused = laptop.rlx("launch", "--script", str(script), "--name", "mine", "--host", "hpc", "--container", "rl")
    assert refused.code == 2 and refused.err == wording
    assert laptop.runs() == ()


def test_each_job_has_a_container_with_its_own_devices(slurm: Cluster, laptop: Laptop) -> None:
    node = slurm.nodes[0]
    neighbour = node.docker.container("neighbour")
    before = node.run("docker", "inspect", neighbour.id).stdout
    write_entry(options={"nodelist": node.name, "mem": "700M"})
    # As where Slurm binds jobs to CPUs.
    (slurmd,) = (pid for pid, name in node.processes().items() if name == "slurmd")
    node.run("taskset", "--all-tasks", "--cpu-list", "--pid", "0", str(slurmd))
    first, second = job_of(laptop, INSIDE + GO, "first", 2), job_of(laptop, INSIDE + GO, "second", 2)
    patiently(lambda: is_up(slurm.login, first) and is_up(slurm.login, second), "both run")
    assert containers(node) == ["neighbour", *sorted(name_of(slurm, ref) for ref in (first, second))]
    seen = json.loads(node.run("docker", "inspect", name_of(slurm, first)).stdout)[0]
    assert seen["HostConfig"]["Memory"] == 700 << 20 and seen["HostConfig"]["AutoRemove"] is True
    assert seen["HostConfig"]["CpusetCpus"] == ("0" if (os.cpu_count() or 1) > 1 else "")
    assert seen["HostConfig"]["NetworkMode"] == "host" and seen["HostConfig"]["Init"] is True
    rows = laptop.rows()
    assert {arm: row["state"] for arm, row in rows.items()} == {"first": "starting", "second": "starting"}
    for ref in (first, second):
        go(slurm.login, ref)
        assert laptop.ended(ref).state is RunState.FINISHED
    said = [log(slurm.login, ref) for ref in (first, second)]
    assert "sees davinci0 davinci1 leased 0,1." in said[0]
    # The driver counts from 0 what a container has.
    assert "sees davinci2 davinci3 leased 0,1." in said[1]
    assert "user 0:0 HOME /root slurm none" in said[0]
    image = node.run("docker", "image", "inspect", "-f", "{{.Id}}", IMAGE).stdout.decode().strip()
    assert (run_folder(slurm.login, first) / "image").read_text(encoding="utf-8").strip() == image
    assert f"{IMAGE} on {node.name}: {image}" in said[0]
    patiently(lambda: containers(node) == ["neighbour"], "both are gone")
    assert node.run("docker", "inspect", neighbour.id).stdout == before
    neighbour.remove()
    node.run("taskset", "--all-tasks", "--cpu-list", "--pid", f"0-{(os.cpu_count() or 1) - 1}", str(slurmd))


def test_a_container_ends_however_its_job_does(slurm: Cluster, laptop: Laptop) -> None:
    """Also one whose script, docker's command or whole job is killed: what is in it is no process of Slurm's."""
    # Told at least 25 s after its start (see test_slurm.py): six containers are made at once.
    write_entry("short", options={"time": "1", "warn": "5"})
    runs = {arm: job_of(laptop, TRAPS, arm) for arm in ("stopped", "cancelled", "script", "client")}
    runs |= {"killed": job_of(laptop, DEAF, "killed"), "late": job_of(laptop, TRAPS, "late", host="short")}
    patiently(lambda: all(is_up(slurm.login, ref) for ref in runs.values()), "all run")
    where = {arm: node_of(slurm, ref) for arm, ref in runs.items()}
    assert all(left_on(where[arm], ref) for arm, ref in runs.items())
    assert laptop.rlx("stop", runs["stopped"].run_id).code == 0
    slurm.login.run("scancel", slurm.job(runs["cancelled"].run_id, "%i"))
    slurm.login.run("scancel", "--full", "--signal=KILL", slurm.job(runs["killed"].run_id, "%i"))
    supervisor = (
        (run_folder(slurm.login, runs["script"]) / "attempts/1/state/supervisor").read_text(encoding="utf-8").split()[0]
    )
    where["script"].run("kill", "-s", "KILL", supervisor)
    (client,) = clients(where["client"], runs["client"])
    where["client"].run("kill", "-s", "KILL", str(client))
    ends = {arm: laptop.ended(ref) for arm, ref in runs.items() if arm not in ("killed", "script")}
    for arm, ref in runs.items():
        patiently(lambda arm=arm, ref=ref: not left_on(where[arm], ref), f"no process of {arm} is left")
        patiently(lambda arm=arm, ref=ref: name_of(slurm, ref) not in containers(where[arm]), f"{arm} is gone")
    assert {arm: (end.state, end.exit_code, end.detail[:6]) for arm, end in ends.items()} == {
        "stopped": (RunState.STOPPED, 5, ""),
        "cancelled": (RunState.FAILED, 5, "RLX594"),
        "late": (RunState.FAILED, 5, "RLX590"),
        "client": (RunState.FAILED, 137, "ended "),
    }
    # Slurm had to kill this one: it has recorded no end.
    assert [
        (run_folder(slurm.login, runs["killed"]) / "attempts/1/state" / name).exists() for name in ("cut", "exit")
    ] == [True, False]
    assert {log(slurm.login, runs[arm]).count("told\n") for arm in ("stopped", "cancelled", "late")} == {1}


def test_a_daemon_that_crashes_or_restarts_ends_its_runs(slurm: Cluster, laptop: Laptop) -> None:
    """The container of a crashed one runs on without it, with the devices of the job."""
    node = slurm.nodes[0]
    write_entry(options={"nodelist": node.name})
    for arm, end in (("crashed", node.docker.kill), ("restarted", node.docker.stop)):
        ref = job_of(laptop, TRAPS, arm)
        patiently(lambda ref=ref: is_up(slurm.login, ref), "it runs")
        end()
        assert laptop.ended(ref).state is RunState.FAILED
        patiently(lambda ref=ref: not left_on(node, ref), "no process is left")
        patiently(lambda ref=ref: slurm.job(ref.run_id) == "FAILED", "the job is over")
        node.docker.start()
        patiently(lambda: containers(node) == [], "nor a container")


def clients(host: Host, ref: RunRef) -> list[int]:
    """The docker commands that hold the container of this run."""
    return [pid for pid, name in host.processes().items() if name == "docker" and ref.run_id in host.command_line(pid)]


def test_a_node_that_can_make_no_container_says_why(slurm: Cluster, laptop: Laptop) -> None:
    write_entry("none", name="rlx-rig:never")
    write_entry("mounted", mounts=["/usr:/usr:ro", "/data/nowhere:/data"])
    write_entry("empty", mounts=[])
    node = slurm.nodes[0]
    write_entry("down", options={"nodelist": node.name})
    others = {arm: job_of(laptop, GO, arm, host=arm) for arm in ("none", "mounted", "empty")}
    ends = {arm: laptop.ended(ref) for arm, ref in others.items()}
    node.docker.stop()
    others["down"] = job_of(laptop, GO, "down", host="down")
    ends["down"] = laptop.ended(others["down"])
    node.docker.start()
    assert {(end.state, end.detail[:6]) for end in ends.values()} == {(RunState.FAILED, "RLX589")}
    said = {arm: log(slurm.login, ref) for arm, ref in others.items()}
    for arm, facts in {
        "none": ("docker pull rlx-rig:never",),
        "mounted": ("/data/nowhere",),
        "empty": ("rlx-rig:latest", "(127)"),
        "down": ("docker", node.name),
    }.items():
        assert any("RLX589" in line and all(fact in line for fact in facts) for line in said[arm].splitlines()), said
    patiently(lambda: [containers(each) for each in slurm.nodes] == [[], []], "none is left")
    assert not slurm.nodes[0].path("/data").exists()


def test_what_it_writes_belongs_to_who_submitted_it(slurm: Cluster, laptop: Laptop) -> None:
    """Whose home is not in the image, and who may use docker by a group alone."""
    for host in slurm.rig.hosts:
        host.add_user("ada", 2001, docker=True)
        host.add_user("bob", 2002)
        host.run("sed", "-i", "$ a lab:x:3000:ada", "/etc/group")
    for name, uid in (("ada", 2001), ("bob", 2002)):
        slurm.login.run("install", "-d", "-o", str(uid), "-g", str(uid), f"/srv/shared/{name}")
        write_entry(name, ssh=f"{name}@h1", root=f"/srv/shared/{name}/rlx")
    script = INSIDE + 'echo "groups $(id -G)"; touch $RLX_RUN_DIR/checkpoints/made; mkdir ~/cache\n'
    ref, denied = job_of(laptop, script, "main", host="ada"), job_of(laptop, script, "denied", host="bob")
    assert laptop.ended(ref).state is RunState.FINISHED, log(slurm.login, ref)
    assert "user 2001:2001 HOME /tmp" in log(slurm.login, ref)
    assert re.search(r"^groups 2001 \d+ 3000$", log(slurm.login, ref), re.MULTILINE)
    assert (run_folder(slurm.login, ref) / "checkpoints/made").stat().st_uid == 2001
    assert laptop.ended(denied).detail.startswith("RLX589")
    assert re.search(r"^rlx: RLX589 .*\bbob\b.*\bh[23]\b", log(slurm.login, denied), re.MULTILINE)


FAILS = '[ "$RLX_NODE" = 0 ] || { echo boom; exit 3; }\n'
FOLLOWS = """
head=$RLX_RUN_DIR/../${RLX_RUN%-node*}/attempts/1/state/exit
echo "node $RLX_NODE of $RLX_NODES at $RLX_HEAD"
while [ "$RLX_NODE" != 0 ] && [ ! -e $head ]; do sleep 0.1; done; [ "$RLX_NODE" = 0 ] || exit 0
"""


def test_each_node_of_a_run_makes_its_own(slurm: Cluster, laptop: Laptop, wording: SnapshotAssertion) -> None:
    plan = as_nodes([npu_toy(laptop.site("hpc"), INSIDE + FOLLOWS + GO, count=2)], 2)
    ref = launched(laptop, plan)
    nodes = [ref, *laptop.workers(ref)]
    patiently(lambda: all("at 10" in log(slurm.login, node) for node in nodes), "both run")
    assert [len(containers(host)) for host in slurm.nodes] == [1, 1]
    go(slurm.login, ref)
    assert {laptop.ended(node).state for node in nodes} == {RunState.FINISHED}
    # A node that fails ends the head, also one that does not listen.
    failing = launched(laptop, as_nodes([npu_toy(laptop.site("hpc"), IGNORES + FAILS + DEAF, arm="failing")], 2))
    end = laptop.ended(failing)
    assert (end.state, end.exit_code, end.detail) == (RunState.FAILED, 137, wording)
    assert re.search(r"rlx: node 1 \(h3\) .*\b3: boom", log(slurm.login, failing))
    # Somebody has built the image anew on one node.
    second = slurm.nodes[1]
    own = second.run("docker", "image", "inspect", "-f", "{{.Id}}", IMAGE).stdout.decode().strip()
    second.run("docker", "tag", second.docker.build("ENV A=1"), IMAGE)
    other = launched(laptop, plan)
    assert laptop.ended(other).detail.startswith("RLX589")
    assert re.search(rf"RLX589 .*{IMAGE}.*\bh3\b", log(slurm.login, other))
    second.run("docker", "tag", own, IMAGE)
    patiently(lambda: [containers(host) for host in slurm.nodes] == [[], []], "all are gone")


def test_another_attempt_has_a_container_of_its_own(slurm: Cluster, laptop: Laptop) -> None:
    ref = job_of(laptop, '[ "${RLX_ATTEMPT_DIR##*/}" = 2 ] || exit 3\n' + INSIDE)
    assert laptop.ended(ref).exit_code == 3
    assert laptop.rlx("retry", ref.run_id).code == 0
    seen = laptop.ended(ref)
    assert (seen.state, seen.attempt) == (RunState.FINISHED, 2)
    said = log(slurm.login, ref)
    assert f"{IMAGE} on h" in said and "leased 0." in said and "slurm none" in said
    slurm.until_idle()
    assert not [name for node in slurm.nodes for name in containers(node) if ref.run_id in name]
