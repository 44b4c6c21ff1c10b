"""A published pair of checkpoints as judged runs, and run directories for the command."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rlx.cli.compare import compare
from rlx.errors import ExitCode
from rlx.evidence import JudgedRun
from tests.compare.builders import RunBuilder
from tests.compare.run_dirs import write_run
from tests.conftest import CASES

PAIR = CASES / "pairs/tiny-cpu"
Build = Callable[..., JudgedRun]
Said = Callable[..., tuple[ExitCode, str]]


@pytest.fixture
def control_builder() -> Build:
    """Builds the control of a published pair, 68.16 % of 1319 items at its last step, with some values changed."""
    return lambda **changes: RunBuilder(**{"series": {0: 0.0925, 100: 0.6914, 116: 0.6816}, **changes}).judged()


@pytest.fixture
def control(control_builder: Build) -> JudgedRun:
    return control_builder()


@pytest.fixture
def treated() -> Build:
    """Builds its treatment, 70.58 %, with some values changed."""
    values: dict[str, Any] = {
        "arm": "aqn",
        "series": {0: 0.072, 100: 0.6975, 116: 0.7058},
        "recipe": {"aqn": {"sigma_start": 0.05, "stages": 10}},
        "treatment": ("aqn.sigma_start", "aqn.stages"),
    }
    return lambda **changes: RunBuilder(**{**values, **changes}).judged()


@pytest.fixture
def runs_of() -> Iterator[Callable[..., None]]:
    with subprocess.Popen(["sleep", "600"]) as supervisor:

        def write(*builders: RunBuilder, finished: bool = True, minute: int = 0) -> None:
            for builder in builders:
                pid = None if finished else supervisor.pid
                write_run(builder.plan(), builder.series, pid, minute, builder.more_metrics)

        yield write
        supervisor.kill()


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*names: str, **options: Any) -> tuple[ExitCode, str]:
        with pytest.raises(typer.Exit) as ended:
            compare(names[0], list(names[1:]), **options)
        return ExitCode(ended.value.exit_code), capsys.readouterr().out

    return run


@pytest.fixture
def pair() -> dict[str, Path]:
    """The run directories of the recorded pair by arm, in the root of this test."""
    root = Path(os.environ["RLX_ROOT"])
    for recorded in PAIR.glob("tiny-cpu-*"):
        shutil.copytree(recorded, root / "runs" / recorded.name)
        manifest = root / "runs" / recorded.name / "manifest.json"
        manifest.write_text(manifest.read_text(encoding="utf-8").replace("/root/rlx", str(root)), encoding="utf-8")
        (manifest.parent / "attempts/1/state/started").touch()
    return {arm: next((root / "runs").glob(f"tiny-cpu-{arm}-*")) for arm in ("baseline", "aqn")}
