"""Runs on another machine: found from everywhere, watched through outages, launched over connections that break."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.hosts.host_errors import HostError, Unreachable
from rlx.model import Place, RunState
from rlx.runs import Index, RunRef, launch, stop_runs, take_snapshots
from rlx.runs.index.resolve import current_runs
from rlx.runs.logs import LONGEST, LogQuery, follow_log, read_log
from rlx.runs.queries import query_places
from tests.devices import put_program
from tests.loopback import Loopback, loopback
from tests.runs.far import Far, far
from tests.runs.toys import FOREVER, ended, home, marked_processes, reaches, see, start, start_one, toy_plan, until

__all__ = ["Loopback", "far", "loopback"]

CHATTER = 'i=0; until [ -e enough ]; do i=$((i + 1)); echo "line $i of many"; sleep 0.02; done; printf "the end"'


def test_a_second_laptop_sees_the_same_runs(far: Far, tmp_path: Path) -> None:
    refs = start(far.plan("true", arm="a"), far.plan("exit 3", arm="b"))
    for ref in refs:
        ended(ref)
    other = Index(tmp_path / "second laptop")
    assert other.runs() == ()
    other.rebuild(far.site)
    assert other.runs() == refs
    assert [seen.state for seen in take_snapshots(other, refs).values()] == [RunState.FINISHED, RunState.FAILED]


def test_a_rebuild_learns_where_the_host_is_now(far: Far) -> None:
    (ref,) = start(far.plan("true"))
    ended(ref)
    moved = Place("ssh://loop", "loop")
    index = Index(home())
    index.rebuild(type(far.site)(moved))
    assert [known.place for known in index.runs()] == [moved]


def test_a_dead_host_costs_only_its_own_line(far: Far) -> None:
    finished, going = start(far.plan("true", arm="done"), far.plan(f"echo up\n{FOREVER}", arm="going"))
    ended(finished)
    until(lambda: "up" in far.log(going), "it runs")
    reaches(going, RunState.STARTING)
    here = start_one(FOREVER)
    index, refs = Index(home()), (finished, here, going)
    far.go_down()
    seen = take_snapshots(index, refs)
    assert [seen[ref.run_id].state for ref in refs] == [RunState.FINISHED, RunState.STARTING, RunState.UNREACHABLE]
    told = seen[going.run_id].observation
    assert told.last_known is RunState.STARTING and not told.state.is_terminal
    assert "starting" in told.detail and "onnection refused" in told.detail
    assert finished.run_id in index.ended()
    # Since when stays, whoever looks, and however often.
    again = take_snapshots(Index(home()), refs)[going.run_id].observation
    assert again.unreachable_since == told.unreachable_since
    far.loopback.start()
    assert see(going).state is RunState.STARTING
    assert see(going).unreachable_since is None


def test_a_run_that_was_never_seen_is_unreachable_and_not_lost(far: Far, tmp_path: Path) -> None:
    (ref,) = start(far.plan("true"))
    ended(ref)
    far.go_down()
    seen = take_snapshots(Index(tmp_path / "new"), [ref])[ref.run_id].observation
    assert (seen.state, seen.last_known) == (RunState.UNREACHABLE, None)
    assert "onnection refused" in seen.detail and "finished" not in seen.detail


def test_a_run_that_could_not_be_found_is_unreachable_once_its_host_is(far: Far) -> None:
    """The disk with its folder may have been away for a while. Nobody here has seen its end."""
    (ref,) = start(far.plan("echo up"))
    state = far.runs / ref.run_id / "attempts/1/state"
    until(lambda: (state / "exit").exists() and not marked_processes(ref.run_id), "it has ended")
    index = Index(home())
    away = far.runs.rename(far.runs.with_name("away"))
    assert see(ref).state is RunState.LOST
    far.go_down()
    seen = take_snapshots(index, [ref])[ref.run_id].observation
    assert (seen.state, seen.last_known) == (RunState.UNREACHABLE, RunState.LOST)
    away.rename(far.runs)
    far.loopback.start()
    assert see(ref).state is RunState.FINISHED


def test_a_changed_host_key_is_no_end_of_a_run(far: Far) -> None:
    (ref,) = start(far.plan(f"echo up\n{FOREVER}"))
    until(lambda: see(ref).leader_live, "it runs")
    far.go_down()
    far.loopback.change_host_key()
    far.loopback.start()
    seen = see(ref)
    assert seen.state is RunState.UNREACHABLE
    # In the words of ssh.
    assert "HOST IDENTIFICATION HAS CHANGED" in seen.detail


def test_what_is_known_to_have_ended_is_not_asked_for_by_default(far: Far) -> None:
    (old,) = start(far.plan("true", arm="old"))
    ended(old)
    (new,) = start(toy_plan("true", arm="new"))
    far.go_down()
    assert current_runs(Index(home())) == (new,)


def test_an_answer_that_never_comes_does_not_hold_up_the_others(far: Far) -> None:
    (near,) = start(toy_plan("true"))
    (slow,) = start(far.plan("true"))
    forever = threading.Event()

    def question(place: Place, root: str, ids: object) -> str:
        if not place.is_local:
            forever.wait(60)
        return place.host

    asked = query_places([near, slow], question, deadline_s=5)
    forever.set()
    assert asked.answers == ["local"]
    assert isinstance(asked.failures[slow.place], HostError)
    ended(slow)


def test_stop_reaches_the_others_and_says_what_it_did_not_reach(far: Far) -> None:
    (away,) = start(far.plan(f"echo up\n{FOREVER}", arm="away"))
    until(lambda: "up" in far.log(away), "it runs there")
    here = start_one(FOREVER)
    far.go_down()
    refs = (away, here)
    result = stop_runs(refs, take_snapshots(Index(home()), refs), grace_s=2)
    assert list(result.stopped) == [here.run_id] and list(result.failures) == [away.run_id]
    assert isinstance(result.failures[away.run_id], Unreachable)
    assert marked_processes(away.run_id)
    far.loopback.start()
    assert list(stop_runs([away], take_snapshots(Index(home()), [away]), grace_s=2).stopped) == [away.run_id]
    assert not marked_processes(away.run_id)


# ---- logs ------------------------------------------------------------------------------------------------------------


class Follow:
    """A follow in a thread: its lines and what it told."""

    def __init__(self, ref: RunRef, query: LogQuery) -> None:
        self.lines: list[bytes] = []
        self.told: list[str] = []
        self.problem: Exception | None = None
        self._thread = threading.Thread(target=self._read, args=(ref, query), daemon=True)
        self._thread.start()

    def _read(self, ref: RunRef, query: LogQuery) -> None:
        try:
            for line in follow_log(ref, query, self.told.append):
                self.lines.append(line)
        except RlxError as problem:
            self.problem = problem

    def grows(self) -> None:
        before = len(self.lines)
        until(lambda: len(self.lines) > before or self.problem, "the next line comes", seconds=60)
        assert self.problem is None

    def outages(self) -> int:
        """Each is told twice: once when it begins, and once when the host answers again."""
        return (len(self.told) + 1) // 2

    def ends(self) -> list[bytes]:
        self._thread.join(timeout=90)
        assert not self._thread.is_alive(), self.told[-3:]
        assert self.problem is None
        return self.lines


@pytest.mark.parametrize(
    ("query", "wanted", "cuts"),
    [
        (LogQuery(), lambda line: True, 30),
        (LogQuery(pattern="[05] of"), lambda line: b"0 of" in line or b"5 of" in line, 8),
        (LogQuery(pattern="7 of", fixed=True), lambda line: b"7 of" in line, 8),
    ],
    ids=["all", "regex", "fixed"],
)
def test_a_follow_through_cuts_has_every_line_once(
    far: Far, query: LogQuery, wanted: Callable[[bytes], bool], cuts: int
) -> None:
    (ref,) = start(far.plan(CHATTER))
    follow = Follow(ref, query)
    for n in range(cuts):
        follow.grows()
        if n % 3:
            far.loopback.cut()
        else:
            far.kill_clients()
        until(lambda n=n: follow.outages() > n, "the cut is noticed")
    follow.grows()
    (far.folder(ref) / "enough").touch()
    lines = follow.ends()
    assert lines == [line for line in far.log(ref).encode().split(b"\n") if wanted(line)]
    assert follow.outages() == cuts


def test_a_follow_goes_on_after_the_sshd_was_away(far: Far, wording: SnapshotAssertion) -> None:
    (ref,) = start(far.plan(CHATTER))
    follow = Follow(ref, LogQuery())
    follow.grows()
    far.go_down()
    until(lambda: follow.told, "the outage is told")
    time.sleep(2)
    (far.folder(ref) / "enough").touch()
    far.loopback.start()
    assert follow.ends() == far.log(ref).encode().split(b"\n")
    assert len(follow.told) == 2, "an outage is told once, and its end once"
    assert follow.told[1] == wording


def test_a_follow_of_a_host_that_is_down_says_so_at_once(far: Far) -> None:
    (ref,) = start(far.plan("true"))
    ended(ref)
    far.go_down()
    with pytest.raises(Unreachable):
        list(follow_log(ref, LogQuery(), pytest.fail))
    with pytest.raises(Unreachable):
        list(read_log(ref, LogQuery()))


def test_a_follow_begins_a_new_attempt_anew(far: Far) -> None:
    (ref,) = start(far.plan(f"{CHATTER}; until [ -e attempts/2/log ]; do sleep 0.1; done"))
    follow = Follow(ref, LogQuery())
    follow.grows()
    first = far.folder(ref) / "attempts" / "1"
    (far.folder(ref) / "enough").touch()
    until(lambda: (first / "log").read_bytes().endswith(b"the end"), "the first log is whole")
    # Of a file that is about to be replaced, the new one has another name for a moment.
    second = shutil.copytree(first, first.with_name("2"), ignore=shutil.ignore_patterns("log", "*.tmp.*"))
    (second / "log").write_text("another attempt\n", encoding="utf-8")
    until((first / "state" / "exit").exists, "the first attempt ends")
    until(lambda: b"another attempt" in follow.lines, "the second log is read")
    (second / "state" / "exit").touch()
    assert follow.ends() == [*(first / "log").read_bytes().split(b"\n"), b"another attempt"]
    assert any("attempt 2" in text for text in follow.told)


@pytest.fixture
def written(far: Far) -> Iterator[Callable[[bytes], RunRef]]:
    """A run that is over, with the log that a test gives it."""

    def write(text: bytes) -> RunRef:
        (ref,) = start(far.plan("true"))
        ended(ref)
        (far.folder(ref) / "attempts" / "1" / "log").write_bytes(text)
        return ref

    yield write


LOGS = {
    "empty": b"",
    "one": b"a step",
    "no end": b"a\nb step\nc\nd step",
    "ends": b"a\nb step\nc\nd step\n",
    "blank": b"\n\nstep\n\n",
    "bytes": b"\xff\xfe step \x00 x\nstep\r\n\xf0\x9f",
}


@pytest.mark.parametrize("text", LOGS.values(), ids=LOGS)
@pytest.mark.parametrize("pattern", [None, "step$|^a", "st"])
@pytest.mark.parametrize("lines", [None, 0, 1, 2, 9])
def test_read_and_follow_of_an_ended_run_say_what_grep_and_tail_say(
    text: bytes, pattern: str | None, lines: int | None, tmp_path: Path
) -> None:
    ref = local_run(tmp_path, text)
    for fixed in (False, True) if pattern == "st" else (False,):
        query = LogQuery(lines=lines, pattern=pattern, fixed=fixed)
        there = text.removesuffix(b"\n").split(b"\n") if text else []
        picked = [line for line in there if pattern is None or matches(pattern, line)]
        wanted = picked if lines is None else picked[len(picked) - min(lines, len(picked)) :]
        assert list(read_log(ref, query)) == wanted
        assert list(follow_log(ref, query, pytest.fail)) == wanted


def matches(pattern: str, line: bytes) -> bool:
    return b"st" in line if pattern == "st" else line.endswith(b"step") or line.startswith(b"a")


def local_run(folder: Path, text: bytes) -> RunRef:
    """The files of an ended run, as far as a log is concerned."""
    attempt = folder / "root" / "runs" / "r1" / "attempts" / "1"
    (attempt / "state").mkdir(parents=True)
    (attempt / "state" / "exit").write_text("0 leader 1 1\n", encoding="utf-8")
    (attempt / "log").write_bytes(text)
    (folder / "root" / "runs" / "r1" / "latest").symlink_to("attempts/1")
    return RunRef("r1", "l1", "toy", "main", 1, Place(), str(folder / "root"), 0.0)


def test_the_last_lines_of_a_log_that_is_mostly_one_line(written: Callable[[bytes], RunRef]) -> None:
    huge = b"x" * 80_000_000
    ref = written(b"step 1\n" + huge + b" step 2\nstep 3\nnoise\n")
    for query in (LogQuery(lines=2, pattern="step"), LogQuery(pattern="step [23]")):
        for lines in (list(read_log(ref, query)), list(follow_log(ref, query, pytest.fail))):
            assert lines[1] == b"step 3"
            assert len(lines[0]) < LONGEST + 100
            assert lines[0].endswith(b"[rlx: %d more bytes of this line]" % (len(huge) + 7 - LONGEST))
    assert list(read_log(ref, LogQuery(lines=2))) == [b"step 3", b"noise"]


def test_the_last_lines_of_a_long_log_by_pattern(written: Callable[[bytes], RunRef]) -> None:
    ref = written(b"".join(b"%d %s\n" % (n, b"y" * 70) for n in range(400_000)))
    tail = [line.split()[0] for line in read_log(ref, LogQuery(lines=3, pattern="000 "))]
    assert tail == [b"397000", b"398000", b"399000"]
    assert [line.split()[0] for line in read_log(ref, LogQuery(lines=1, pattern="^7 "))] == [b"7"]
    assert len(list(follow_log(ref, LogQuery(), pytest.fail))) == 400_000


# ---- launch ----------------------------------------------------------------------------------------------------------

DYING_SSH = """#!{python}
import os, select, subprocess, sys, time
order = {order!r}
if not os.path.exists(order):
    os.execv({ssh!r}, ["ssh", *sys.argv[1:]])
