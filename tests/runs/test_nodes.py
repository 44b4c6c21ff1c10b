"""Runs of several nodes: a part on each host, launched, seen and stopped as one run. No Ray is in between here."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlx.cli.app import command_line
from rlx.errors import RlxError, UsageError
from rlx.hosts.nodes import as_nodes
from rlx.plan import LaunchPlan, RunState, Severity
from rlx.runs import Index, RunRef, launch, observe, resolve, stop_runs
from tests.loopback import Loopback, loopback
from tests.runs.far import Far, far
from tests.runs.toys import FOREVER, ended, home, log_of, see, start, toy_plan, until

__all__ = ["Loopback", "far", "loopback"]

TELL = 'echo "node $RLX_NODE of $RLX_NODES, head at $RLX_HEAD, token $(printf %s "$RLX_RAY_TOKEN" | sha256sum)"\n'


def two_nodes(far: Far, script: str, arm: str = "main", worker: str = "") -> LaunchPlan:
    """The head here, a worker on the loopback host."""
    here = toy_plan(TELL + script, arm=arm)
    head = replace(here, site=replace(here.site, address="192.0.2.7"))
    return as_nodes([head, far.plan(TELL + (worker or script), arm=arm)], 2)


def worker_of(head: RunRef) -> RunRef:
    (worker,) = Index(home()).workers([head])
    return worker


def test_both_parts_know_their_number_one_address_and_one_token(far: Far) -> None:
    (head,) = start(two_nodes(far, "true"))
    ended(head)
    worker = worker_of(head)
    assert worker.run_id == f"{head.run_id}-node1" and worker.head_id == head.run_id
    until(lambda: "token" in far.log(worker), "the worker has run")
    told = [log_of(head).splitlines()[0], far.log(worker).splitlines()[0]]
    assert [line.partition(" of ")[0] for line in told] == ["node 0", "node 1"]
    shared = {line.partition(" of ")[2] for line in told}
    assert len(shared) == 1
    assert re.match(r"2, head at 192\.0\.2\.7:2\d{4}, token (?!e3b0c442)[0-9a-f]{64}", shared.pop())
    # The token is in no file that stays, and the key that it comes from is its user's alone.
    assert stat.S_IMODE((home() / "cluster.key").stat().st_mode) == 0o600
    for folder in (head.run_dir, far.folder(worker)):
        assert not any("RLX_RAY_TOKEN" in path.read_text() for path in folder.rglob("manifest.json"))
        assert not (folder / "env").exists()


def test_a_run_of_one_node_has_neither(far: Far) -> None:
    (run,) = start(toy_plan('echo "$RLX_NODE of $RLX_NODES <$RLX_HEAD> <${RLX_RAY_TOKEN-}>"'))
    ended(run)
    assert log_of(run) == "0 of 1 <> <>\n"
    assert not (run.run_dir / "cluster").exists() and not (home() / "cluster.key").exists()


def test_it_is_one_run_for_whoever_looks(far: Far) -> None:
    (head,) = start(two_nodes(far, "true", worker="exit 3"))
    ended(head)
    index = Index(home())
    assert index.runs() == (head,)
    assert resolve(index, ["main"]) == (head,)
    # A worker answers to its full id only.
    assert resolve(index, [f"{head.run_id}-node1"]) == (worker_of(head),)
    assert resolve(index, [head.run_id]) == (head,)
    # Another laptop that has looked at both hosts sees the same.
    other = Index(home() / "other")
    other.rebuild(far.site)
    assert worker_of(head) in other.workers(other.runs())


def test_a_worker_that_fails_shows_while_the_head_goes_on(far: Far) -> None:
    (head,) = start(two_nodes(far, FOREVER, worker="exit 3"))
    seen = until(lambda: one if "node 1" in (one := see(head)).detail else None, "the failure of the worker is seen")
    assert f"node 1 on {far.site.host}: failed" in seen.detail
    assert not seen.state.is_terminal


def test_stop_ends_all_nodes(far: Far) -> None:
    (head,) = start(two_nodes(far, FOREVER))
    worker = worker_of(head)
    until(lambda: "token" in far.log(worker) and "token" in log_of(head), "both run")
    done = CliRunner().invoke(command_line(["stop"]), ["stop", head.run_id])
    assert done.exit_code == 0, done.output
    assert {line.split()[0] for line in done.stdout.splitlines()} == {head.run_id, worker.run_id}
    seen = observe(Index(home()), [head, worker])
    assert {one.state for one in seen.values()} == {RunState.STOPPED}


def test_arms_wait_in_the_same_order_on_every_host(far: Far) -> None:
    first, second = start(two_nodes(far, FOREVER, "a"), two_nodes(far, "true", "b"))
    until(lambda: "token" in log_of(first), "the first one runs")
    index = Index(home())
    waiting = observe(index, index.workers([second]))
    assert [one.state for one in waiting.values()] == [RunState.QUEUED]
    assert see(second).state is RunState.QUEUED
    refs = [first, *index.workers([first])]
    stop_runs(refs, observe(index, refs), 0)
    assert ended(second).state is RunState.FINISHED
    until(lambda: "node 1" in far.log(worker_of(second)), "its worker ran, too")


def test_a_head_that_cannot_start_leaves_no_worker_waiting(far: Far, tmp_path: Path) -> None:
    plan = two_nodes(far, FOREVER)
    (tmp_path / "file").write_text("no folder")
    broken = replace(plan, site=replace(plan.site, root=str(tmp_path / "file")))
    with pytest.raises(RlxError, match="failed"):
        launch([broken], {}, home())
    assert Index(home()).nodes() == ()
    until(lambda: all((run / "stop").exists() for run in far.runs.iterdir()), "the worker was stopped")
    assert list(far.runs.iterdir())


def test_a_launch_that_broke_between_the_hosts_is_completed(far: Far) -> None:
    plan = two_nodes(far, "true")
    far.go_down()
    with pytest.raises(RlxError, match="nothing was launched"):
        launch([plan], {}, home())
    assert Index(home()).nodes() == ()
    far.loopback.start()
    (head,) = launch([plan], {}, home()).runs
    assert ended(head).state is RunState.FINISHED


def test_hosts_nodes_and_address_must_fit(far: Far) -> None:
    alone = as_nodes([toy_plan("true")], 2)
    assert [(f.id, f.severity) for f in alone.findings] == [("RLX503", Severity.ERROR)]
    assert "the recipe wants 2 nodes, and one host is named" in alone.findings[0].message
    nameless = as_nodes([toy_plan("true"), far.plan("true")], 2)
    assert [f.id for f in nameless.findings] == ["RLX504"]
    fitting = two_nodes(far, "true")
    assert fitting.findings == ()
    images = [
        replace(plan, site=replace(plan.site, image=image)) for plan, image in zip(fitting.nodes, "ab", strict=True)
    ]
    assert [f.id for f in as_nodes(images, 2).findings] == ["RLX505"]
    with pytest.raises(UsageError, match="not numbered"):
        launch([replace(fitting, workers=(*fitting.workers, *fitting.workers))], {}, home())


def test_plan_shows_the_nodes_and_refuses_one_host_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = tmp_path / "rlx.yaml"
    hosts.write_text(
        "hosts:\n  h1: {ssh: root@h1, address: 192.0.2.1, device: {kind: npu, count: 8}}\n"
        "  h2: {ssh: root@192.0.2.2, device: {kind: npu, count: 8}}\n"
    )
    monkeypatch.setenv("RLX_PROJECT", str(hosts))
    recipe = "qwen2.5-7b-deepscaler-mindspeed-npu16"
    words = ["plan", recipe, "--set", "layout.nodes=2", "--set", "layout.devices_per_node=8", "--host"]
    done = CliRunner().invoke(command_line(words), [*words, "h1,h2"])
    assert "1  ~/rlx on h2: joins the head's Ray" in done.stdout
    assert "0  ~/rlx on h1: the head, others reach it at 192.0.2.1" in done.stdout
    document = json.loads(CliRunner().invoke(command_line(words), [*words, "h1,h2", "--json"]).stdout)
    (plan,) = document["plans"]
    assert [node["site"]["address"] for node in (plan, *plan["workers"])] == ["192.0.2.1", "192.0.2.2"]
    assert plan["workers"][0]["cluster"] == {"node": 1, "nodes": 2, "head": "192.0.2.1"}
    twice = CliRunner().invoke(command_line(words), [*words, "h1,h1"])
    assert twice.exit_code != 0 and "named twice" in twice.output + str(twice.exception)
