"""Small real runs on the loopback host: another home, another root, reached by ssh."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.model import LaunchPlan, Site
from rlx.planning.preflight import sealed_plan
from rlx.runs import RunPaths, RunRef
from tests.conftest import stop_runs_below
from tests.hosts.test_openssh import masters
from tests.loopback import Loopback
from tests.runs.toys import toy_plan, until


class Far:
    """The host as seen from within: its files are this machine's."""

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        self.runs = loopback.home / "rlx" / "runs"
        # Named so that `--host` finds it without any file of hosts.
        place = replace(loopback.place, host="ssh://loop", destination="ssh://loop")
        self.site = Site(place, leases=str(loopback.home / "leases"))

    def plan(self, script: str, arm: str = "main") -> LaunchPlan:
        return sealed_plan(replace(toy_plan(script, arm=arm), site=self.site))

    def folder(self, ref: RunRef) -> Path:
        return self.runs / ref.run_id

    def log(self, ref: RunRef) -> str:
        path = RunPaths(self.folder(ref)).log
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def go_down(self) -> None:
        """Nothing listens and no connection is left."""
        self.loopback.cut()
        self.loopback.stop()
        self.loopback.cut()

    def kill_clients(self) -> None:
        """Ends every ssh of this machine that talks to the host, as a laptop's memory or its user may.

        None that is started in the place of one that it has ended: that is an outage more.
        """
        for pid in [*self._clients(), *masters(self.loopback)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _clients(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"ssh") and str(self.loopback.config).encode() in words:
                    found.append(int(folder.name))
        return found

    def settle(self) -> None:
        """Wait until a launch that lost its sender has come to its end."""
        until(lambda: not self._launches() and not self._shipments(), "the launch has come to its end", 60)

    def _shipments(self) -> list[Path]:
        """What has arrived in part: whose process one look at /proc missed, since it had only just begun."""
        return list(self.runs.glob(".incoming-*"))

    def _launches(self) -> list[str]:
        """Their processes, also those that have only just begun."""
        home, found = f"HOME={self.loopback.home}".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                begun = b"rlx-launch" in words or b"IFS= read -r line" in words
                if begun and home in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(folder.name)
        return found


@pytest.fixture
def far(loopback: Loopback) -> Iterator[Far]:
    host = Far(loopback)
    yield host
    stop_runs_below(host.runs)
