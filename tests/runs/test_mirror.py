"""The copy of a run's evidence on this machine: what travels, and that it says what the files on the host say."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.evidence import read_evidence
from rlx.hosts import transport_for
from rlx.hosts.script_parts import run_part
from rlx.model import LOCAL
from rlx.resources import payload_folder
from rlx.runs import Index, RunPaths, RunRef, supervisor
from rlx.runs.copies import mirror, mirror_store, mirror_wire
from rlx.runs.copies.mirror import copy_runs, refresh
from rlx.runs.copies.mirror_store import Cursor
from tests.devices import put_program
from tests.runs.another_user import commands_as_nobody
from tests.runs.toys import home

NOISE = b'{"kind":"noise","phase":"rollout","step":%d,"sigma":1,"layers":2}\n'
STEP = "(TaskRunner pid=7) step:{0} - val-core/toy/acc/mean@1:0.5 - timing_s/step:1.0\n"


class Run:
    """A run directory on the "host", and its copy."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "a root", folder / "mirror"
        self.dir = self.root / "runs" / "r1"
        self.attempt = self.dir / "attempts" / "1"
        for name in ("state", "events", "validation"):
            (self.attempt / name).mkdir(parents=True)
        self.write("../../manifest.json", b"{}")
        self.write("log", b"")

    def write(self, name: str, data: bytes) -> None:
        (self.attempt / name).write_bytes(data)

    def append(self, name: str, data: bytes) -> None:
        with (self.attempt / name).open("ab") as file:
            file.write(data)

    def refresh(self, *, whole: bool = True) -> Cursor:
        return copy_runs(self.home, LOCAL, str(self.root), ["r1"], whole=whole)["r1"]

    @property
    def copy(self) -> Path:
        return self.home / "r1" / "attempts" / "1"

    def asked(self) -> list[mirror_wire.FileFrame]:
        """What another refresh would bring."""
        files = mirror_store.read_cursor(self.home / "r1").files
        known = {f"r1/{path}": (file.inode, file.bytes) for path, file in files.items()}
        request = mirror_wire.request(str(self.root), ["r1"], known, 60)
        return mirror_wire.frames_of(LOCAL, request, run_part(transport_for(LOCAL), request.part, 60))

    def assert_same_evidence(self) -> None:
        assert read_evidence(RunPaths(self.home / "r1").attempts) == read_evidence(RunPaths(self.dir).attempts)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def fill(run: Run, steps: range = range(1, 4)) -> None:
    for step in steps:
        run.append("log", b"chatter " * 1000 + b"\n" + STEP.format(step).encode())
        run.append("metrics.jsonl", b'{"step": %d, "data": {"timing_s/step": 1.0}}\n' % step)
        run.append(
            "events/aqn-h-1.jsonl", b'{"kind":"noise","phase":"rollout","step":%d,"sigma":1,"layers":2}\n' % step
        )
        run.write(f"validation/{step}.jsonl", b'{"input": "a long one"}\n' * 100)


def test_the_copy_says_what_the_run_directory_says(run: Run) -> None:
    fill(run)
    run.write("provenance.json", b'{"python": "3"}')
    run.write("console_config", b"{'actor_rollout_ref': 1}\n")
    run.write("state/exit", b"0 leader 100 100\n")
    run.refresh()
    run.assert_same_evidence()
    assert (run.copy / "provenance.json").read_bytes() == b'{"python": "3"}'
    assert (run.copy / "console_config").read_bytes() == b"{'actor_rollout_ref': 1}\n"
    assert (run.copy / "state" / "exit").exists()
    evidence = read_evidence([run.copy])
    assert evidence.last_step == 3 and len(evidence.noise) == 3 and evidence.answers == {1: 100, 2: 100, 3: 100}


def test_only_lines_that_say_something_are_copied(run: Run) -> None:
    fill(run)
    run.refresh()
    assert (run.attempt / "log").stat().st_size > 20_000
    assert (run.copy / "log").read_bytes() == b"".join(STEP.format(step).encode() for step in (1, 2, 3))


