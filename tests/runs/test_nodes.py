"""Runs of several nodes: a part on each host, launched, seen and stopped as one run. No Ray is in between here."""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.api.reporting import device_reports
from rlx.cli.frame.app import command_line
from rlx.compare.device_report import device_lines
from rlx.errors import RlxError, UsageError
from rlx.evidence import VerdictStatus
from rlx.hosts.node_plans import as_nodes
from rlx.model import Cluster, LaunchPlan, Place, RunState, Severity, Site
from rlx.planning.preflight import sealed_plan
from rlx.runs import Index, Observation, RunRef, launch, resolve, take_snapshots
from rlx.runs.judging.judge_runs import judge_runs
from rlx.runs.status.judged_snapshots import judged_snapshots
from rlx.schedulers.slurm.settings import Slurm, batch_of
from tests.cli.support import trust_project
from tests.rig import Host, Rig
from tests.runs.toys import FOREVER, ended, home, is_over, log_of, start, toy_plan, until

T = TypeVar("T")

TELL = 'echo "node $RLX_NODE of $RLX_NODES, head at $RLX_HEAD, token $(printf %s "$RLX_RAY_TOKEN" | sha256sum)"\n'
TOLD = r"of 2, head at 10\.77\.0\.1:2\d{4}, token (?!e3b0c442)[0-9a-f]{64}  -"


class Pair:
    """A client and two hosts; h1 is the head of all runs. Calls of rlx are made as the client."""

    def __init__(self, rig: Rig) -> None:
        self.rig, (self.h1, self.h2) = rig, rig.hosts

    def plan(self, head: str, worker: str = "", arm: str = "main") -> LaunchPlan:
        scripts = {self.h1: head, self.h2: worker or head}
        plans = [replace(toy_plan(TELL + script, arm=arm), site=site(host)) for host, script in scripts.items()]
        # Without a recipe it would be judged like a log that somebody took in.
        return replace(as_nodes(plans, 2), recipe={"name": "toy"})

    def call(self, action: Callable[[Index], T]) -> T:
        return self.rig.client.call(lambda: action(Index(home())))

    def launch(self, *plans: LaunchPlan) -> tuple[RunRef, ...]:
        return self.call(lambda _: launch([sealed_plan(plan) for plan in plans], {}, home()).runs)

    def see(self, ref: RunRef) -> Observation:
        return self.call(lambda index: take_snapshots(index, [ref])[ref.run_id].observation)

    def worker(self, head: RunRef) -> RunRef:
        (worker,) = self.call(lambda index: index.workers([head]))
        return worker

    def folder(self, ref: RunRef) -> Path:
        return (self.h2 if ref.node else self.h1).path(f"/root/rlx/runs/{ref.run_id}")

    def log(self, ref: RunRef) -> str:
        return (self.folder(ref) / "attempts/1/log").read_text(encoding="utf-8")

    def ended(self, ref: RunRef) -> Observation:
        return until(lambda: seen if is_over(seen := self.see(ref)) else None, f"{ref.run_id} ends")

    def until_both_run(self, head: RunRef) -> None:
        worker = self.worker(head)
        until(lambda: "token" in self.log(worker) and "token" in self.log(head), "both nodes run", 60)


def site(host: Host) -> Site:
    return Site(Place(host.name, host.name), address=host.address)


@pytest.fixture
def pair(new_rig: Callable[[int], Rig]) -> Pair:
    return Pair(new_rig(2))


def test_both_parts_know_their_number_one_address_and_one_token(pair: Pair) -> None:
    # On both, one path leads to the run directory.
    (head,) = pair.launch(pair.plan('readlink "$RLX_RAY_TMP/run"; echo "$RLX_RAY_TMP"'))
    pair.ended(head)
    worker = pair.worker(head)
    assert worker.run_id == f"{head.run_id}-node1" and worker.head_id == head.run_id
    pair.ended(worker)
    told = [pair.log(ref).splitlines() for ref in (head, worker)]
    assert [lines[0].partition(" of ")[0] for lines in told] == ["node 0", "node 1"]
    shared = {lines[0].partition(" ")[2].partition(" ")[2] for lines in told}
    assert len(shared) == 1 and re.fullmatch(TOLD, shared.pop())
    assert [lines[1] for lines in told] == [f"/root/rlx/runs/{ref.run_id}" for ref in (head, worker)]
    assert told[0][2] == told[1][2]
    # The token is in no file that stays, and the key that it comes from is its user's alone.
    assert stat.S_IMODE((home() / "cluster.key").stat().st_mode) == 0o600
    for ref in (head, worker):
        assert "RLX_RAY_TOKEN" not in (pair.folder(ref) / "manifest.json").read_text(encoding="utf-8")
        assert not (pair.folder(ref) / "env").exists()
        until(lambda: not [*pair.h1.path("/tmp").glob("rlx-*"), *pair.h2.path("/tmp").glob("rlx-*")], "nothing is left")


