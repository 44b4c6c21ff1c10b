"""Whatever a log holds: nothing raises, and a known line is found with its number."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rlx.evidence.diagnosis import Diagnosis, diagnose, needle_pattern, read_excerpt
from rlx.model import RunState
from rlx.resources import payload_folder
from rlx.runs.judging.diagnose_runs import diagnose_log
from tests.conftest import CASES

OOM = b"(WorkerDict pid=9) RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB"
HARMLESS = st.binary(max_size=200).filter(lambda text: b"\n" not in text and b"rror" not in text)
RECORDS = st.builds(
    lambda number, mark, text: b"%d%s%s" % (number, mark, text),
    st.integers(0, 10**16),
    st.sampled_from([b":", b"-", b"=", b"+", b"?"]),
    st.one_of(
        st.binary(max_size=80),
        st.sampled_from([OOM, b"Traceback (most recent call last):", b'  File "a.py", line 3, in f', b"x.Y: z", b"4"]),
    ),
)


def explain(log: bytes) -> Diagnosis:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(log)
        return diagnose_log(path).diagnosis


@given(st.lists(RECORDS, max_size=40), st.sampled_from([None, *RunState]))
def test_no_answer_of_a_host_raises(records: list[bytes], state: RunState | None) -> None:
    found = diagnose(read_excerpt([b"size 7", *records]), state, 1)
    assert found.log_bytes == 7


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(HARMLESS, max_size=20), st.lists(HARMLESS, max_size=20))
@example([], [])
@example([b"\x00\xff", b"\x1b]0;title\x07"], [b"\r\r"])
def test_a_known_line_is_found_at_its_number(before: list[bytes], after: list[bytes]) -> None:
    cause = explain(b"\n".join([*before, OOM, *after])).cause
    assert cause is not None and (cause.id, cause.line) == ("RLX804", len(before) + 1)


def test_the_rest_of_a_line_with_a_progress_bar_is_read() -> None:
    bars = b"\r".join(b"Training Progress: %d/29 [00:01<00:02]" % number for number in range(400))
    cause = explain(bars + b"\r" + OOM + b"\n").cause
    assert cause is not None and cause.id == "RLX804" and "Progress" not in cause.text


def test_processes_may_talk_at_once() -> None:
    """A frame of one process before the last word of another, and their tracebacks line by line."""
    log = b"""(W pid=1) Traceback (most recent call last):
(W pid=2) Traceback (most recent call last):
(W pid=1)   File "/me/one.py", line 1, in one
(W pid=2)   File "/me/two.py", line 2, in two
(W pid=1)     go()
(W pid=1)   File "/me/deep.py", line 3, in deep
(W pid=2) RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB
(W pid=1) ZeroDivisionError: division by zero
"""
    cause = explain(log).cause
    assert cause is not None and (cause.id, cause.line, cause.at) == ("RLX804", 7, "/me/two.py:2 in two")


def test_many_lines_alike_are_counted_and_told_once() -> None:
    lines = [b"(W pid=%d) WARN: grad_norm is not finite" % number for number in range(5000)]
    found = explain(b"\n".join([*lines, OOM]))
    assert found.cause is not None and (found.cause.id, found.cause.line) == ("RLX804", 5001)
    (warning,) = found.warnings
    assert (warning.id, warning.line, warning.times) == ("RLX839", 1, 5000)


@pytest.mark.long
@pytest.mark.parametrize("fill", [b"x", b"Training Progress: 3/29 \r"])
def test_a_huge_line_is_cut_and_what_follows_is_found(fill: bytes) -> None:
    cause = explain(fill * (8_000_000 // len(fill)) + b"\n" + OOM + b"\n").cause
    assert cause is not None and cause.id == "RLX804"


@pytest.mark.skipif(shutil.which("busybox") is None, reason="no busybox")
@pytest.mark.parametrize("case", ["npu-memory-full", "worker-killed", "healthy-lines"])
def test_busybox_says_the_same(case: str, tmp_path: Path) -> None:
    subprocess.run(["busybox", "--install", "-s", str(tmp_path)], check=True)
    log, script = CASES / "diagnosis" / case / "log", (payload_folder() / "diagnose.sh").read_text(encoding="utf-8")
    said = [
        subprocess.run(
            ["sh", "-c", script, "rlx-diagnose", log, needle_pattern()], capture_output=True, env=env, check=True
        )
        for env in (None, {"PATH": str(tmp_path)})
    ]
    assert sorted(said[0].stdout.splitlines()) == sorted(said[1].stdout.splitlines()) and said[1].stderr == b""


def test_a_host_without_grep_says_so(tmp_path: Path) -> None:
    (tmp_path / "awk").symlink_to("/bin/true")
    (tmp_path / "fold").symlink_to("/bin/true")
    script = (payload_folder() / "diagnose.sh").read_text(encoding="utf-8")
    sh = shutil.which("sh")
    assert sh is not None
    said = subprocess.run(
        [sh, "-c", script, "x", "/tmp", "x"], capture_output=True, env={"PATH": str(tmp_path)}, check=True
    )
    assert read_excerpt(said.stdout.splitlines()).lacks == "grep" and said.stderr == b""


def test_the_first_cause_by_time_is_the_cause() -> None:
    later = b"OSError: [Errno 28] No space left on device"
    found = explain(b"\n".join([b"ActorDiedError: gone", OOM, later, b""]))
    assert found.cause is not None and found.cause.id == "RLX804"
    assert [hit.id for hit in found.symptoms] == ["RLX814", "RLX877"]


def test_a_run_that_finished_has_no_cause() -> None:
    excerpt = read_excerpt([b"size 90", b"1:" + OOM])
    assert diagnose(excerpt, RunState.FINISHED).cause is None
    assert [hit.id for hit in diagnose(excerpt, RunState.FINISHED).warnings] == ["RLX804"]
    failed = diagnose(excerpt, RunState.FAILED).cause
    assert failed is not None and failed.id == "RLX804"


def test_an_exception_that_was_caught_is_no_end() -> None:
    """As long as the run goes on, nobody knows better; in a bare log it is the last word."""
    lines = [b"1=Traceback (most recent call last):", b'2=  File "/me/a.py", line 3, in f', b"3=ValueError: no"]
    excerpt = read_excerpt([b"size 90", *lines])
    assert diagnose(excerpt, RunState.RUNNING).cause is None
    for state in (None, RunState.FAILED, RunState.LOST):
        cause = diagnose(excerpt, state).cause
        assert cause is not None and (cause.id, cause.line, cause.at) == ("RLX889", 3, "/me/a.py:3 in f")


CAUGHT = b"""Traceback (most recent call last):
  File "/me/cache.py", line 3, in f