def test_what_is_known_does_not_travel_again(run: Run) -> None:
    fill(run)
    run.refresh()
    assert run.asked() == []
    fill(run, range(4, 5))
    frames = {frame.path.rpartition("/")[2]: frame for frame in run.asked()}
    assert frames.keys() == {"log", "metrics.jsonl", "aqn-h-1.jsonl", "4.jsonl"}
    assert frames["metrics.jsonl"].data == b'{"step": 4, "data": {"timing_s/step": 1.0}}\n'
    assert frames["log"].data == STEP.format(4).encode()
    run.refresh()
    run.assert_same_evidence()


def test_no_news_are_told_without_choosing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host compares two texts, for which this side has to know in which order it lists files."""
    fill(run, range(1, 12))
    run.write("state/exit", b"0 leader 100 100\n")
    (run.dir / "stop").write_bytes(b"")
    run.append("events/aqn-g-1.jsonl", NOISE % 1)
    shutil.copytree(run.attempt, run.dir / "attempts" / "2")
    run.refresh()
    programs = tmp_path / "programs"
    programs.mkdir()
    put_program(programs, "awk", f"echo asked >{tmp_path}/asked")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert run.asked() == [] and not (tmp_path / "asked").exists()
    run.append("metrics.jsonl", b"{}\n")
    run.asked()
    assert (tmp_path / "asked").exists()


def test_a_line_is_copied_when_it_is_whole(run: Run) -> None:
    run.append("log", b"bar\rTraining Progress:  50%|x| 1/2 [\rstep:1 - a:0.2")
    run.refresh()
    assert b"step:1" not in (run.copy / "log").read_bytes()
    assert b"Progress" in (run.copy / "log").read_bytes()
    run.append("log", b"5 - b:1\n")
    run.refresh()
    assert read_evidence([run.copy]).metrics == {1: {"a": 0.25, "b": 1}}


def test_of_a_run_that_is_over_the_last_line_counts_without_an_end(run: Run) -> None:
    run.append("log", b"step:1 - a:0.25")
    run.refresh()
    assert not read_evidence([run.copy]).metrics
    run.write("state/exit", b"1 leader 100 100\n")
    run.refresh()
    run.assert_same_evidence()
    assert read_evidence([run.copy]).metrics == {1: {"a": 0.25}}


def replaced_by_another(run: Run, name: str, data: bytes) -> None:
    (run.attempt / "new").write_bytes(data)
    (run.attempt / "new").replace(run.attempt / name)


def rewritten_in_place(run: Run, name: str, data: bytes) -> None:
    run.write(name, data)


@pytest.mark.parametrize("change", [replaced_by_another, rewritten_in_place])
@pytest.mark.parametrize("steps", [2, 40])
def test_a_file_that_is_another_one_now_is_copied_anew(
    run: Run, change: Callable[[Run, str, bytes], None], steps: int
) -> None:
    fill(run, range(1, 11))
    run.refresh()
    change(run, "log", b"".join(b"step:%d - a:%d\n" % (step, step + 100) for step in range(1, 100 * steps)))
    change(run, "metrics.jsonl", b"".join(b'{"step":%d,"data":{"b":7}}\n' % step for step in range(1, steps)))
    run.refresh()
    run.assert_same_evidence()


def test_a_truncated_file_is_copied_anew(run: Run) -> None:
    fill(run)
    run.refresh()
    for name in ("log", "metrics.jsonl", "validation/2.jsonl"):
        os.truncate(run.attempt / name, 0)
    run.refresh()
    assert not (run.copy / "log").read_bytes() and not (run.copy / "metrics.jsonl").read_bytes()
    run.append("log", STEP.format(9).encode())
    run.refresh()
    run.assert_same_evidence()


def test_a_file_that_grows_while_it_is_read_breaks_nothing(run: Run) -> None:
    write = (
        "import sys\n"
        "with open(sys.argv[1], 'ab', 0) as log, open(sys.argv[2], 'ab', 0) as metrics:\n"
        "    for step in range(1, 3001):\n"
        "        log.write(b'chatter %d\\n' % step * 50 + b'step:%d - a:%d\\n' % (step, step))\n"
        '        metrics.write(b\'{"step":%d,"data":{"a":%d}}\\n\' % (step, step))\n'
    )
    files = [str(run.attempt / name) for name in ("log", "metrics.jsonl")]
    with subprocess.Popen([sys.executable, "-c", write, *files]) as writer:
        while writer.poll() is None:
            run.refresh()
            evidence = read_evidence([run.copy])
            assert all(values == {"a": step} for step, values in evidence.metrics.items())
    run.refresh()
    run.assert_same_evidence()
    assert read_evidence([run.copy]).last_step == 3000


@pytest.fixture
def shrinking(run: Run) -> Iterator[subprocess.Popen[bytes]]:
    name = str(run.attempt / "metrics.jsonl")
    loop = f"import os\nwhile True:\n    open({name!r}, 'wb').write(b'x' * 300000)\n    os.truncate({name!r}, 10)\n"
    with subprocess.Popen([sys.executable, "-c", loop]) as process:
        yield process
        process.kill()


def test_a_file_that_shrinks_while_it_is_read_shifts_no_other(run: Run, shrinking: subprocess.Popen[bytes]) -> None:
    fill(run)
    for _ in range(10):
        replaced_by_another(run, "provenance.json", b"%d" % time.time_ns())
        run.refresh()
        for name in ("log", "provenance.json", "events/aqn-h-1.jsonl"):
            whole = b"".join(STEP.format(step).encode() for step in (1, 2, 3))
            expected = whole if name == "log" else (run.attempt / name).read_bytes()
            assert (run.copy / name).read_bytes() == expected


def test_a_large_log_comes_in_several_calls(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(run, range(1, 30))
    monkeypatch.setattr(mirror_wire, "_READ_BYTES", 50_000)
    monkeypatch.setattr(mirror, "_PATIENCE_S", -1.0)
    cursor = run.refresh(whole=False)
    assert cursor.left > 0
    cursor = run.refresh()
    assert cursor.left == 0
    run.assert_same_evidence()


def test_where_not_all_has_room_runs_come_one_after_the_other(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came of half a run would be read, judged and shown, and all that again with the other half."""
    fill(run, range(1, 30))
    other = Run(tmp_path / "other")
    fill(other, range(1, 30))
    other.dir.rename(run.dir.with_name("r2"))
    metrics = (run.attempt / "metrics.jsonl").stat().st_size + (run.attempt / "events/aqn-h-1.jsonl").stat().st_size
    monkeypatch.setattr(mirror_wire, "_FILE_BYTES", metrics)
    monkeypatch.setattr(mirror, "_PATIENCE_S", -1.0)
    first, second = copy_runs(run.home, LOCAL, str(run.root), ["r1", "r2"], whole=False).values()
    assert first.left == 0
    assert second.left and second.files["attempts/1/log"].bytes == 0
    run.assert_same_evidence()
    second = copy_runs(run.home, LOCAL, str(run.root), ["r1", "r2"], whole=False)["r2"]
    assert second.left == 0


