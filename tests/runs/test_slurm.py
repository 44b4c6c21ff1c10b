"""Runs as jobs of a real Slurm: a login node, three nodes, and a folder that all of them see."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.hosts.node_plans import as_nodes
from rlx.model import LaunchPlan, RunState
from rlx.planning.preflight import sealed_plan
from rlx.runs import RunRef
from rlx.schedulers.slurm.settings import Slurm, batch_of
from tests.conftest import CASES
from tests.rig.slurm import NPUS, ROOT, Cluster
from tests.runs.laptop import GO, Laptop, go, is_up, job_of, launched, log, npu_toy, patiently, run_folder
from tests.runs.test_retry import training
from tests.runs.toys import FOREVER

HOST = ("hosts", "add", "hpc", "h1", "--slurm", "main", "--gres", f"npu:{NPUS}", "--root", ROOT)
TRAINING = f"cat {CASES / 'printed-config/log'} {CASES / 'logs/tiny-baseline/log'}"
# The smallest limit of Slurm is a minute. It looks twice a minute who has to be told before its next look: this run is
# told 25 to 55 s after its start, and one with a longer warning perhaps as soon as it starts.
SHORT = ("--sbatch", "time=1", "--sbatch", "warn=5")
TRAP = "trap 'echo told; exit 5' TERM\n"
TRAPS = f"{TRAP}echo up; while :; do sleep 0.1; done\n"


SHOWN = 'echo "seen $ASCEND_RT_VISIBLE_DEVICES leased $RLX_DEVICES."\n'


@pytest.fixture(scope="module")
def slurm(new_cluster: Callable[..., Cluster]) -> Cluster:
    return new_cluster(3)


@pytest.fixture
def laptop(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    monkeypatch.delenv("RLX_SSH_CONFIG", raising=False)
    found = Laptop(slurm.rig.client, tmp_path / "home")
    assert found.rlx(*HOST).code == 0
    yield found
    slurm.login.run("scancel", "--user=root")
    slurm.until_idle()


@pytest.mark.contract
def test_a_script_becomes_a_job_and_gets_its_verdict(slurm: Cluster, laptop: Laptop, tmp_path: Path) -> None:
    script = tmp_path / "run_grpo.sh"
    script.write_text(f"hostname; {GO}{TRAINING}\n", encoding="utf-8")
    said = laptop.rlx("launch", "--script", str(script), "--name", "mine", "--host", "hpc")
    (ref,) = laptop.runs()
    assert said.out.strip() == ref.run_id, said.err
    patiently(lambda: log(slurm.login, ref), "it runs")
    assert slurm.job(ref.run_id, "%j|%T") == f"{ref.run_id}|RUNNING"
    (row,) = laptop.rows().values()
    assert (row["state"], row["host"]) == ("starting", "hpc")
    go(slurm.login, ref)
    assert laptop.rlx("wait").code == 0
    (row,) = laptop.rows().values()
    assert row["state"] == "finished"
    assert "5 validations" in row["verdict"]["sentence"] and "step 20" in row["verdict"]["sentence"]
    assert laptop.rlx("logs", "--grep", "^h[234]$").out.strip() in {"h2", "h3", "h4"}
    assert "Slurm" in laptop.rlx("doctor", "hpc").out


def test_a_job_of_an_earlier_version_is_followed_and_stopped(slurm: Cluster, laptop: Laptop, tmp_path: Path) -> None:
    """Before 0.3, the file of a job had another name and no line with the scheduler's; a manifest had `slurm`."""
    ref = job_of(laptop, FOREVER)
    patiently(lambda: is_up(slurm.login, ref), "it runs")
    folder = run_folder(slurm.login, ref)
    scheduler, *options = (folder / "request").read_text(encoding="utf-8").splitlines(keepends=True)
    assert scheduler == "slurm\n"
    (folder / "request").unlink()
    (folder / "slurm").write_text("".join(options), encoding="utf-8")
    document = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    document["plan"]["site"]["slurm"] = document["plan"]["site"].pop("batch")["settings"]
    (folder / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
    other = Laptop(slurm.rig.client, tmp_path / "other")
    assert other.rlx("status", "--host", "hpc").code == 0
    assert [row["state"] for row in other.rows().values()] == ["starting"]
    assert other.rlx("stop", ref.run_id, "--grace", "1").code == 0
    assert [row["state"] for row in other.rows().values()] == ["stopped"]


def test_a_job_that_waits_says_why_and_is_stopped_before_it_starts(slurm: Cluster, laptop: Laptop) -> None:
    slurm.control("update", "nodename=h3,h4", "state=drain", "reason=test")
    try:
        first = job_of(laptop, GO, "first", NPUS)
        patiently(lambda: is_up(slurm.login, first), "the first runs")
        slurm.login.run("sbatch", "--job-name=a|b", "--output=/dev/null", "--nodelist=h2", "--wrap=sleep 300")
        slurm.until(lambda: "a|b|RUNNING" in slurm.squeue("%j|%T"), "somebody else has a part of the node")
        second = job_of(laptop, FOREVER, "second", 1)
        slurm.until(lambda: slurm.job(second.run_id, "%r") == "Resources", "the second waits for devices")
        patiently(lambda: re.search(r"Resources\b.*\d\d:\d\d", laptop.see(second).detail), "Slurm has planned it")
        row = laptop.rows()["second"]
        assert (row["state"], "Resources" in row["detail"]) == ("queued", True)
        (queue,) = json.loads(laptop.rlx("queue", "hpc", "--json").out)["hosts"]
        jobs = {job["run_id"] or job["name"]: job for job in queue["jobs"]}
        assert jobs.keys() == {first.run_id, second.run_id, "a|b"} and queue["held"] == []
        assert (jobs[first.run_id]["devices"], jobs[first.run_id]["where"]) == (f"npu:{NPUS}", "h2")
        assert (jobs[second.run_id]["waits"], jobs[second.run_id]["reason"]) == (True, "Resources")
        shown = laptop.rlx("queue").out
        assert re.search(rf"npu:{NPUS} +toy-first-s1 .* \d\d:\d\d", shown), shown
        assert re.search(r"npu:1 +toy-second-s1 .* [-: \d]+ +Resources", shown) and "1 node  (a|b)" in shown
        assert laptop.rlx("stop", second.run_id).code == 0
        assert laptop.see(second).state is RunState.STOPPED
        assert slurm.job(second.run_id) == "CANCELLED"
        assert laptop.see(first).state is RunState.STARTING
        go(slurm.login, first)
        assert laptop.ended(first).state is RunState.FINISHED
        assert "devices 0,1,2,3" in log(slurm.login, first)
    finally:
        slurm.control("update", "nodename=h3,h4", "state=resume")


def test_the_end_of_a_job_is_what_the_run_recorded(slurm: Cluster, laptop: Laptop) -> None:
    for name, partition, *more in (
        ("short", "main", *SHORT),
        ("low", "main", "--sbatch", "nodelist=h4"),
        ("high", "urgent", "--sbatch", "nodelist=h4"),
    ):
        assert laptop.rlx("hosts", "add", name, "h1", "--slurm", partition, *HOST[6:], *more).code == 0
    late = job_of(laptop, TRAPS, "late", host="short")
    preempted = job_of(laptop, TRAPS, "preempted", NPUS, host="low")
    stopped, cancelled = job_of(laptop, TRAPS, "stopped"), job_of(laptop, TRAPS, "cancelled")
    runs = {ref.arm: ref for ref in (late, preempted, stopped, cancelled)}
    patiently(lambda: all(is_up(slurm.login, ref) for ref in runs.values()), "they run")
    ours, few = job_of(laptop, SHOWN, "site", 2), job_of(laptop, SHOWN, "site-few", 3)
    urgent = job_of(laptop, GO, "urgent", NPUS, host="high")
    assert laptop.rlx("stop", stopped.run_id).code == 0
    slurm.login.run("scancel", slurm.job(cancelled.run_id, "%i"))
    patiently(lambda: is_up(slurm.login, urgent), "it has the devices of another")
    seen = {arm: laptop.ended(ref) for arm, ref in runs.items()}
    assert {arm: (end.state, end.exit_code) for arm, end in seen.items()} == {
        "late": (RunState.FAILED, 5),
        "preempted": (RunState.FAILED, 5),
        "stopped": (RunState.STOPPED, 5),
        "cancelled": (RunState.FAILED, 5),
    }
    reasons = {arm: re.findall(r"RLX59\d", end.detail) for arm, end in seen.items()}
    assert reasons == {"late": ["RLX590"], "preempted": ["RLX591"], "stopped": [], "cancelled": ["RLX594"]}
    number = slurm.job(late.run_id, "%i")
    assert re.search(rf"^rlx: .*\b{number}\b", log(slurm.login, late), re.MULTILINE)
    # One SIGTERM each, though several had reason to send one.
    assert [log(slurm.login, ref).count("told\n") for ref in (late, stopped)] == [1, 1]
    # What a plugin of the site has set stays as it is; the rig's TaskProlog is one for jobs whose names say so.
    assert laptop.ended(ours).state is RunState.FINISHED
    assert "seen 7,8 leased ." in log(slurm.login, ours)
    refused = laptop.ended(few)
    assert (refused.state, refused.exit_code, refused.detail[:6]) == (RunState.FAILED, 78, "RLX593")
    assert re.search(r"RLX593 .*\b3 npu .*\b2 of job \d+ on h[234]: 7,8$", log(slurm.login, few), re.MULTILINE)


def test_a_controller_that_is_away_costs_no_run(slurm: Cluster, laptop: Laptop) -> None:
    running, waiting = job_of(laptop, GO, "running"), job_of(laptop, GO, "waiting")
    patiently(lambda: is_up(slurm.login, running) and is_up(slurm.login, waiting), "both run")
    folder = run_folder(slurm.login, waiting)
    slurm.stop_controller()
    rows = laptop.rows()
    assert {arm: row["state"] for arm, row in rows.items()} == {"running": "starting", "waiting": "starting"}
    assert rows["running"]["detail"].startswith("Slurm ")
    go(slurm.login, running)
    assert laptop.ended(running).state is RunState.FINISHED
    slurm.start_controller()
    go(slurm.login, waiting)
    assert laptop.ended(waiting).state is RunState.FINISHED
    assert [path.name for path in (folder / "attempts").iterdir()] == ["1"]


def on_one_node(laptop: Laptop, plan: LaunchPlan) -> LaunchPlan:
    """As a run with one NPU of h4."""
    assert laptop.rlx("hosts", "add", "low", "h1", *HOST[4:], "--sbatch", "nodelist=h4").code == 0
    return replace(plan, site=laptop.site("low"), device_kind="npu", devices=1)


def test_a_preempted_run_goes_on_from_its_checkpoint_in_another_job(slurm: Cluster, laptop: Laptop) -> None:
    asked = {"name": "toy", "retry": {"times": 1, "on": ["RLX591"], "from_checkpoint": True}}
    # Its last words may come before those of its supervisor, and name another cause.
    last_words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    dies = f"trap 'echo \"{last_words}\"; exit 5' TERM; echo up; while :; do sleep 0.1; done"
    (ref,) = laptop.launch(on_one_node(laptop, training(how=dies, recipe=asked)))
    patiently(lambda: is_up(slurm.login, ref), "it is in the middle of a checkpoint")
    urgent = ("hosts", "add", "high", "h1", "--slurm", "urgent", *HOST[6:], "--sbatch", "nodelist=h4")
    assert laptop.rlx(*urgent).code == 0
    above = job_of(laptop, GO, "urgent", NPUS, host="high")
    patiently(lambda: is_up(slurm.login, above), "it has the devices of the other")
    ended = laptop.ended(ref)
    assert (ended.state, ended.detail[:6]) == (RunState.FAILED, "RLX591")
    assert last_words in log(slurm.login, ref)
    assert "RLX591 " in laptop.rlx("diagnose", ref.run_id).out
    go(slurm.login, above)
    waited = laptop.rlx("wait", ref.run_id)
    assert re.search(r"attempt 2 .*\(global_step_2\)", waited.err), waited
    row = laptop.rows(ref.run_id)["main"]
    assert (row["state"], row["attempt"], row["verdict"]["status"]) == ("finished", 2, "valid")
    assert "as 2" in log(slurm.login, ref)
    names = slurm.squeue("%k|%j|%T")
    assert f"rlx:{ref.run_id}@2|{ref.run_id}@2|COMPLETED" in names
    assert f"rlx:{ref.run_id}|{ref.run_id}|PREEMPTED" in names


def test_a_further_attempt_that_was_cut_off_or_stopped_is_no_second_job(slurm: Cluster, laptop: Laptop) -> None:
    (ref,) = laptop.launch(on_one_node(laptop, training(how="exit 3")))
    folder = run_folder(slurm.login, ref)
    assert laptop.ended(ref).exit_code == 3
    first, asked = (folder / "job").read_text(encoding="utf-8"), (folder / "request").read_text(encoding="utf-8")
    # The run could write there. What is asked of Slurm is what was launched.
    (folder / "request").write_text("--partition=main\n--array=1-9\n", encoding="utf-8")
    slurm.control("update", "partitionname=main", "state=drain")
    try:
        refused = laptop.rlx("retry", ref.run_id, "--from-checkpoint")
        assert refused.code == 1 and "sbatch: error" in refused.err, refused
        assert (folder / "job").read_text(encoding="utf-8") == first and (folder / "latest").readlink() == Path(
            "attempts/1"
        )
        assert (folder / "checkpoints/global_step_4").is_dir() and laptop.see(ref).attempt == 1
    finally:
        slurm.control("update", "partitionname=main", "state=up")
    slurm.control("update", "nodename=h4", "state=drain", "reason=test")
    try:
        assert laptop.rlx("retry", ref.run_id, "--from-checkpoint").code == 0
        number = (folder / "job").read_text(encoding="utf-8").split()[0]
        assert (folder / "request").read_text(encoding="utf-8") == asked
        # It had come as far as this a while ago: the job is there, and nobody noted its number.
        (folder / "job").unlink()
        os.utime(folder / "attempts/2/lineage.json", (0, 0))
        assert laptop.see(ref).state is RunState.LOST
        again = laptop.rlx("retry", ref.run_id)
        assert again.code == 1 and f"job {number} is PENDING" in again.err
        seen = laptop.see(ref)
        assert (seen.state, seen.attempt) == (RunState.QUEUED, 2)
        assert "attempt 2 " in laptop.rlx("retry", ref.run_id).err
        assert laptop.rlx("stop", ref.run_id).code == 0
        assert slurm.job(f"{ref.run_id}@2") == "CANCELLED"
    finally:
        slurm.control("update", "nodename=h4", "state=resume")
    assert laptop.rlx("retry", ref.run_id, "--from-checkpoint").code == 0
    assert laptop.ended(ref).state is RunState.FINISHED
    assert "global_step_2 as 3" in log(slurm.login, ref)
    assert [path.name for path in sorted((folder / "attempts").iterdir())] == ["1", "2", "3"]


def several(laptop: Laptop, script: str, arm: str, nodes: int = 2, count: int = 1) -> LaunchPlan:
    """A run of several nodes, whose script asks by RLX_NODE where it is."""
    return as_nodes([npu_toy(laptop.site("hpc"), script, count=count, arm=arm)], nodes)


TELL = 'echo "node $RLX_NODE of $RLX_NODES, head at $RLX_HEAD, token $(printf %s "$RLX_RAY_TOKEN" | sha256sum)"\n'
# A further node that follows its head, as one whose Ray has joined does.
HEAD = "head=$RLX_RUN_DIR/../${RLX_RUN%-node*}/attempts/1/state/exit\n"
FOLLOWS = HEAD + 'while [ "$RLX_NODE" != 0 ] && [ ! -e $head ]; do sleep 0.1; done; [ "$RLX_NODE" = 0 ] || exit 0\n'


def test_the_nodes_of_a_run_are_one_job_with_devices_of_their_own(slurm: Cluster, laptop: Laptop) -> None:
    other = job_of(laptop, GO, "other", 2)
    patiently(lambda: is_up(slurm.login, other), "it has two devices of one node")
    ref = launched(laptop, several(laptop, TELL + FOLLOWS + GO, "main", nodes=3, count=2))
    nodes = nodes_of(laptop, ref)
    patiently(lambda: all("token" in log(slurm.login, node) for node in nodes), "all nodes run")
    assert slurm.squeue("%k|%D").count(f"rlx:{ref.run_id}|3") == 1
    assert laptop.rows()["main"]["detail"] == ""
    go(slurm.login, ref)
    assert {laptop.ended(node).state for node in nodes} == {RunState.FINISHED}
    told = [log(slurm.login, node).splitlines() for node in nodes]
    assert [lines[1] for lines in told] == ["devices 2,3", "devices 0,1", "devices 0,1"]
    assert [lines[2].partition(" of ")[0] for lines in told] == ["node 0", "node 1", "node 2"]
    (said,) = {lines[2].partition(" of ")[2] for lines in told}
    assert re.fullmatch(r"3, head at 10\.77\.0\.2:2\d{4}, token (?!e3b0c442)[0-9a-f]{64}  -", said)
    # Another laptop learns of all of it from the login node; for it, too, it is one run.
    another = {"RLX_HOME": str(laptop.home / "another laptop")}
    found = json.loads(laptop.rlx("status", "--json", "--host", "hpc", env=another).out)["runs"]
    assert [row["run_id"] for row in found if row["run_id"].startswith(ref.run_id)] == [ref.run_id]
    assert laptop.rlx("prune", ref.run_id, "--what", "runs", "-y").out.count(ref.run_id) == 3
    assert not [*slurm.login.path(f"{ROOT}/runs").glob(f"{ref.run_id}*")]


FAILS = '[ "$RLX_NODE" = 0 ] || { echo boom; exit 3; }\n'
HEAD_ENDS = '[ "$RLX_NODE" != 0 ] || exit 4\n'


def test_the_end_of_one_node_is_the_end_of_the_job(slurm: Cluster, laptop: Laptop, wording: SnapshotAssertion) -> None:
    """Also where no Ray notices it, and where one node alone has not the devices that it needs."""
    failing = launched(laptop, several(laptop, TRAP + FAILS + TRAPS, "failing"))
    few = launched(laptop, several(laptop, TRAPS, "few", count=2))
    head_ends = launched(laptop, several(laptop, HEAD_ENDS + TRAPS, "ends"))
    batch = launched(laptop, several(laptop, SHOWN, "batch", count=2))
    killed = launched(laptop, several(laptop, TRAPS, "killed"))
    (part,) = laptop.workers(killed)
    patiently(lambda: is_up(slurm.login, part), "it runs on both nodes")
    pid, _, _, name, *_ = (
        (run_folder(slurm.login, part) / "attempts/1/state/supervisor").read_text(encoding="utf-8").split()
    )
    slurm.rig.host(name).run("kill", "-9", pid)
    ends = {ref.arm: laptop.ended(ref) for ref in (failing, few, head_ends, killed)}
    assert re.search(rf"^rlx: node 1 \({name}\) .*: up$", log(slurm.login, killed), re.MULTILINE)
    assert {arm: (end.state, end.exit_code) for arm, end in ends.items()} == {
        "killed": (RunState.FAILED, 5),
        "failing": (RunState.FAILED, 5),
        "few": (RunState.FAILED, 5),
        "ends": (RunState.FAILED, 4),
    }
    assert ends["failing"].detail == wording
    assert re.search(r"rlx: node 1 \(h[34]\) .*\b3: boom", log(slurm.login, failing))
    assert ends["few"].detail.startswith("RLX593")
    assert re.search(r"\b78: rlx: RLX593 .*\b2 npu ", log(slurm.login, few))
    (left,) = laptop.workers(head_ends)
    assert laptop.ended(left).detail == wording
    # What the site set for the script alone means nothing on another node.
    shown = [log(slurm.login, node) for node in nodes_of(laptop, batch) if laptop.ended(node)]
    assert ["seen 7,8 leased ." in shown[0], "seen  leased " in shown[1]] == [True, True], shown
    assert all(not (run_folder(slurm.login, node) / "env").exists() for node in nodes_of(laptop, few))


def test_all_nodes_of_a_job_are_told_of_its_end(slurm: Cluster, laptop: Laptop) -> None:
    slow = "trap 'sleep 2; echo told; exit 5' TERM; echo up; while :; do sleep 0.1; done\n"
    runs = {arm: launched(laptop, several(laptop, slow, arm)) for arm in ("cancelled", "stopped", "by-node")}
    given_up = launched(laptop, several(laptop, slow, "given-up", nodes=3))
    both = {arm: nodes_of(laptop, ref) for arm, ref in {**runs, "given-up": given_up}.items()}
    patiently(lambda: all(is_up(slurm.login, node) for nodes in both.values() for node in nodes), "all run")
    slurm.login.run("scancel", slurm.job(runs["cancelled"].run_id, "%i"))
    stopped = laptop.rlx("stop", "stopped")
    assert (stopped.code, stopped.out.count("stopped; Slurm job")) == (0, 1), stopped.err
    assert laptop.rlx("stop", both["by-node"][1].run_id).code == 0
    slurm.control("update", "nodename=h4", "state=down", "reason=test")
    seen = {arm: [laptop.ended(node) for node in nodes] for arm, nodes in both.items()}
    assert {arm: {end.state for end in ends} for arm, ends in seen.items()} == {
        "cancelled": {RunState.FAILED},
        "stopped": {RunState.STOPPED},
        "by-node": {RunState.STOPPED},
        "given-up": {RunState.FAILED},
    }
    assert all(end.detail.startswith("RLX594") for end in seen["cancelled"])
    assert all(end.detail.startswith("RLX592 ") for end in seen["given-up"])
    assert {log(slurm.login, node).count("told\n") for arm in ("cancelled", "stopped") for node in both[arm]} == {1}
    slurm.until_idle()
    assert slurm.job(given_up.run_id, "%T|%N") == "NODE_FAIL|h[2-4]"
    # One that waits has no node yet.
    slurm.until_idle()
    slurm.control("update", "nodename=h3,h4", "state=drain", "reason=test")
    try:
        waiting = launched(laptop, several(laptop, slow, "waiting"))
        assert laptop.rows()["waiting"]["state"] == "queued"
        assert laptop.rlx("stop", "waiting").code == 0
        assert {laptop.see(node).state for node in nodes_of(laptop, waiting)} == {RunState.STOPPED}
    finally:
        slurm.control("update", "nodename=h3,h4", "state=resume")


def test_several_nodes_that_slurm_refuses_leave_nothing(slurm: Cluster, laptop: Laptop) -> None:
    site = laptop.site("hpc")
    greedy = replace(site, batch=batch_of(Slurm("main", f"npu:{NPUS}", {"mem": "900T"})))
    plan = as_nodes([npu_toy(greedy, FOREVER, arm="refused")], 2)
    with pytest.raises(RlxError, match="sbatch: error"):
        laptop.launch(plan)
    assert laptop.runs() == ()
    assert not [*slurm.login.path(f"{ROOT}/runs").glob("*-refused-*")]


def nodes_of(laptop: Laptop, head: RunRef) -> list[RunRef]:
    """The parts of a run on its nodes, the head first."""
    return [head, *laptop.workers(head)]


def test_a_launch_that_was_cut_off_finds_its_job_again(slurm: Cluster, laptop: Laptop) -> None:
    plan = sealed_plan(npu_toy(laptop.site("hpc"), GO))
    ref = launched(laptop, plan)
    patiently(lambda: is_up(slurm.login, ref), "it runs")
    number = slurm.job(ref.run_id, "%i")
    # It had come as far as this: the job is there, and nobody noted its number.
    folder = run_folder(slurm.login, ref)
    (folder / "job").unlink()
    (folder / "attempts/1/state/started").rename(folder / "moved")
    with sqlite3.connect(laptop.home / "index.db") as index:
        index.execute("UPDATE launches SET resolved = 0")
    again = laptop.rlx("launch", "--plan", laptop.write_plans(plan))
    assert (again.code, again.out.strip()) == (0, ref.run_id), again.err
    assert (folder / "job").read_text(encoding="utf-8").split()[0] == number
    assert slurm.squeue("%k").count(f"rlx:{ref.run_id}") == 1
    (folder / "moved").rename(folder / "attempts/1/state/started")
    go(slurm.login, ref)
    assert laptop.ended(ref).state is RunState.FINISHED