most, delay = map(float, open(order).read().split())
os.unlink(order)
ssh = subprocess.Popen([{ssh!r}, *sys.argv[1:]], stdin=subprocess.PIPE)
sent = 0
while sent < most and select.select([0], [], [], 0.3)[0]:
    data = os.read(0, int(min(4096, most - sent)))
    if not data:
        break
    ssh.stdin.write(data)
    ssh.stdin.flush()
    sent += len(data)
time.sleep(delay)
ssh.kill()
ssh.wait()
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def die_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """Lets the next ssh die when it has sent that many bytes and then waited that many seconds."""
    order, program = tmp_path / "order", tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        DYING_SSH.format(python=sys.executable, order=str(order), ssh=shutil.which("ssh")), encoding="utf-8"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return lambda most, delay: (order.write_text(f"{most} {delay}", encoding="utf-8"), None)[1]


EVERYTHING = 1e9


@pytest.mark.parametrize(
    ("most", "delay"),
    [
        (0, 0.0),
        (50, 0.3),
        (4000, 0.3),
        (30_000, 0.3),
        (90_000, 0.3),
        (EVERYTHING, 0.0),
        (EVERYTHING, 0.1),
        (EVERYTHING, 0.4),
        (EVERYTHING, 1.5),
    ],
)
def test_a_launch_that_is_cut_is_nothing_or_complete_and_never_doubled(
    far: Far, die_after: Callable[[float, float], None], most: float, delay: float
) -> None:
    plans = [far.plan("echo once >>count", arm=arm) for arm in "ab"]
    die_after(most, delay)
    problem: HostError | None = None
    try:
        launch(plans, {}, home())
    except HostError as caught:
        problem = caught
    far.settle()
    there = sorted(path.name for path in far.runs.glob("*")) if far.runs.exists() else []
    assert len([name for name in there if not name.startswith(".")]) in (0, 2), "a launch is whole or not at all"
    if problem is not None:
        # Where runs may have started, the fix says how to see them.
        assert not there or "rlx status --host ssh://loop" in problem.hint
    launched = launch(plans, {}, home()) if problem is not None else None
    for ref in launched.runs if launched else Index(home()).runs():
        assert ended(ref).state is RunState.FINISHED
        assert (far.folder(ref) / "count").read_text(encoding="utf-8") == "once\n"
    assert len(list(far.runs.glob("*"))) == 2
    assert len(Index(home()).runs()) == 2