def test_an_endless_line_does_not_travel_for_a_word_in_it(run: Run) -> None:
    run.append("log", STEP.format(1).encode() + b"step: 0123456789 " * 2_000_000 + b"\n" + STEP.format(2).encode())
    run.append("log", b"0123456789" * 2_000_000 + b" " + STEP.format(3).encode())
    run.refresh()
    assert list(read_evidence([run.copy]).metrics) == [1, 2, 3]
    assert (run.copy / "log").read_bytes().count(b"0123456789") < 4_400_000


@pytest.fixture
def as_nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with commands_as_nobody(monkeypatch) as folder:
        yield Run(folder)


def test_what_may_not_be_read_is_said_to_be_lacking(as_nobody: Run) -> None:
    run = as_nobody
    fill(run)
    (run.attempt / "log").chmod(0)
    assert run.refresh().files["attempts/1/log"].denied
    (run.attempt / "log").chmod(0o644)
    assert not run.refresh().files["attempts/1/log"].denied
    run.assert_same_evidence()


@pytest.mark.parametrize(("folder", "name"), [("events", "attempts/1/events"), ("..", "attempts"), ("../..", ".")])
def test_a_closed_folder_hides_nothing_without_a_word(as_nobody: Run, folder: str, name: str) -> None:
    """A training whose umask is 077 makes such ones; without events, a run would be said to have had no noise."""
    run = as_nobody
    fill(run)
    (run.attempt / folder).chmod(0o700)
    assert run.refresh().files[name].denied
    (run.attempt / folder).chmod(0o755)
    assert name not in run.refresh().files
    run.assert_same_evidence()


