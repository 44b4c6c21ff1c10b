"""Runs as jobs of a real Slurm that forgets them as soon as they are over: its accounting tells how they ended."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import LaunchPlan
from rlx.runs import RunRef
from tests.rig.host import Host
from tests.rig.slurm import NPUS, ROOT, Cluster
from tests.runs.laptop import GO, Laptop, go, is_up, npu_toy, patiently, run_folder
from tests.runs.toys import FOREVER, until
from tests.wording import settled

# It hears of its end, and leaves Slurm no way but to kill it: nobody can record that.
DEAF = f"trap '' TERM; echo up; {FOREVER}"
SECOND = f"[[ $RLX_ATTEMPT_DIR != */1 ]] || exit 3\n{FOREVER}"
HOURS_S = 7200
# Slurm looks for jobs over their time, silent nodes and forgotten jobs twice a minute each, one after the other.
SLURM_S = 240


@pytest.fixture(scope="module")
def slurm(new_cluster: Callable[..., Cluster]) -> Cluster:
    return new_cluster(3, accounting=True)


@pytest.fixture
def laptop(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    monkeypatch.delenv("RLX_SSH_CONFIG", raising=False)
    found = Laptop(slurm.rig.client, tmp_path / "home")
    for node in slurm.nodes:
        on_one = ("--slurm", "main", "--gres", f"npu:{NPUS}", "--root", ROOT, "--sbatch", f"nodelist={node.name}")
        assert found.rlx("hosts", "add", f"on-{node.name}", "h1", *on_one).code == 0
    yield found
    slurm.login.run("scancel", "--user=root")


def on(laptop: Laptop, node: Host, arm: str, script: str, count: int = 1) -> LaunchPlan:
    return npu_toy(laptop.site(f"on-{node.name}"), script, count=count, arm=arm)


def started(slurm: Cluster, laptop: Laptop, *plans: LaunchPlan) -> dict[str, RunRef]:
    """The runs by their arms, once they run."""
    runs = laptop.launch(*plans)
    patiently(lambda: all(is_up(slurm.login, ref) for ref in runs), "they run")
    return {ref.arm: ref for ref in runs}


def state_of(host: Host, ref: RunRef) -> Path:
    """Of its newest attempt."""
    return run_folder(host, ref) / "latest/state"


def kill_job(node: Host, ref: RunRef) -> None:
    """End a run by SIGKILL to its supervisor: nobody records that. Slurm ends what is left of the job."""
    supervisor = state_of(node, ref) / "supervisor"
    node.run("kill", "-s", "KILL", supervisor.read_text(encoding="utf-8").split()[0])


def cut_power(node: Host) -> None:
    """All of its processes that have to do with Slurm are gone, and nobody is told."""
    node.cut()
    for name in ("slurmd", "slurmstepd", "slurm_script", "sh", "bash", "sleep"):
        node.kill(name)


def forgotten(slurm: Cluster, *refs: RunRef) -> None:
    """Wait until the controller knows them no more; hours have gone by then since a supervisor wrote."""
    names = [name for ref in refs for name in (ref.run_id, f"{ref.run_id}@2")]
    until(lambda: not any(map(slurm.job, names)), "the controller has forgotten them", SLURM_S)
    long_ago = time.time() - HOURS_S
    for ref in refs:
        for file in (state_of(slurm.login, ref) / name for name in ("started", "heartbeat")):
            if file.exists():
                os.utime(file, (long_ago, long_ago))


def ends(laptop: Laptop) -> dict[str, tuple[str, str]]:
    """State and detail by arm. Beside the state, Slurm may say why the job had to wait once."""
    rows = laptop.rows("--all").items()
    return {arm: (row["state"], re.sub(r" \(\w+\), and", ", and", row["detail"])) for arm, row in rows}


def test_accounting_tells_how_a_forgotten_job_ended(slurm: Cluster, laptop: Laptop, wording: SnapshotAssertion) -> None:
    h2, h3, h4 = slurm.nodes
    runs = started(
        slurm,
        laptop,
        on(laptop, h2, "late", DEAF),
        on(laptop, h2, "cancelled", DEAF),
        on(laptop, h2, "told", "trap 'exit 5' TERM; echo up\n" + FOREVER),
        on(laptop, h3, "cut", GO),
        on(laptop, h4, "dead", FOREVER),
    )
    (runs["waiting"],) = laptop.launch(on(laptop, h2, "waiting", FOREVER, NPUS))
    number = {arm: slurm.job(ref.run_id, "%i") for arm, ref in runs.items()}
    slurm.control("update", f"jobid={number['late']}", "endtime=now+1")
    slurm.login.run("scancel", number["cancelled"], number["told"], number["waiting"])
    h3.cut()
    cut_power(h4)
    go(slurm.login, runs["cut"])
    forgotten(slurm, *runs.values())
    said = dict(line.split("|") for line in slurm.sacct("JobName,State"))
    assert {arm: said[ref.run_id].split()[0] for arm, ref in runs.items()} == {
        "late": "TIMEOUT",
        "cancelled": "CANCELLED",
        "told": "CANCELLED",
        "cut": "NODE_FAIL",
        "dead": "NODE_FAIL",
        "waiting": "CANCELLED",
    }
    seen = ends(laptop)
    assert facts(seen) == {
        "late": ("lost", ["RLX590", number["late"], "TIMEOUT"]),
        "cancelled": ("stopped", ["RLX594", number["cancelled"]]),
        "waiting": ("stopped", ["RLX594", number["waiting"]]),
        # What the run recorded itself goes before what Slurm believes.
        "told": ("failed", ["RLX594"]),
        "cut": ("finished", []),
        "dead": ("unreachable", ["RLX592", number["dead"]]),
    }
    named = {f"job {number}": f"job of {arm}" for arm, number in number.items()}
    assert {arm: settled(detail, named) for arm, (_, detail) in seen.items()} == wording
    h4.heal()
    h4.run("slurmd")
    known = ("lost", [number["dead"], "NODE_FAIL"])
    until(lambda: facts(ends(laptop))["dead"] == known, "what ran there is over", SLURM_S)


def facts(seen: dict[str, tuple[str, str]]) -> dict[str, tuple[str, list[str]]]:
    """Of each detail the ids, the numbers of jobs and Slurm's names of their states."""
    return {
        arm: (state, re.findall(r"RLX\d+|\b[A-Z_]{4,}\b|(?<=job )\d+", detail)) for arm, (state, detail) in seen.items()
    }


