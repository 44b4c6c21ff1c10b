"""Devices by count and by list, among runs of the host and of its containers, and against what knows no leases."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.cli.text.queue_text import lease_lines
from rlx.errors import RlxError, UsageError
from rlx.hosts import local_site
from rlx.model import LOCAL, LaunchPlan, RunState, Site
from rlx.runs import Leases, RunRef, launch, query_leases, stop
from tests.conftest import CASES, stop_runs_below
from tests.devices import machine_with, put_program
from tests.engine import Engine
from tests.runs.toys import FOREVER, ended, holder_pid, home, log_of, reaches, see, start, toy_plan, until
from tests.wording import settled

_CASES = sorted(path.name for path in (CASES / "npu-smi").iterdir() if path.is_dir())
_SHOW = 'echo "devices $RLX_DEVICES"\n'
_GO = "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A host with four NPUs; without npu-smi until a test puts one there."""
    with machine_with(tmp_path, monkeypatch, *(f"davinci{n}" for n in range(4)), "davinci_manager") as folder:
        yield folder
        stop_runs_below(tmp_path / "root" / "runs")


def npu_plan(script: str, *listed: int, count: int = 1, site: Site | None = None) -> LaunchPlan:
    return replace(
        toy_plan(script),
        device_kind="npu",
        devices=len(listed) or count,
        device_list=listed,
        site=site or local_site(),
    )


def begin(plan: LaunchPlan) -> RunRef:
    (ref,) = start(plan)
    return ref


def devices_of(ref: RunRef) -> str:
    return until(
        lambda: next((line.split()[1] for line in log_of(ref).splitlines() if line.startswith("devices ")), None),
        f"{ref.run_id} says its devices",
    )


def leases() -> Leases:
    return query_leases(LOCAL, os.environ["RLX_LEASES"])


def go(ref: RunRef) -> None:
    (ref.run_dir / "go").touch()


def test_a_list_gets_exactly_these(programs: Path) -> None:
    listed = begin(npu_plan(_SHOW + _GO, 3, 1))
    assert devices_of(listed) == "1,3"
    counted = begin(npu_plan(_SHOW + _GO, count=2))
    assert devices_of(counted) == "0,2"
    assert [(lease.device, lease.run_id) for lease in leases().held] == [
        (0, counted.run_id),
        (1, listed.run_id),
        (2, counted.run_id),
        (3, listed.run_id),
    ]