@pytest.mark.parametrize("name", ["log", "events", "events/aqn-h-1.jsonl"])
def test_on_this_machine_too_what_may_not_be_read_is_said_to_be_lacking(as_nobody: Run, name: str) -> None:
    run = as_nobody
    fill(run)
    ref = RunRef("r1", "l1", "toy", "main", 1, LOCAL, str(run.root), 0.0)
    index = Index(home())
    (run.attempt / name).chmod(0)
    assert name in seen_by_nobody(lambda: refresh(index, [ref])["r1"].lacks)
    (run.attempt / name).chmod(0o755)
    assert seen_by_nobody(lambda: refresh(index, [ref])["r1"].lacks) == ""


def seen_by_nobody(look: Callable[[], str]) -> str:
    """The answer of a child process that is nobody's."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setuid(65534)
        os.write(writing, look().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    return text


def test_a_copy_by_other_rules_is_made_anew(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(run)
    with monkeypatch.context() as older:
        older.setattr(mirror_store, "_rules", lambda: "older")
        older.setattr(mirror_wire, "needles", lambda: (b"nothing",))
        run.refresh()
        assert (run.copy / "log").read_bytes() == b""
    run.refresh()
    run.assert_same_evidence()


def in_no_time(run: Run) -> list[mirror_wire.FileFrame]:
    """The answer of a host that may not read for a second even."""
    script = payload_folder() / "mirror.sh"
    files = mirror_store.read_cursor(run.home / "r1").files
    known = "".join(f"{file.inode} {file.bytes} r1/{path}\n" for path, file in files.items())
    request = supervisor.layout() + script.read_text(encoding="utf-8") + f"answer r1 '{known.strip()}'\n"
    command = ["sh", "-s", "--", str(run.root), "m", "step:", "1000", "1000000", "1000000", "0"]
    answer = subprocess.run(command, input=request.encode(), capture_output=True, check=True).stdout
    frames = mirror_wire.parse_frames(gzip.decompress(answer), "m")
    assert frames is not None
    return frames


def test_what_did_not_come_in_time_comes_later(run: Run) -> None:
    fill(run)
    cursor = mirror_store.add(run.home / "r1", in_no_time(run), time.time())
    assert {file.bytes for file in cursor.files.values()} == {0} and cursor.left > 20_000
    run.refresh()
    run.assert_same_evidence()
    fill(run, range(4, 6))
    cursor = mirror_store.add(run.home / "r1", in_no_time(run), time.time())
    assert 0 < cursor.files["attempts/1/metrics.jsonl"].left < cursor.files["attempts/1/metrics.jsonl"].bytes
    assert run.refresh().left == 0
    run.assert_same_evidence()


def test_a_run_that_is_gone_leaves_its_copy(run: Run) -> None:
    fill(run)
    run.refresh()
    shutil.rmtree(run.root)
    run.refresh()
    assert read_evidence([run.copy]).last_step == 3


# ---- several rlx, and killed ones ------------------------------------------------------------------------------------

REFRESH = """
import sys
from pathlib import Path
from rlx.model import LOCAL
from rlx.runs.copies.mirror import copy_runs
for _ in range(int(sys.argv[3])):
    copy_runs(Path(sys.argv[1]), LOCAL, sys.argv[2], ["r1"], whole=True)