def test_a_run_of_one_node_has_neither() -> None:
    (run,) = start(toy_plan('echo "$RLX_NODE of $RLX_NODES <$RLX_HEAD> <${RLX_RAY_TOKEN-}>"'))
    ended(run)
    assert log_of(run) == "0 of 1 <> <>\n"
    assert not (run.run_dir / "cluster").exists() and not (home() / "cluster.key").exists()


def test_it_is_one_run_for_whoever_looks(pair: Pair) -> None:
    (head,) = pair.launch(pair.plan("true"))
    pair.ended(head)
    worker = pair.worker(head)
    assert pair.call(lambda index: index.runs()) == (head,)
    assert pair.call(lambda index: resolve(index, ["main"])) == (head,)
    # A worker answers to its full id only.
    assert pair.call(lambda index: resolve(index, [worker.run_id])) == (worker,)
    assert pair.call(lambda index: resolve(index, [head.run_id])) == (head,)
    # Another laptop that looks at the worker's host is told what is there.
    env = {"RLX_HOME": str(home() / "another laptop")}
    (row,) = json.loads(pair.rig.client.rlx("status", "--json", "--host", "h2", env=env).stdout)["runs"]
    assert row["run_id"] == worker.run_id and f"node 1 of {head.run_id}" in row["verdict"]["sentence"]


def test_a_worker_that_fails_shows_while_the_head_goes_on(pair: Pair) -> None:
    (head,) = pair.launch(pair.plan(FOREVER, worker="exit 3"))
    seen = until(lambda: one if "failed" in (one := pair.see(head)).detail else None, "its failure is seen", 60)
    assert "node 1 on h2: failed" in seen.detail
    assert not seen.state.is_terminal
    assert "main-s1: node 1 on h2: failed" in pair.rig.client.rlx("status").stdout.decode()
    pair.rig.client.rlx("stop", head.run_id, "--grace", "0")


def test_stop_ends_all_nodes(pair: Pair) -> None:
    (head,) = pair.launch(pair.plan(FOREVER))
    pair.until_both_run(head)
    assert pair.see(head).detail == ""
    said = pair.rig.client.rlx("stop", "main", "--grace", "1").stdout.decode()
    assert {line.split()[0] for line in said.splitlines()} == {head.run_id, pair.worker(head).run_id}
    assert {pair.see(ref).state for ref in (head, pair.worker(head))} == {RunState.STOPPED}


def test_arms_wait_in_the_same_order_on_every_host(pair: Pair) -> None:
    first, second = pair.launch(pair.plan(FOREVER, arm="a"), pair.plan("true", arm="b"))
    pair.until_both_run(first)
    assert pair.see(second).state is RunState.QUEUED
    assert pair.see(pair.worker(second)).state is RunState.QUEUED
    pair.rig.client.rlx("stop", "a", "--grace", "0")
    assert pair.ended(second).state is RunState.FINISHED
    assert pair.ended(pair.worker(second)).state is RunState.FINISHED


def test_a_head_that_cannot_start_leaves_no_worker_waiting(pair: Pair) -> None:
    plan = pair.plan(FOREVER)
    with pytest.raises(RlxError, match="failed"):
        pair.launch(replace(plan, site=replace(plan.site, root="/etc/passwd")))
    assert pair.call(lambda index: index.nodes()) == ()
    (left,) = pair.h2.path("/root/rlx/runs").iterdir()
    assert (left / "stop").exists()


NOISE = '{"kind":"noise","phase":"rollout","step":%d,"replica":%d,"sigma":0.05,"layers":3,"elements":9,"changed":9}'


def writes_noise(replica: int, *steps: int) -> str:
    lines = "\\n".join(NOISE % (step, replica) for step in steps)
    return f"printf '{lines}\\n' >\"$RLX_ATTEMPT_DIR/events/aqn-$RLX_NODE.jsonl\"\n"


def test_the_verdict_is_of_the_noise_on_all_nodes(pair: Pair) -> None:
    (head,) = pair.launch(pair.plan(writes_noise(0, 1, 2), worker=writes_noise(1, 1)))
    pair.ended(head)
    pair.ended(pair.worker(head))
    (row,) = pair.call(lambda index: judged_snapshots(index, [head]))
    assert sorted((event.step or 0, event.replica) for event in row.evidence.noise) == [(1, 0), (1, 1), (2, 0)]
    (judged,) = pair.call(lambda index: judge_runs(index, [head]))
    assert judged.evidence.noise == row.evidence.noise


USED = "start {0} kind=npu devices=0 kills=0 scope=cgroup\nat {0} metrics=- d0={1},65536,80,45,-,-\nend kills=0\n"