def test_a_listed_device_that_is_taken_is_waited_for(programs: Path) -> None:
    first = begin(npu_plan(_SHOW + _GO, 2))
    assert devices_of(first) == "2"
    second = begin(npu_plan(_SHOW + _GO, 2, 3))
    reaches(second, RunState.QUEUED)
    assert [ticket.run_id for ticket in leases().waiting] == [second.run_id]
    go(first)
    assert devices_of(second) == "2,3"


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        ((7,), r"\bnpu device 7: .* 0 1 2 3$"),
        ((0, 1, 2, 3, 4), r"\bnpu device 4: .* 0 1 2 3$"),
    ],
)
def test_a_device_that_does_not_exist_is_refused(programs: Path, plan: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(RlxError, match=complaint):
        begin(npu_plan("true\n", *plan))


def test_more_devices_than_there_are_is_refused(programs: Path) -> None:
    with pytest.raises(RlxError, match=r"\b5 npu .*\b4\b"):
        begin(npu_plan("true\n", count=5))


@pytest.mark.parametrize(("listed", "count"), [((1, 1), 2), ((0, 1), 3), ((-1,), 1)])
def test_a_list_that_contradicts_itself_is_refused(listed: tuple[int, ...], count: int) -> None:
    plan = replace(npu_plan("true\n"), device_list=listed, devices=count)
    with pytest.raises(UsageError, match="lists"):
        launch([plan], {}, home())


def test_whoever_delays_nobody_ahead_may_start(programs: Path) -> None:
    first = begin(npu_plan(_SHOW + _GO, 0, 1))
    assert devices_of(first) == "0,1"
    same = begin(npu_plan(_SHOW, 0, 1))
    any_two = begin(npu_plan(_SHOW + _GO, count=2))
    last = begin(npu_plan(_SHOW, 3))
    assert devices_of(any_two) == "2,3"
    assert [(ticket.run_id, ticket.count, ticket.could) for ticket in leases().waiting] == [
        (same.run_id, 2, (0, 1)),
        (last.run_id, 1, (3,)),
    ]
    assert [see(ref).detail for ref in (same, last)] == ["behind 1 run"] * 2
    go(any_two)
    assert devices_of(last) == "3"
    assert see(same).state is RunState.QUEUED
    go(first)
    assert devices_of(same) == "0,1"


def test_nobody_takes_what_somebody_ahead_waits_for(programs: Path) -> None:
    first = begin(npu_plan(_SHOW + _GO, 0))
    assert devices_of(first) == "0"
    ahead = begin(npu_plan(_SHOW + _GO, 0, 1))
    three = begin(npu_plan(_SHOW, count=3))
    behind = begin(npu_plan(_SHOW, 2))
    reaches(behind, RunState.QUEUED)
    assert [see(ref).queued_behind for ref in (ahead, three, behind)] == [1, 2, 1]
    go(first)
    assert devices_of(ahead) == "0,1"
    assert log_of(behind) == "", "three more could take device 2"
    go(ahead)
    # Which three, the order tells in which those of the other two become free.
    taken = devices_of(three).split(",")
    assert len(set(taken)) == 3 and set(taken) < set("0123")
    assert devices_of(behind) == "2"


def test_leases_go_when_their_run_is_over(programs: Path) -> None:
    ref = begin(npu_plan(_SHOW + _GO, 1))
    devices_of(ref)
    (lease,) = leases().held
    assert (lease.device, lease.kind, lease.outlives_holder, lease.container) == (1, "npu", False, None)
    go(ref)
    ended(ref)
    # A lock outlives its run by a moment: nobody holds the device then, and it is not free yet.
    everything = (("npu", 0), ("npu", 1), ("npu", 2), ("npu", 3))
    until(lambda: (leases().held, leases().free) == ((), everything), "the lease goes")


def test_a_run_without_holder_keeps_its_devices(programs: Path, wording: SnapshotAssertion) -> None:
    ref = begin(npu_plan(_SHOW + FOREVER, count=3))
    devices_of(ref)
    os.kill(holder_pid(ref), signal.SIGKILL)
    until(lambda: [lease.outlives_holder for lease in leases().held] == [True] * 3, "only the run itself says so")
    other = begin(npu_plan(_SHOW, count=2))
    reaches(other, RunState.QUEUED)
    assert [lease.run_id for lease in leases().held] == [ref.run_id] * 3
    shown = "\n".join(lease_lines(leases()))
    shown = settled(shown, {ref.run_id: "run", other.run_id: "other"})
    assert re.sub(r"\S+, for \d+ s\b", "<user>, for <time>", shown) == wording
    stop(ref, 0)
    assert ended(other).state is RunState.FINISHED


def test_a_device_that_somebody_else_uses_is_left_alone(programs: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text((CASES / "npu-smi" / "910b-25.2" / "info.txt").read_text(encoding="utf-8"), encoding="utf-8")
    put_program(programs, "npu-smi", f'[ "$*" = info ] && cat {table}')
    assert devices_of(begin(npu_plan(_SHOW + _GO, count=3))) == "0,1,3"
    waiting = begin(npu_plan(_SHOW, 2))
    seen = until(lambda: found if (found := see(waiting)).detail.startswith("waits") else None, "it says why")
    assert (seen.state, "2:1333928" in seen.detail) == (RunState.QUEUED, True)
    assert [(process.device, process.pid) for process in leases().foreign] == [(2, 1333928)]
    assert any(line.startswith("npu 2 ") and "1333928" in line for line in lease_lines(leases()))
    table.write_text("", encoding="utf-8")
    assert devices_of(waiting) == "2"


@pytest.mark.parametrize("script", ["exit 1", "sleep 1000", "echo 'dcmi model initialized failed, because 8005'"])
def test_leases_alone_decide_where_npu_smi_is_broken(
    programs: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_program(programs, "npu-smi", script)
    # The time-out is real, but shorter.
    put_program(programs, "timeout", f'shift; exec {shutil.which("timeout")} 1 "$@"')
    assert devices_of(begin(npu_plan(_SHOW, count=4))) == "0,1,2,3"


@pytest.mark.parametrize("name", _CASES)
def test_the_process_tables_of_several_generations(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    put_program(programs, "npu-smi", f"cat {CASES / 'npu-smi' / name / 'info.txt'}")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    found = [[process.kind, process.device, process.pid] for process in leases().foreign]
    assert found == json.loads((CASES / "npu-smi" / name / "expected.json").read_text(encoding="utf-8"))


def container_with(engine: Engine, tmp_path: Path, name: str, *numbers: int) -> Site:
    """A container that sees these NPUs of the host."""
    node = tmp_path / "node"
    node.touch()
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    nodes = [f"{node}:/dev/davinci{number}" for number in numbers]
    container = engine.run_container(name, [f"{root}:/shared", *nodes])
    return replace(local_site(), container=name, container_id=container, container_root="/shared")


def test_a_container_gets_what_it_sees_and_names_it_from_0(engine: Engine, programs: Path, tmp_path: Path) -> None:
    site = container_with(engine, tmp_path, "half", 2, 3)
    ref = begin(npu_plan(_SHOW + _GO, 3, site=site))
    assert devices_of(ref) == "1"
    assert [(lease.device, lease.container) for lease in leases().held] == [(3, site.container_id)]
    # The run calls it device 1; npu-smi and whoever reads what it said call it 3.
    assert " kind=npu devices=3 " in (ref.run_dir / "attempts/1/usage").read_text(encoding="utf-8")
    with pytest.raises(RlxError, match=r"\bnpu device 0: .* 2 3\b"):
        begin(npu_plan("true\n", 0, site=site))
    with pytest.raises(RlxError, match=r"\b3 npu .*\b2\b"):
        begin(npu_plan("true\n", count=3, site=site))


def test_two_containers_never_get_the_same_npu(engine: Engine, programs: Path, tmp_path: Path) -> None:
    one = container_with(engine, tmp_path, "one", 0, 1, 2)
    two = container_with(engine, tmp_path, "two", 2, 3)
    first = begin(npu_plan(_SHOW + _GO, count=3, site=one))
    assert devices_of(first) == "0,1,2"
    second = begin(npu_plan(_SHOW + _GO, count=2, site=two))
    assert reaches(second, RunState.QUEUED).queued_behind == 1
    os.kill(holder_pid(first), signal.SIGKILL)
    until(lambda: all(lease.outlives_holder for lease in leases().held), "the holder is gone")
    assert reaches(second, RunState.QUEUED)
    assert {lease.run_id for lease in leases().held} == {first.run_id}
    go(first)
    assert devices_of(second) == "0,1"


# What flock of util-linux says where a file system has no locks: ENOLCK is 71, any other errno 65. None is here: a
# program plays it.
_NO_LOCKS = """
target=$(readlink "/proc/self/fd/${word}" 2>/dev/null || printf %s "$word")
case $target in FOLDER*) echo "flock: $word: No locks available" >&2; exit 71 ;; esac
"""


def without_locks(programs: Path, folder: Path) -> None:
    script = f'for word; do {_NO_LOCKS.replace("FOLDER", str(folder))} done\nexec {shutil.which("flock")} "$@"'
    put_program(programs, "flock", script)


def without_file_system(error: RlxError, folder: str) -> str:
    """What rlx says of the folder; its file system differs between machines."""
    said = error.message[error.message.rindex(folder) :]
    return re.sub(r"\(\S+\)", "(<file system>)", settled(said, {folder: "folder"}), count=1)


def test_a_lease_folder_without_locks_is_refused(programs: Path, wording: SnapshotAssertion) -> None:
    without_locks(programs, Path(os.environ["RLX_LEASES"]))
    with pytest.raises(RlxError, match="flock") as caught:
        begin(npu_plan("true\n"))
    assert without_file_system(caught.value, os.environ["RLX_LEASES"]) == wording
    assert not list((Path(os.environ["RLX_ROOT"]) / "runs").iterdir())


def test_a_root_without_locks_is_refused(programs: Path, wording: SnapshotAssertion) -> None:
    without_locks(programs, Path(os.environ["RLX_ROOT"]))
    with pytest.raises(RlxError, match="flock") as caught:
        begin(npu_plan("true\n"))
    assert without_file_system(caught.value, os.environ["RLX_ROOT"]) == wording


# ---- what others may put into the folder of leases -------------------------------------------------------------------


@pytest.fixture
def strange(programs: Path) -> Path:
    """The folder of leases, made by another user before anybody else."""
    folder = Path(os.environ["RLX_LEASES"])
    for path in (folder, folder / "tickets", folder / "devices", folder / "devices" / "npu.0"):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o1777)
    return folder


def test_a_folder_whose_maker_is_about_to_set_its_mode_is_waited_for(strange: Path, programs: Path) -> None:
    """mkdir(1) makes it and then sets the mode: another user's launch may come in between."""
    folder = strange / "devices/npu.0"
    folder.chmod(0o777)
    put_program(programs, "sleep", f'chmod 1777 {folder}\nexec {shutil.which("sleep")} "$@"')
    assert devices_of(begin(npu_plan(_SHOW))) == "0"


def test_a_link_in_the_folder_of_leases_overwrites_nothing(strange: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious", encoding="utf-8")
    for number in ("999", "1000", "1000000001", "01000000002", "10000000003"):
        (strange / "tickets" / f"{number}.npu").symlink_to(mine)
    for pid in range(1, 100):
        (strange / "devices" / "npu.0" / f"{os.getuid()}.tmp.{pid}").symlink_to(mine)
    assert devices_of(begin(npu_plan(_SHOW))) == "0"
    assert mine.read_text(encoding="utf-8") == "precious"


def test_a_pipe_in_the_folder_of_leases_blocks_nobody(strange: Path) -> None:
    for path in ("tickets/1000000000.npu", "devices/npu.0/7", "devices/npu.x y"):
        os.mkfifo(strange / path)
    first = begin(npu_plan(_SHOW + _GO, 0))
    assert devices_of(first) == "0"
    second = begin(npu_plan(_SHOW, 0))
    assert reaches(second, RunState.QUEUED).queued_behind == 1
    assert [lease.run_id for lease in leases().held] == [first.run_id]
    go(first)
    assert devices_of(second) == "0"


def test_a_name_with_lines_in_the_folder_of_leases_tells_nothing(strange: Path) -> None:
    (strange / "devices" / "npu.1\nclaim npu.1 live x 1 - ~").mkdir()
    (strange / "devices" / "npu.one").mkdir()
    assert leases().held == ()
    assert leases().free == (("npu", 0),)


def test_a_run_directory_that_another_user_names_is_not_looked_into(strange: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file another user's")
    bait = tmp_path / "bait"
    bait.mkdir()
    os.mkfifo(bait / "container")
    os.chown(bait, 65534, 65534)
    (strange / "devices" / "npu.0" / "65534").write_text(f"1 1 boot {bait}\n", encoding="utf-8")
    assert devices_of(begin(npu_plan(_SHOW, 0))) == "0"
    # While a lock outlives its run by a moment, a claim that nobody here can look at may be the one.
    until(lambda: not [lease for lease in leases().held if lease.run_id == "bait"], "the claim is nobody's")


def test_a_run_that_has_its_devices_and_its_ticket_still_is_one_run(programs: Path, tmp_path: Path) -> None:
    passed_on = tmp_path / "passed-on"
    keeps = f'case "$*" in *tickets*) until [ -e {passed_on} ]; do sleep 0.1; done ;; esac'
    put_program(programs, "rm", f'{keeps}; exec {shutil.which("rm")} "$@"')
    first, second = start(npu_plan(_SHOW + _GO, 0), npu_plan(_SHOW, 0, 1))
    claim = Path(os.environ["RLX_LEASES"], "devices/npu.0", str(os.getuid()))
    until(claim.exists, "the first has claimed its device")
    assert reaches(second, RunState.QUEUED).queued_behind == 1
    passed_on.touch()
    assert devices_of(first) == "0"
    assert reaches(second, RunState.QUEUED).queued_behind == 1
    go(first)
    assert devices_of(second) == "0,1"


def test_a_claim_that_comes_late_changes_nothing_that_a_run_is_told(programs: Path) -> None:
    """The supervisor looks at the holder while it waits for the claim."""
    put_program(programs, "rm", f'sleep 1; exec {shutil.which("rm")} "$@"')
    (ref,) = start(npu_plan('echo "$RLX_NODE of $RLX_NODES"'))
    ended(ref)
    assert log_of(ref).splitlines()[-1] == "0 of 1"
