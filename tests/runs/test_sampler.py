"""What the sampler of a run writes down, what that costs, and that nothing of it stays, whatever npu-smi does.

The sampler is the real one with shorter pauses; npu-smi is a script, since no machine here has an NPU.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rlx.evidence.reading.usage_file import DeviceSample, Usage, last_sample, read_kills, read_usage
from rlx.runs import RunPaths, supervisor
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.runs.toys import FOREVER, ended, is_running, pid_in, start_one, state_file, until

TABLES = CASES.parent / "rig/npu_smi"
QUICK = {"SAMPLE_FIRST_S": "0", "SAMPLE_S": "1", "SAMPLE_NAP_S": "0.1"}
"""Pauses that a test can wait for, and shares of CPU and time at which they decide and not what a sample has cost."""
CHEAP = {"COST_MS": "500", "WALL": "1"}


@dataclass
class Watched:
    """A run directory whose supervisor is a process of the test, and its sampler."""

    folder: Path
    supervisor: subprocess.Popen[bytes]
    samplers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def run(self) -> Path:
        """Of a name that no other test has: a clean-up ends what is marked with it, wherever it was started."""
        return self.folder / f"run-{self.supervisor.pid}"

    @property
    def attempt(self) -> Path:
        return self.run / "attempts/1"

    @property
    def usage(self) -> Usage:
        return read_usage(self.attempt)

    def plays(self, program: str) -> None:
        path = self.folder / "bin/npu-smi"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
        path.chmod(0o755)

    def sampled(self, kind: str, devices: str, **settings: str) -> subprocess.Popen[bytes]:
        (self.folder / "supervise.sh").write_text(with_settings(QUICK | CHEAP | settings), encoding="utf-8")
        command = ["sh", str(self.folder / "supervise.sh"), "sample", str(self.run), kind, devices]
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        self.samplers.append(subprocess.Popen(command, env={**os.environ, "PATH": path}, start_new_session=True))
        (self.attempt / "state/sampler").write_text(ident(self.samplers[-1].pid), encoding="utf-8")
        return self.samplers[-1]

    def samples(self, count: int) -> Usage:
        return until(lambda: usage if len((usage := self.usage).samples) >= count else None, f"{count} samples")

    def cleans_up(self) -> None:
        """What the supervisor, or the holder after it, does at the end of a run."""
        parts = supervisor.script().partition("\ncase ${1:-} in\n")[0]
        text = f'{parts}\nfind_attempt "$1"\nclean_up "$1" 0\n'
        subprocess.run(["sh", "-s", "--", self.run], input=text.encode(), check=True)


def with_settings(settings: Mapping[str, str]) -> str:
    """supervise.sh with other values of some of its settings."""
    text = supervisor.script()
    for name, value in settings.items():
        text, found = re.subn(rf"^{name}=\S+", f"{name}={value}", text, count=1, flags=re.MULTILINE)
        assert found == 1, name
    return text


def ident(pid: int) -> str:
    tick = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    boot, node = (
        Path(f"/proc/sys/kernel/{name}").read_text(encoding="utf-8").strip() for name in ("random/boot_id", "hostname")
    )
    return f"{pid} {tick} {boot} {node}\n"


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    stand_in = subprocess.Popen(["sleep", "300"])
    found = Watched(tmp_path, stand_in)
    (found.attempt / "state").mkdir(parents=True)
    (found.attempt / "state/supervisor").write_text(ident(stand_in.pid), encoding="utf-8")
    yield found
    for process in (stand_in, *found.samplers):
        process.kill()
        process.wait()


def session_of(leader: int) -> list[int]:
    """The live processes of the session that this process leads."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        found += [int(path.parent.name)] if words[3] == str(leader) and words[0] not in "ZX" else []
    return found


def test_the_devices_of_the_run_are_told_and_no_others(watched: Watched) -> None:
    watched.plays(f"cat {TABLES}/a3-ascend910-busy.txt")
    (watched.attempt / "metrics.jsonl").write_text('{"step": 1}\n', encoding="utf-8")
    watched.sampled("npu", "1 9 10")
    (first, *_) = watched.samples(1).samples
    assert [use.device for use in first.devices] == [1, 9, 10]
    assert all(use.total == 65536 and use.celsius and use.busy is not None for use in first.devices)
    assert first.metrics is not None and first.metrics[0] == 12
    assert first.host is not None and 0 < first.host[0] < first.host[1]
    # The pids of that table are those of another machine: whose memory it is, nobody can say.
    assert (first.devices[0].own, first.devices[0].others) == (None, None)
    # Nobody uses device 10.
    assert (first.devices[2].own, first.devices[2].others) == (0, 0)
    # Two looks see the same only if nothing is written in between.
    watched.cleans_up()
    assert last_sample(watched.attempt) == watched.usage.samples[-1]


def test_memory_of_neighbours_is_told_from_that_of_the_run(watched: Watched) -> None:
    mine = subprocess.Popen(["sleep", "300"], env={"RLX_RUN": watched.run.name, "PATH": os.environ["PATH"]})
    table = (TABLES / "a2-910b2-busy.txt").read_text(encoding="utf-8")
    table = table.replace("30551", f"{mine.pid:<5}").replace("30977", f"{os.getpid():<5}")
    (watched.folder / "table").write_text(table, encoding="utf-8")
    watched.plays(f"cat {watched.folder}/table")
    try:
        watched.sampled("npu", "5")
        (first, *_) = watched.samples(1).samples
    finally:
        mine.kill()
        mine.wait()
    assert first.devices == (DeviceSample(5, 16245, 65536, 87, 42, 12034, 804),)
    assert first.processes == 1 and first.own is not None and first.own_cpu is not None


