"""Where the rig cannot be had, tests say so; in CI they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.machine import REPOSITORY

A_TEST = "tests/rig/test_rig.py::test_hosts_reach_each_other"


def pytest_without_tools(folder: Path, variables: dict[str, str]) -> tuple[int, str]:
    environment = {name: text for name, text in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={folder / 'base'}", A_TEST],
        env={**environment, "PATH": str(folder), **variables},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(("variables", "code", "outcome"), [({}, 0, "SKIPPED"), ({"CI": "true"}, 1, "ERROR")])
def test_a_test_without_a_rig_says_why(tmp_path: Path, variables: dict[str, str], code: int, outcome: str) -> None:
    (tmp_path / "ssh").touch(mode=0o755)
    status, shown = pytest_without_tools(tmp_path, variables)
    assert status == code, shown
    (line,) = [line for line in shown.splitlines() if line.startswith(outcome)]
    assert line
    # Of all that is missing the first reason is told: for a user without rights the tools would not help.
    told = ("missing gcc", "'make rig' installs them") if os.geteuid() == 0 else ("root may create network namespaces",)
    assert all(words in shown for words in told)
