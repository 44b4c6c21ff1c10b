"""No test leaves a process behind, also not a failed one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlx.runs import supervisor


@pytest.fixture(autouse=True)
def stopped_runs(private_places: None) -> Iterator[None]:
    root = Path(os.environ["RLX_ROOT"])
    yield
    for run in sorted((root / "runs").glob("*"), reverse=True):
        supervisor.call("local", "stop", str(run), "0", accept_codes=(0, 1))
