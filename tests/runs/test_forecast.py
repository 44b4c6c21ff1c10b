"""Who may start delays nobody ahead: the rule in Python, and the shell of the hosts against it."""

from __future__ import annotations

import fcntl
import math
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rlx.resources import payload_folder
from rlx.runs.status.forecast import DeviceRequest, runs_to_start, start_and_end_times

_ALL = frozenset(range(8))
_QUEUES = 40
_FIRST_TICKET = 1000000001


def some_of(numbers: set[int], wanted: int, run_id: str = "run") -> DeviceRequest:
    return DeviceRequest(run_id, wanted, frozenset(numbers))


def exactly(*numbers: int, run_id: str = "run") -> DeviceRequest:
    return DeviceRequest(run_id, len(numbers), frozenset(numbers))


# ---- the rule --------------------------------------------------------------------------------------------------------


def test_who_takes_what_nobody_ahead_could_take_goes_past() -> None:
    waiting = [exactly(0, 1, 2, 3, run_id="b"), some_of({*_ALL}, 4, "c"), exactly(7, run_id="d")]
    assert runs_to_start({4, 5, 6, 7}, waiting) == {"c": (4, 5, 6, 7)}
    assert runs_to_start({4, 5, 6}, waiting) == {}, "c could take 7 as soon as it is free"
    assert runs_to_start({0, 1, 2, 3, 7}, waiting) == {"b": (0, 1, 2, 3)}, (
        "c waits for four of 4 to 7, and 7 is one of them"
    )


def test_who_does_not_say_what_it_could_take_lets_nobody_past() -> None:
    assert runs_to_start({4, 5}, [DeviceRequest("old", 1), exactly(5, run_id="next")]) == {}


def random_wish(chance: random.Random, run_id: str, seconds: float = math.inf) -> DeviceRequest:
    if chance.random() < 0.6:
        listed = frozenset(chance.sample(range(8), chance.randint(1, 4)))
        return DeviceRequest(run_id, len(listed), listed, seconds)
    # A container may see some of the devices only.
    visible = _ALL if chance.random() < 0.5 else frozenset(chance.sample(range(8), chance.randint(2, 8)))
    return DeviceRequest(run_id, chance.randint(1, len(visible)), visible, seconds)


def test_nobody_is_delayed_by_those_behind_however_long_they_run() -> None:
    """So nobody starves either: what happens to a run hangs on those ahead of it, and these are finitely many."""
    chance = random.Random(19)
    passed = 0
    for _ in range(150):
        held = {device: chance.uniform(1, 9) for device in chance.sample(range(8), chance.randint(1, 7))}
        waiting = [random_wish(chance, str(number), chance.choice([1, 3, 1000])) for number in range(6)]
        all_of_them = start_and_end_times(held, _ALL - held.keys(), waiting)
        for length in range(1, 6):
            alone = start_and_end_times(held, _ALL - held.keys(), waiting[:length])
            assert alone == {wish.run_id: all_of_them[wish.run_id] for wish in waiting[:length]}
        assert all(start < math.inf for start, _ in all_of_them.values()), "somebody starves"
        starts = [all_of_them[wish.run_id][0] for wish in waiting]
        passed += starts != sorted(starts)
    assert passed > 40, "hardly anybody went past anybody"


# ---- the shell -------------------------------------------------------------------------------------------------------

_DECIDE = """
decide() {
    leases=$1 kind=npu wanted=$2 ticket=$1/tickets/$3 open=''
    NUMBERS=$4
    find_wish
    devices=
    if ! find_earlier; then
        find_free
        choose_devices || devices=
    fi
    printf '%s\\n' "${devices# }"
}
while IFS=';' read -r folder wanted ticket numbers; do decide "$folder" "$wanted" "$ticket" "$numbers"; done
"""


def decided_by_the_shell(questions: list[str]) -> list[tuple[int, ...]]:
    parts = sorted((payload_folder() / "supervise").glob("*.sh"))
    script = "\n".join(part.read_text(encoding="utf-8") for part in parts if "main" not in part.name)
    done = subprocess.run(
        ["sh", "-c", script + _DECIDE],
        input="\n".join([*questions, ""]),
        text=True,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert done.stderr == ""
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


def this_process() -> str:
    """How a ticket names its holder: pid, start tick, boot and node."""
    tick = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return f"{os.getpid()} {tick} {boot} {os.uname().nodename}"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def make_leases(folder: Path, free: set[int], ahead: list[DeviceRequest], stack: ExitStack) -> None:
    """A folder of leases in which these wait and all but `free` are had, all of it by this process."""
    (folder / "tickets").mkdir(parents=True)
    for device in _ALL:
        (folder / f"devices/npu.{device}").mkdir(parents=True)
    for position, wish in enumerate(ahead):
        ticket = folder / f"tickets/{_FIRST_TICKET + position}.npu"
        says = "" if wish.could is None else f"{wish.count} {' '.join(map(str, sorted(wish.could)))}\n"
        ticket.write_text(f"{this_process()}\n/somewhere/{wish.run_id}\n{says}", encoding="utf-8")
        stack.enter_context(locked(ticket))
    for device in _ALL - free:
        stack.enter_context(locked(folder / f"devices/npu.{device}"))


def question(folder: Path, position: int, wish: DeviceRequest) -> str:
    assert wish.could is not None
    numbers = " ".join(map(str, sorted(wish.could)))
    wanted = "=" + numbers.replace(" ", ",") if wish.count == len(wish.could) else str(wish.count)
    return f"{folder};{wanted};{_FIRST_TICKET + position}.npu;{numbers}"


def test_the_shell_decides_as_the_rule_says(tmp_path: Path, stack: ExitStack) -> None:
    chance = random.Random(7)
    questions, expected = [], []
    for number in range(_QUEUES):
        free = {device for device in _ALL if chance.random() < 0.6}
        ahead = [random_wish(chance, str(position)) for position in range(chance.randint(0, 3))]
        # Whoever can start is about to, and keeps its place until then: the rule tells of the queue when it has.
        while starting := runs_to_start(free, ahead):
            ahead = [wish for wish in ahead if wish.run_id not in starting]
        if chance.random() < 0.1:
            ahead.append(DeviceRequest("of before", 1))
        last = random_wish(chance, "last")
        make_leases(tmp_path / str(number), free, ahead, stack)
        questions.append(question(tmp_path / str(number), len(ahead), last))
        expected.append(runs_to_start(free, [*ahead, last]).get("last", ()))
    assert decided_by_the_shell(questions) == expected
    assert sum(map(bool, expected)) > _QUEUES / 5, "hardly anybody starts"
