"""The host side under other shells and tools, and on disks that are full."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.model import LaunchPlan, PlannedFile, RunState
from rlx.runs import Index, launch, stop
from tests.conftest import stop_runs_below
from tests.runs.toys import (
    ended,
    home,
    is_running,
    log_of,
    logged_pid,
    pid_in,
    reaches,
    see,
    start,
    state_file,
    toy_plan,
    until,
)
from tests.wording import settled

ESCAPES = (
    "setsid bash -c 'trap \"\" TERM; echo escaped $$; while :; do sleep 0.2; done' &\nwhile :; do sleep 0.2; done\n"
)
# What supervise.sh calls; flock and bash have no counterpart in busybox.
TOOLS = (
    "awk cat cut date env grep gzip head id ln mkdir mktemp mv od printf rm setsid sh sleep "
    "sort stat tail tar tee tr wc"
)


def shell_only(folder: Path, shell: str) -> None:
    program = shutil.which(shell)
    assert program, f"{shell} is not installed"
    (folder / "sh").symlink_to(program)


def all_of_busybox(folder: Path, busybox: str) -> None:
    program = shutil.which(busybox)
    assert program, f"{busybox} is not installed"
    applets = subprocess.run(
        [program, "--list"], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout.split()
    for tool in set(TOOLS.split()) & set(applets):
        (folder / tool).symlink_to(program)


@pytest.mark.parametrize(
    ("arrange", "shell"), [(shell_only, "dash"), (shell_only, "busybox"), (all_of_busybox, "busybox")]
)
def test_every_posix_shell_will_do(
    arrange: object, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    assert callable(arrange)
    arrange(folder, shell)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    plans = [
        toy_plan("until [ -e go ]; do sleep 0.05; done; exit 7", arm="a"),
        toy_plan("echo up\n" + ESCAPES, arm="b", secrets=("TOKEN",)),
    ]
    first, second = launch(plans, {"TOKEN": "it's"}, home()).runs
    supervisor = until(lambda: see(first).supervisor_live and pid_in(first, "supervisor"), "the supervisor reports")
    assert Path(f"/proc/{supervisor}/exe").resolve().name == shell
    (first.run_dir / "go").touch()
    assert ended(first).exit_code == 7
    until(lambda: "up" in log_of(second), "the second runs")
    escaped = logged_pid(second, "escaped")
    result = stop(second, grace_s=1)
    assert escaped in result.ended and not result.left and not is_running(escaped)
    assert see(second).state is RunState.STOPPED


def test_a_root_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RLX_ROOT", "RLX_LEASES"):
        monkeypatch.setenv(variable, str(tmp_path / f"it's a $(root) of *ours* {variable}"))
    first, second = start(toy_plan('pwd; cd "$RLX_ATTEMPT_DIR"', arm="a"), toy_plan("sleep 60", arm="b"))
    assert ended(first).exit_code == 0
    assert log_of(first).strip() == str(first.run_dir)
    until(lambda: see(second).leader_live, "the second runs")
    assert not stop(second, grace_s=1).left
    assert Index(home() / "new").runs() == (first, second)


def test_a_folder_of_runs_that_another_user_made_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder another user's")
    runs = tmp_path / "root" / "runs"
    runs.mkdir(parents=True)
    runs.chmod(0o777)
    os.chown(runs, 65534, 65534)
    with pytest.raises(RlxError, match=r"\(uid 65534\)"):
        start(toy_plan("true"))
    assert list(runs.iterdir()) == [] and Index(home()).runs() == ()


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A root of 600 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    monkeypatch.setenv("RLX_ROOT", str(disk / "root"))
    yield disk
    stop_runs_below(disk / "root" / "runs")
    # Lazily: the last holder may not quite be gone.
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_does_not_hide_how_a_run_ended(small_disk: Path) -> None:
    (ref,) = start(toy_plan("cat /dev/zero >fill 2>/dev/null\necho lost in the log\nexit 9"))
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 9)


def test_a_run_on_a_full_disk_can_be_stopped(small_disk: Path) -> None:
    (ref,) = start(toy_plan("while :; do cat /dev/zero >>fill 2>/dev/null; sleep 0.1; done"))
    # Whatever is renamed or removed gives a page back for a moment.
    until(lambda: shutil.disk_usage(small_disk).free <= 8192, "the disk is full")
    reaches(ref, RunState.STARTING)
    assert not stop(ref, grace_s=2).left
    assert see(ref).state is RunState.STOPPED


def test_a_launch_that_does_not_fit_is_an_error_and_leaves_nothing(small_disk: Path) -> None:
    plan = toy_plan("true")
    values = {name: getattr(plan, name) for name in LaunchPlan.__dataclass_fields__}
    values["files"] = (*plan.files, PlannedFile("ballast", "x" * 700_000))
    values["files"] += tuple(PlannedFile(f"more/{number}", "x") for number in range(40))
    with pytest.raises(RlxError, match="No space left") as refused:
        start(LaunchPlan(**values))
    assert len(refused.value.message.splitlines()) < 10
    assert list((small_disk / "root" / "runs").iterdir()) == []
    (ref,) = start(plan)
    ended(ref)


def test_a_root_in_memory_is_said_to_be_one(small_disk: Path, wording: SnapshotAssertion) -> None:
    launched = launch([toy_plan("true")], {}, home())
    assert [settled(warning, {str(small_disk): "disk"}) for warning in launched.warnings] == wording
    ended(launched.runs[0])
    assert state_file(launched.runs[0], "exit").exists()