def test_a_launch_to_a_host_that_is_down_leaves_nothing_behind(far: Far) -> None:
    far.go_down()
    with pytest.raises(HostError) as caught:
        launch([far.plan("true")], {}, home())
    assert "rlx status" not in caught.value.hint and not Index(home()).runs()
    far.loopback.start()
    launched = launch([far.plan("true")], {}, home())
    assert not launched.completed
    ended(launched.runs[0])


LATE_RM = f"""while [ ! -e "$HOME/cut" ]; do sleep 0.05; done
exec {shutil.which("rm")} "$@"
"""


def test_a_launch_whose_answer_was_lost_appears_when_its_host_is_back(far: Far) -> None:
    # Who starts a run removes what one before it may have left: there the launch stands still until it is cut.
    tools = far.loopback.home / "bin"
    tools.mkdir()
    put_program(tools, "rm", LATE_RM)
    far.loopback.write_bashrc(f"PATH={tools}:$PATH\n")
    plans = [far.plan(f"echo once >>count\n{FOREVER}", arm=f"arm{n}") for n in range(6)]
    first_arrives = threading.Thread(target=lambda: until(lambda: list(far.runs.glob("toy-*")), "it arrives"))
    cut = far.loopback.home / "cut"
    cutting = threading.Thread(target=lambda: (first_arrives.join(), far.loopback.cut(), cut.touch()))
    for thread in (first_arrives, cutting):
        thread.start()
    with pytest.raises(HostError) as caught:
        launch(plans, {}, home())
    cutting.join()
    assert "rlx status --host ssh://loop" in caught.value.hint
    far.settle()
    assert len(list(far.runs.iterdir())) == 6, "what has arrived is started as a whole"
    far.go_down()
    assert Index(home()).runs() == ()
    far.loopback.start()
    refs = Index(home()).runs()
    assert sorted(ref.run_id for ref in refs) == sorted(path.name for path in far.runs.iterdir())
    again = launch(plans, {}, home())
    assert (again.completed, again.runs) == (True, refs)
    count = far.folder(refs[0]) / "count"
    until(
        lambda: see(refs[0]).leader_live and count.exists() and count.read_text(encoding="utf-8"), "the first one runs"
    )
    assert count.read_text(encoding="utf-8") == "once\n"


def test_two_laptops_launch_the_same_at_once_and_both_runs_queue(far: Far, tmp_path: Path) -> None:
    plan = far.plan("echo once >>count; sleep 0.5")
    homes = [tmp_path / name for name in ("one", "two")]
    threads = [threading.Thread(target=launch, args=([plan], {}, folder)) for folder in homes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refs = [Index(folder).runs()[0] for folder in homes]
    assert len({ref.run_id for ref in refs}) == 2
    for ref in refs:
        assert ended(ref).state is RunState.FINISHED
        manifest = json.loads((far.folder(ref) / "manifest.json").read_text(encoding="utf-8"))
        assert set(manifest["submitted_by"]) >= {"user", "machine"}