@contextmanager
def without_accounting(slurm: Cluster) -> Iterator[None]:
    """For the programs of the login node: what else is started already has read its configuration."""
    file = slurm.login.folder / "etc/slurm/slurm.conf"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("accounting_storage/slurmdbd", "accounting_storage/none"), encoding="utf-8")
    yield
    file.write_text(text, encoding="utf-8")


def test_accounting_that_is_silent_ends_no_run(slurm: Cluster, laptop: Laptop) -> None:
    node = slurm.nodes[0]
    runs = started(slurm, laptop, *(on(laptop, node, arm, SECOND) for arm in ("before", "meanwhile")))
    # The first attempt of each has failed, and accounting knows that one, too.
    assert {laptop.ended(ref).exit_code for ref in runs.values()} == {3}
    assert laptop.rlx("retry", "-y", *(ref.run_id for ref in runs.values())).code == 0
    patiently(lambda: all((state_of(node, ref) / "leader").exists() for ref in runs.values()), "both run again")
    numbers = {arm: slurm.job(f"{ref.run_id}@2", "%i") for arm, ref in runs.items()}
    lost = {arm: ("lost", [number, "FAILED"]) for arm, number in numbers.items()}
    kill_job(node, runs["before"])
    forgotten(slurm, runs["before"])
    assert facts(ends(laptop))["before"] == lost["before"]
    assert "RLX595" not in laptop.rlx("doctor", "on-h2").out
    with without_accounting(slurm):
        assert facts(ends(laptop))["before"] == ("lost", [numbers["before"]])
        assert "RLX595" in laptop.rlx("doctor", "on-h2").out
    kill_job(node, runs["meanwhile"])
    slurm.login.kill("slurmdbd", "STOP")
    state, detail = ends(laptop)["before"]
    assert (state, "sacct" in detail, " 6 s" in detail) == ("unreachable", True, True)
    slurm.login.kill("slurmdbd")
    forgotten(slurm, runs["meanwhile"])
    ((state, detail),) = set(ends(laptop).values())
    # In the words of sacct.
    assert state == "unreachable" and detail.endswith("Problem talking to the database: Connection refused")
    slurm.start_accounting()
    # The controller tells what was missed when it tries again, and when it starts. Until then nothing is concluded.
    late = ("unreachable", [numbers["meanwhile"], "RUNNING"])
    found = facts(ends(laptop))
    assert (found["before"], found["meanwhile"]) in [(lost["before"], late), tuple(lost.values())]
    slurm.stop_controller()
    slurm.start_controller()
    until(lambda: facts(ends(laptop)) == lost, "accounting knows of both ends", SLURM_S)