def test_what_the_devices_did_is_told_for_each_node(pair: Pair) -> None:
    (head,) = pair.launch(pair.plan("true"))
    for ref, used in ((head, 30 << 10), (pair.worker(head), 55 << 10)):
        pair.ended(ref)
        (pair.folder(ref) / "attempts/1/usage").write_text(USED.format(int(time.time()), used), encoding="utf-8")
    (judged,) = pair.call(lambda index: judge_runs(index, [head]))
    told = list(device_lines(device_reports([judged], {head.run_id: "main"})))
    assert told[1].startswith("  main: ") and "30.0 of 64.0 GiB" in told[1]
    assert told[2].startswith("  main, node 1 on h2: ") and "55.0 of 64.0 GiB" in told[2]


def test_without_the_records_of_a_node_nothing_is_concluded(pair: Pair) -> None:
    (head,) = pair.launch(pair.plan(writes_noise(0, 1), worker=FOREVER))
    pair.ended(head)
    # Its records are here, and are all that there will be: what it does after its head has ended is nobody's result.
    (row,) = pair.call(lambda index: judged_snapshots(index, [head]))
    assert "node 1" not in row.verdict.sentence
    pair.h2.cut()
    (row,) = pair.call(lambda index: judged_snapshots(index, [head]))
    assert row.verdict.status is VerdictStatus.UNVERIFIED and "node 1 on h2" in row.verdict.sentence
    pair.h2.heal()
    pair.rig.client.rlx("stop", head.run_id, "--grace", "0")


def test_hosts_nodes_and_address_must_fit(wording: SnapshotAssertion) -> None:
    alone = as_nodes([toy_plan("true")], 2)
    assert [(f.id, f.severity) for f in alone.findings] == [("RLX503", Severity.ERROR)]
    assert "2 nodes" in alone.findings[0].message
    assert [f.id for f in as_nodes([toy_plan("true"), toy_plan("true")], 2).findings] == ["RLX504"]
    here = toy_plan("true")
    fitting = as_nodes([replace(here, site=replace(here.site, address="192.0.2.7")), here], 2)
    assert fitting.findings == ()
    other = replace(fitting.workers[0], site=replace(fitting.workers[0].site, image="another"))
    assert [f.id for f in as_nodes([fitting, other], 2).findings] == ["RLX505"]
    job = replace(here, site=replace(here.site, address="login.example", batch=batch_of(Slurm("main"))))
    nodes = as_nodes([job], 3)
    assert nodes.findings == () and [node.cluster for node in nodes.nodes] == [Cluster(n, 3, "") for n in range(3)]
    assert [f.id for f in as_nodes([job, here], 2).findings] == ["RLX503"]
    for odd in (replace(fitting, workers=(*fitting.workers, *fitting.workers)), replace(fitting, cluster=None)):
        with pytest.raises(UsageError) as caught:
            launch([odd], {}, home())
        assert caught.value.message == wording


HOSTS = (
    "hosts:\n  h1: {ssh: root@h1, address: 192.0.2.1, device: {kind: npu, count: 8}}\n"
    "  h2: {ssh: root@192.0.2.2, device: {kind: npu, count: 8}}\n"
    "  hpc: {ssh: login, root: /s, slurm: {partition: main, gres: npu:8}}\n"
)


def test_plan_shows_the_nodes_and_refuses_one_host_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    hosts = tmp_path / "rlx.yaml"
    hosts.write_text(HOSTS, encoding="utf-8")
    monkeypatch.setenv("RLX_PROJECT", str(hosts))
    trust_project()
    recipe = "qwen2.5-7b-deepscaler-mindspeed-npu16"
    words = ["plan", recipe, "-v", "--set", "layout.nodes=2", "--set", "layout.devices_per_node=8", "--host"]
    job = CliRunner().invoke(command_line(words), [*words, "hpc"])
    done = CliRunner().invoke(command_line(words), [*words, "h1,h2"])
    nodes = [
        [line for line in said.splitlines() if re.search("[01]  .* on h", line)] for said in (job.stdout, done.stdout)
    ]
    assert [[line.partition(": ")[0].strip() for line in lines][-2:] for lines in nodes] == [
        ["0  /s on hpc", "1  /s on hpc"],
        ["0  ~/rlx on h1", "1  ~/rlx on h2"],
    ]
    assert nodes == wording
    document = json.loads(CliRunner().invoke(command_line(words), [*words, "h1,h2", "--json"]).stdout)
    (plan,) = document["plans"]
    assert [node["site"]["address"] for node in (plan, *plan["workers"])] == ["192.0.2.1", "192.0.2.2"]
    assert plan["workers"][0]["cluster"] == {"node": 1, "nodes": 2, "head": "192.0.2.1"}
    assert "8 × npu (0, 1, 2, 3, 4, 5, 6, 7)" in done.stdout
    for named in ("h1,", "h1,h1"):
        refused = CliRunner().invoke(command_line(words), [*words, named])
        assert refused.exit_code != 0 and isinstance(refused.exception, UsageError)
        assert refused.exception.message == wording