ValueError: no cache
"""
DRIVER = b"""Error executing job with overrides: []
Traceback (most recent call last):
  File "/me/main.py", line 9, in main
KeyError: 'hard'
"""


def test_what_was_raised_long_before_the_end_was_caught() -> None:
    end = b"""(W pid=1) Traceback (most recent call last):
(W pid=1)   File "/me/end.py", line 5, in g
(W pid=1) KeyError: 'hard'
"""
    cause = explain(CAUGHT + b"chatter\n" * 300 + end).cause
    assert cause is not None and (cause.id, cause.at) == ("RLX889", "/me/end.py:5 in g")
    cause = explain(CAUGHT + b"chatter\n" * 30 + end).cause
    assert cause is not None and (cause.id, cause.at) == ("RLX889", "/me/cache.py:3 in f")


def test_the_exception_that_ended_the_driver_is_named_beside_an_earlier_cause() -> None:
    found = explain(b"PermissionError: [Errno 13] Permission denied: '/root/.cache'\n" + b"chatter\n" * 60 + DRIVER)
    assert found.cause is not None and found.cause.id == "RLX886"
    (beside,) = found.symptoms
    assert (beside.id, beside.exception, beside.at) == ("RLX889", "KeyError: 'hard'", "/me/main.py:9 in main")


@pytest.mark.parametrize(("remark", "cause"), [(b"Exception ignored in: <function f>\n", None), (b"", "RLX889")])
def test_what_python_ignored_ended_nothing(remark: bytes, cause: str | None) -> None:
    found = explain(b"step:1 - a:1\n" + remark + CAUGHT).cause
    assert (found.id if found else None) == cause


def test_a_traceback_without_lines_of_code_hides_nothing() -> None:
    cause = explain(b'Traceback (most recent call last):\n  File "<string>", line 1, in f\n' + OOM[17:] + b"\n").cause
    assert cause is not None and (cause.id, cause.line) == ("RLX804", 3)


def test_a_long_tail_hides_no_exception_of_a_log_that_stops_short() -> None:
    tail = b"a worker has left\n" * 60
    for announced, cause in ((b"Total training steps: 9\nstep:1 - a:1\n", "RLX889"), (b"step:1 - a:1\n", None)):
        found = explain(announced + CAUGHT + tail).cause
        assert (found.id if found else None) == cause


def test_a_stopped_run_is_not_suspected() -> None:
    assert diagnose(read_excerpt([b"size 3", b"1=ValueError: x"]), RunState.STOPPED, 137) == Diagnosis(
        last=("ValueError: x",), log_bytes=3
    )


@pytest.mark.parametrize(("code", "word"), [(137, "SIGKILL"), (139, "SIGSEGV"), (127, "not found")])
def test_an_exit_code_speaks_where_the_log_is_silent(code: int, word: str) -> None:
    found = diagnose(read_excerpt([b"size 3", b"1=hey"]), RunState.FAILED, code)
    assert found.cause is None and [finding.id for finding in found.findings] == ["RLX888"]
    assert word in found.findings[0].message


def test_exit_code_one_says_nothing() -> None:
    assert diagnose(read_excerpt([b"size 3"]), RunState.FAILED, 1).findings == ()


def test_numbers_of_thousands_of_digits_are_none() -> None:
    """A host writes them where diagnose.sh counts; Python refuses to read them."""
    endless = b"9" * 5000
    excerpt = read_excerpt([b"size " + endless, b"1:" + OOM, b"1+" + endless])
    assert (excerpt.size, dict(excerpt.more), len(excerpt.lines)) == (None, {1: 0}, 1)
