"""rlx pull: files of runs as they are on their host, over a real sshd."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import ExitCode
from rlx.hosts.host_errors import HostError
from rlx.model import LOCAL
from rlx.runs import RunRef
from rlx.runs.copies.pull import Pulled, PullOutcome, pull
from tests.cli.support import rlx
from tests.loopback import Loopback, loopback  # noqa: F401 - the fixture
from tests.runs.another_user import commands_as_nobody
from tests.runs.toys import ended, start, toy_plan, until
from tests.wording import settled

WRITES = r"""
echo first
echo '{"step": 1}' >"$RLX_ATTEMPT_DIR/metrics.jsonl"
echo '{"kind": "noise"}' >"$RLX_ATTEMPT_DIR/events/a host-1.jsonl"
echo answer >"$RLX_ATTEMPT_DIR/validation/1.jsonl"
mkdir -p "$RLX_RUN_DIR/checkpoints/global_step_1"
head -c 3000000 /dev/urandom >"$RLX_RUN_DIR/checkpoints/global_step_1/weights"
: >"$RLX_RUN_DIR/checkpoints/empty"
"""
EVIDENCE = {
    "manifest.json",
    "attempts/1/log",
    "attempts/1/metrics.jsonl",
    "attempts/1/events/a host-1.jsonl",
    "attempts/1/usage",
    "attempts/1/validation/1.jsonl",
}


@pytest.fixture
def far(loopback: Loopback) -> RunRef:  # noqa: F811
    plan = toy_plan(WRITES)
    (ref,) = start(replace(plan, site=replace(plan.site, place=loopback.place)))
    ended(ref)
    return ref


def outcomes(results: list[Pulled]) -> dict[str, PullOutcome]:
    return {result.path: result.outcome for result in results}


def assert_same(ref: RunRef, folder: Path, path: str) -> None:
    assert (folder / path).read_bytes() == (ref.run_dir / path).read_bytes()


def test_files_come_as_they_are(far: RunRef, tmp_path: Path) -> None:
    results = pull(far, tmp_path / "here")
    assert outcomes(results) == dict.fromkeys(EVIDENCE, PullOutcome.COPIED)
    for result in results:
        assert_same(far, tmp_path / "here", result.path)
        assert result.sha256 == hashlib.sha256((far.run_dir / result.path).read_bytes()).hexdigest()
    assert {str(path.relative_to(tmp_path / "here")) for path in (tmp_path / "here").rglob("*") if path.is_file()} == (
        EVIDENCE
    )


def test_checkpoints_come_when_they_are_wanted(far: RunRef, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    results = pull(far, tmp_path, checkpoints=True, narrate=lambda done, total: told.append((done, total)))
    assert outcomes(results).keys() - EVIDENCE == {"checkpoints/global_step_1/weights", "checkpoints/empty"}
    assert_same(far, tmp_path, "checkpoints/global_step_1/weights")
    assert told[0][0] == 0 and told[-1][0] == told[-1][1] > 3_000_000


def test_a_run_of_this_machine_can_be_pulled(far: RunRef, tmp_path: Path) -> None:
    near = replace(far, place=LOCAL)
    assert outcomes(pull(near, tmp_path)) == dict.fromkeys(EVIDENCE, PullOutcome.COPIED)


def test_again_brings_only_what_is_new(far: RunRef, tmp_path: Path) -> None:
    pull(far, tmp_path)
    with (far.run_dir / "attempts/1/log").open("a", encoding="utf-8") as log:
        log.write("more\n")
    before = (tmp_path / "attempts/1/metrics.jsonl").stat()
    told: list[tuple[int, int]] = []
    results = outcomes(pull(far, tmp_path, narrate=lambda done, total: told.append((done, total))))
    assert results.pop("attempts/1/log") is PullOutcome.COPIED
    assert set(results.values()) == {PullOutcome.PRESENT}
    assert told[-1] == (5, 5)
    assert_same(far, tmp_path, "attempts/1/log")
    assert (tmp_path / "attempts/1/metrics.jsonl").stat().st_ino == before.st_ino


@pytest.mark.parametrize("content", [b"something else", b"firsT\n", b"first\nand what the user noted"])
def test_another_file_of_that_name_is_left_alone(far: RunRef, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "attempts/1").mkdir(parents=True)
    (tmp_path / "attempts/1/log").write_bytes(content)
    results = outcomes(pull(far, tmp_path))
    assert results.pop("attempts/1/log") is PullOutcome.FOREIGN
    assert set(results.values()) == {PullOutcome.COPIED}
    assert (tmp_path / "attempts/1/log").read_bytes() == content
    assert not list(tmp_path.rglob("*.part"))


def test_a_pull_that_was_cut_goes_on_where_it_stopped(far: RunRef, tmp_path: Path) -> None:
    weights = far.run_dir / "checkpoints/global_step_1/weights"
    part = tmp_path / "checkpoints/global_step_1/weights.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(weights.read_bytes()[:2_000_000])
    told: list[tuple[int, int]] = []
    pull(far, tmp_path, checkpoints=True, narrate=lambda done, total: told.append((done, total)))
    assert told[-1][1] < 1_100_000
    assert_same(far, tmp_path, "checkpoints/global_step_1/weights")
    assert not part.exists()


@pytest.mark.parametrize("size", [2_000_000, 3_000_000, 4_000_000])
def test_a_part_that_is_not_the_beginning_is_thrown_away(far: RunRef, tmp_path: Path, size: int) -> None:
    part = tmp_path / "checkpoints/global_step_1/weights.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * size)
    results = outcomes(pull(far, tmp_path, checkpoints=True))
    assert results["checkpoints/global_step_1/weights"] is PullOutcome.COPIED
    assert_same(far, tmp_path, "checkpoints/global_step_1/weights")


def test_a_cut_cable_loses_nothing(far: RunRef, loopback: Loopback, tmp_path: Path) -> None:  # noqa: F811
    weights = far.run_dir / "checkpoints/global_step_1/weights"
    with weights.open("ab") as file:
        for _ in range(40):
            file.write(os.urandom(2_000_000))

    def cut(done: int, total: int) -> None:
        if done > 20_000_000:
            loopback.cut()

    with pytest.raises(HostError) as broken:
        pull(far, tmp_path, checkpoints=True, narrate=cut)
    assert broken.value.exit_code is ExitCode.UNREACHABLE
    part = tmp_path / "checkpoints/global_step_1/weights.part"
    kept = part.stat().st_size
    assert 0 < kept < weights.stat().st_size
    told: list[tuple[int, int]] = []
    pull(far, tmp_path, checkpoints=True, narrate=lambda done, total: told.append((done, total)))
    assert told[-1][1] < weights.stat().st_size - kept + 1000
    assert_same(far, tmp_path, "checkpoints/global_step_1/weights")


@pytest.fixture
def restless(far: RunRef) -> Iterator[Path]:
    """A log that gets longer and shorter all the time."""
    log = far.run_dir / "attempts/1/log"
    loop = (
        f"import os\nwhile True:\n    open({str(log)!r}, 'wb').write(os.urandom(4000000))\n"
        f"    os.truncate({str(log)!r}, 10)\n"
    )
    with subprocess.Popen([sys.executable, "-c", loop]) as process:
        until(lambda: log.stat().st_size > 100, "the log changes")
        yield log
        process.kill()


def test_a_file_that_changes_under_the_hands_spoils_no_other(far: RunRef, restless: Path, tmp_path: Path) -> None:
    for number in range(5):
        results = outcomes(pull(far, tmp_path / str(number)))
        log = results.pop("attempts/1/log")
        assert set(results.values()) == {PullOutcome.COPIED}
        assert log in (PullOutcome.COPIED, PullOutcome.DIFFERS)
        assert (tmp_path / str(number) / "attempts/1/log").exists() is (log is PullOutcome.COPIED)


def test_many_files_come_in_a_few_calls(far: RunRef, tmp_path: Path) -> None:
    names = [f"attempts/1/validation/{number}-{'x' * 100}.jsonl" for number in range(300)]
    for number, name in enumerate(names):
        (far.run_dir / name).write_text("answer\n" * number, encoding="utf-8")
    results = outcomes(pull(far, tmp_path))
    assert results == dict.fromkeys([*EVIDENCE, *names], PullOutcome.COPIED)
    for name in names:
        assert_same(far, tmp_path, name)


def test_what_may_not_be_read_is_named_and_the_rest_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with commands_as_nobody(monkeypatch) as folder:
        pull_as_nobody(folder, tmp_path)


def pull_as_nobody(root: Path, tmp_path: Path) -> None:
    ref = RunRef("toy-1", "l", "toy", "main", 1, LOCAL, str(root), time.time())
    attempt = ref.run_dir / "attempts" / "1"
    (attempt / "validation").mkdir(parents=True)
    (ref.run_dir / "manifest.json").write_text("{}", encoding="utf-8")
    for name in ("log", "metrics.jsonl", "validation/1.jsonl"):
        (attempt / name).write_text(name, encoding="utf-8")
    (attempt / "log").chmod(0o600)
    (attempt / "validation").chmod(0o700)
    assert outcomes(pull(ref, tmp_path)) == {
        "manifest.json": PullOutcome.COPIED,
        "attempts/1/metrics.jsonl": PullOutcome.COPIED,
        "attempts/1/log": PullOutcome.DENIED,
        "attempts/1/validation": PullOutcome.DENIED,
    }


@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_every_posix_shell_will_do(far: RunRef, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("cat", "cut", "find", "head", "sha256sum", "stat", "tail", "sh"):
        program = shutil.which("busybox" if shell == "busybox" else tool if tool != "sh" else shell)
        assert program, f"{tool} is not installed"
        (folder / tool).symlink_to(program)
    ref = replace(far, place=LOCAL)
    with monkeypatch.context() as host:
        host.setenv("PATH", str(folder))
        pull(ref, tmp_path / "here")
        with (ref.run_dir / "attempts/1/log").open("a", encoding="utf-8") as log:
            log.write("more\n")
        results = pull(ref, tmp_path / "here", checkpoints=True)
    assert all(result.is_good for result in results) and len(results) == len(EVIDENCE) + 2
    for result in results:
        assert_same(ref, tmp_path / "here", result.path)


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_says_what_came_and_where(far: RunRef, tmp_path: Path) -> None:
    done = rlx("pull", "main", "--to", str(tmp_path / "to"))
    assert done.stdout.startswith(f"{tmp_path / 'to' / far.run_id}  6 files, ")
    answer = json.loads(rlx("pull", "main", "--to", str(tmp_path / "to"), "--json").stdout)
    (run,) = answer["runs"]
    assert run["folder"] == str(tmp_path / "to" / far.run_id)
    assert {file["path"]: file["outcome"] for file in run["files"]} == dict.fromkeys(EVIDENCE, "present")


def test_a_terminal_shows_how_far_it_is(far: RunRef, tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "rlx", "pull", far.run_id, "--to", str(tmp_path), "--checkpoints"]
    with subprocess.Popen(
        command, stderr=terminal, stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm"}
    ) as done:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the terminal is gone once the command is
            while piece := os.read(screen, 4096):
                shown += piece
    os.close(screen)
    assert done.returncode == 0
    assert b"3.0/3.0 MB" in shown


def test_the_command_names_what_it_left_alone(far: RunRef, tmp_path: Path, wording: SnapshotAssertion) -> None:
    (tmp_path / far.run_id).mkdir()
    (tmp_path / far.run_id / "manifest.json").write_text("mine", encoding="utf-8")
    done = rlx("pull", far.run_id, "--to", str(tmp_path), code=1)
    assert "5 files" in done.stdout
    assert f"{far.run_id}/manifest.json: " in done.stderr
    assert settled(done.stderr, {far.run_id: "run", str(tmp_path): "folder"}) == wording


def test_a_folder_that_cannot_be_written_is_an_error(far: RunRef, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert "--to" in rlx("pull", far.run_id, "--to", str(tmp_path / "file"), code=1).stderr


def test_a_silent_host_and_an_unknown_run(far: RunRef, loopback: Loopback) -> None:  # noqa: F811
    loopback.stop()
    loopback.cut()
    assert rlx("pull", far.run_id, code=4).stderr
    assert "'nobody'" in rlx("pull", "nobody", code=12).stderr
