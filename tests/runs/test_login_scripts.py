"""Hosts whose login scripts take their time."""

from __future__ import annotations

import time
from pathlib import Path

from rlx.api.status import StatusWatch
from rlx.model import RunState
from rlx.runs import launch
from tests.loopback import loopback
from tests.runs.far import Far, far
from tests.runs.toys import home, until

__all__ = ["far", "loopback"]

# More than a busy machine needs to begin all that is asked at once.
NAP_S = 8


def test_a_slow_login_script_costs_a_status_its_time_once(far: Far, tmp_path: Path) -> None:
    (ref,) = launch([far.plan("exit 0\n")], {}, home()).runs
    until(lambda: (far.folder(ref) / "attempts/1/state/exit").exists(), "it ends")
    begun = tmp_path / "begun"
    far.loopback.write_bashrc(f"date +%s.%N >>{begun}; sleep {NAP_S}")
    since = time.monotonic()
    watch = StatusWatch(host="ssh://loop")
    (row,) = watch.look()
    assert row.state is RunState.FINISHED
    assert watch.leases()
    times = [float(line) for line in begun.read_text(encoding="utf-8").splitlines()]
    assert max(times) - min(times) < NAP_S, (times, time.monotonic() - since)
