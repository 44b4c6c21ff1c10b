"""The command line as a process, as a person or a script starts it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner, Result

from rlx.cli.frame.app import command_line
from tests.command import run_rlx


def rlx(*arguments: str, code: int | None = 0, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    ran = run_rlx(arguments, timeout_s=timeout_s)
    done = subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())
    assert code in (None, done.returncode), f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr
    return done


def rlx_here(words: Sequence[str]) -> Result:
    """The same in this process, whose back-ends and hosts a test may have changed."""
    return CliRunner().invoke(command_line(words[:1]), words)


def plain(text: str) -> str:
    """The text without colours and moves of the cursor."""
    return re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07)", "", text)


def tiny_cpu_files(home: Path) -> None:
    """Files where the recipe tiny-cpu has its model and its data, for launches that train nothing."""
    folder = home / ".cache/rlx/tiny-cpu"
    (folder / "model").mkdir(parents=True)
    (folder / "model/config.json").write_text('{"model_type": "of a test"}', encoding="utf-8")
    for name in ("model/model.safetensors", "train.parquet", "val.parquet"):
        (folder / name).write_text("nothing that anybody reads", encoding="utf-8")


def trust_project() -> None:
    """Let the project's file count as it is, as `rlx hosts trust -y` does."""
    from rlx.cli.hosts import hosts

    done = CliRunner().invoke(hosts, ["trust", "-y"])
    assert done.exit_code == 0, done.output