"""


def refreshing(run: Run, times: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", REFRESH, str(run.home), str(run.root), str(times)])


def test_two_at_once_do_no_harm(run: Run) -> None:
    several = [refreshing(run, 15) for _ in range(2)]
    step = 0
    while any(process.poll() is None for process in several):
        step += 1
        fill(run, range(step, step + 1))
        time.sleep(0.01)
    assert [process.returncode for process in several] == [0, 0]
    run.refresh()
    run.assert_same_evidence()
    assert (run.copy / "metrics.jsonl").read_bytes() == (run.attempt / "metrics.jsonl").read_bytes()


def test_a_killed_refresh_is_repaired_by_the_next(run: Run) -> None:
    step = 0
    for delay in range(12):
        process = refreshing(run, 1000)
        ends = time.monotonic() + 0.2 + 0.05 * delay
        while time.monotonic() < ends:
            step += 1
            fill(run, range(step, step + 1))
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        evidence = read_evidence(RunPaths(run.home / "r1").attempts)
        assert all(values.get("timing_s/step") == 1 for values in evidence.metrics.values())
    run.refresh()
    run.assert_same_evidence()
    assert (run.copy / "metrics.jsonl").read_bytes() == (run.attempt / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["log", "metrics.jsonl"])
@pytest.mark.parametrize("tail", [b"half a li", None])
def test_what_a_crash_leaves_is_cut_off_or_copied_anew(run: Run, name: str, tail: bytes | None) -> None:
    fill(run)
    run.refresh()
    if tail:
        (run.copy / name).write_bytes((run.copy / name).read_bytes() + tail)
    else:
        os.truncate(run.copy / name, 7)
    fill(run, range(4, 6))
    run.refresh()
    run.assert_same_evidence()


def test_a_cursor_that_is_no_cursor_is_no_obstacle(run: Run) -> None:
    fill(run)
    run.refresh()
    for junk in (b"", b"[1]", b'{"as_of": 1, "rules"', b"\xff"):
        (run.home / "r1" / "cursor.json").write_bytes(junk)
        run.refresh()
        run.assert_same_evidence()


# ---- the answer ------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.binary(max_size=200), st.sampled_from([b"", b"\n", b"\r", b"step:7 - a:1", b" end\n"]))))
def test_any_bytes_arrive_as_they_are(tmp_path: Path, parts: list[tuple[bytes, bytes]]) -> None:
    run = Run(tmp_path / str(time.monotonic_ns()))
    written = b""
    for junk, more in parts[:4]:
        run.append("metrics.jsonl", junk + more)
        run.append("log", junk + more + b"\n" + STEP.format(3).encode())
        written += junk + more
        run.refresh()
        run.assert_same_evidence()
        assert (run.copy / "metrics.jsonl").read_bytes() == written


def test_an_answer_that_is_cut_is_none() -> None:
    whole = b"m grown 1 0 3 0 - 5 r1/attempts/1/metrics.jsonl\nabcm end\n"
    frames = mirror_wire.parse_frames(whole, "m")
    assert frames is not None and [frame.data for frame in frames] == [b"abc"]
    for length in range(len(whole)):
        assert mirror_wire.parse_frames(whole[:length], "m") is None


@pytest.mark.parametrize("shell", ["dash", "busybox", "all of busybox", "no gzip"])
def test_every_posix_shell_will_do(run: Run, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = "awk cat cksum cut fold grep gzip head stat tail tr wc xargs sh"
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in tools.split():
        program = shutil.which("busybox" if shell == "all of busybox" or (tool, shell) == ("sh", "busybox") else tool)
        assert program
        (folder / tool).symlink_to(program)
    if shell == "no gzip":
        (folder / "gzip").unlink()
    monkeypatch.setenv("PATH", str(folder))
    fill(run)
    run.append("log", b"\0\0\0" + STEP.format(4).encode())
    run.refresh()
    fill(run, range(5, 8))
    run.refresh()
    run.assert_same_evidence()
    assert run.asked() == []


def test_answers_are_compressed(run: Run) -> None:
    fill(run, range(1, 300))
    data = (run.attempt / "metrics.jsonl").read_bytes()
    assert len(gzip.compress(data, 1)) < len(data) / 4
    seen: list[int] = []
    for frames in (run.asked(), run.asked()):
        seen.append(sum(len(frame.data) for frame in frames))
    assert seen[0] == seen[1] > 20_000


def test_a_host_without_the_tools_is_an_error(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(shutil.which("dash") or "/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(RlxError, match=r"mirror\.sh") as caught:
        run.refresh()
    assert caught.value.message == wording