@pytest.mark.parametrize(
    ("program", "says"),
    [("echo 'dcmi module initialize failed'; exit 1", "unreadable"), ("head -c 60000 /dev/urandom", "unreadable")],
)
def test_a_program_that_says_nothing_readable_is_said_to(watched: Watched, program: str, says: str) -> None:
    watched.plays(program)
    watched.sampled("npu", "0 1")
    (first, *_) = watched.samples(1).samples
    assert (first.devices, first.says) == ((), says)
    assert first.host is not None


def test_a_host_without_the_program_still_tells_its_memory(watched: Watched) -> None:
    watched.sampled("npu", "0")
    (first, *_) = watched.samples(1).samples
    assert first.says == "missing" and first.host is not None


def test_a_program_that_hangs_is_ended_in_time_and_asked_seldom(watched: Watched) -> None:
    watched.plays("trap '' TERM; echo $$ >>$0.pids; sleep 300")
    watched.sampled("npu", "0", FOREIGN_S="3", WALL="4")
    first, second = watched.samples(2).samples[:2]
    assert (first.says, second.says) == ("silent", "silent")
    # What it took, and four times that; each time is cut to whole seconds.
    assert second.at - first.at >= 3 + 4 * 3 - 3
    asked = [int(pid) for pid in (watched.folder / "bin/npu-smi.pids").read_text(encoding="utf-8").split()]
    until(lambda: not any(map(is_running, asked[:2])), "what hung is ended")


def test_nothing_of_a_sampler_outlives_its_run_whatever_it_waits_for(watched: Watched) -> None:
    """The deadline is far away; a process of somebody else that looks alike stays."""
    watched.plays("trap '' TERM; echo $$ >>$0.pids; sleep 300")
    twin = subprocess.Popen(["sleep", "300"], start_new_session=True)
    sampler = watched.sampled("npu", "0", FOREIGN_S="200")
    try:
        until((watched.folder / "bin/npu-smi.pids").exists, "npu-smi hangs")
        assert len(session_of(sampler.pid)) > 2
        watched.cleans_up()
        sampler.wait(60)
        until(lambda: not session_of(sampler.pid), "all of it has ended")
        assert twin.poll() is None and watched.supervisor.poll() is None
    finally:
        twin.kill()
        twin.wait()


def test_a_sampler_whose_supervisor_was_killed_goes_by_itself(watched: Watched) -> None:
    sampler = watched.sampled("cpu", "0")
    watched.samples(1)
    watched.supervisor.kill()
    watched.supervisor.wait()
    assert sampler.wait(60) is not None


def test_a_costly_program_is_asked_as_seldom_as_its_cost_demands(watched: Watched) -> None:
    """It takes its CPU in a child of its own. What a sample has cost is due for twice that before the next one."""
    watched.plays(f"i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; cat {TABLES}/a2-910b2.txt")
    watched.sampled("npu", "0", COST_MS="80")
    first, second = watched.samples(2).samples[:2]
    # The loop takes hundreds of ms anywhere, which a sampler that forgot its children would not see.
    assert first.cost == 0 and second.cost is not None and second.cost >= 100
    # The pause counts from the start of the sampler, and each time is cut to whole seconds.
    assert second.at - first.at >= 2 * second.cost / 80 - 2.5


def test_the_longer_a_run_is_the_rarer_are_its_samples(watched: Watched) -> None:
    watched.sampled("cpu", "0", SAMPLES="1")
    times = [sample.at for sample in watched.samples(3).samples]
    assert times[1] - times[0] >= 1 and times[2] - times[1] >= 3


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisors that are launched here sample at once."""
    text = with_settings(QUICK | CHEAP)
    monkeypatch.setattr(supervisor, "script", lambda *_: text)


@pytest.mark.usefixtures("short_pauses")
def test_a_run_on_a_cpu_tells_what_its_own_processes_take() -> None:
    ref = start_one("python3 -c 'x = bytearray(300 << 20); import time; time.sleep(300)' &\n" + FOREVER)
    attempt = RunPaths(ref.run_dir).latest

    def grown() -> bool:
        return any((sample.own or 0) > 300 for sample in read_usage(attempt).samples)

    until(grown, "the sampler sees the memory of the run")
    shown = rlx("status", "-v").stdout
    assert re.search(r" \d+ s .*\b[\d.]+ of [\d.]+ GiB, .*\b0\.\d in \d+ ", shown)
    sampler = pid_in(ref, "sampler")
    os.kill(pid_in(ref, "leader"), signal.SIGKILL)
    ended(ref)
    until(lambda: not is_running(sampler), "the sampler ends")
    usage = read_usage(attempt)
    assert usage.kind == "cpu" and usage.kills is not None and usage.kills.count == 0
    # A look that was under way may still end after that.
    assert any(
        line.startswith("end kills=") for line in (attempt / "usage").read_text(encoding="utf-8").splitlines()[-2:]
    )
    assert read_kills(attempt, 1) is None
    assert state_file(ref, "exit").exists()
