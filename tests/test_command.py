"""The forked command lines of the tests are what `python -m rlx` is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import run_rlx
from tests.compare.run_dirs import TREATMENT, write_run


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["recipes"], ["stauts"], ["validate", "/nowhere.yaml"], ["plan", "tiny-cpu", "--arm", "aqn"]],
    ids=" ".join,
)
def test_a_fork_answers_as_a_process_does(arguments: list[str]) -> None:
    process = subprocess.run([sys.executable, "-m", "rlx", *arguments], capture_output=True, check=False)
    fork = run_rlx(arguments)
    assert (fork.returncode, fork.stdout, fork.stderr) == (process.returncode, process.stdout, process.stderr)


def test_environment_folder_and_stdin_are_the_caller_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here.yaml").write_text("version: 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert b"here.yaml" in run_rlx(["validate", "here.yaml"]).stdout
    home = str(tmp_path / "here.yaml" / "home")
    assert home.encode() in run_rlx(["status"], environment={**os.environ, "RLX_HOME": home}).stderr
    said = run_rlx(["validate", "-"], stdin=b"version: 1\nname: given\n").stdout
    assert b"stdin:1: model: required" in said and b"name: required" not in said


def test_what_only_a_new_python_reads_starts_one() -> None:
    said = run_rlx(["--version"], environment={**os.environ, "PYTHONVERBOSE": "1"})
    assert b"import 'rlx'" in said.stderr


def test_one_that_takes_too_long_is_killed() -> None:
    with subprocess.Popen(["sleep", "600"]) as supervisor:
        write_run(TREATMENT.plan(), TREATMENT.series, supervisor.pid)
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                run_rlx(["wait"], timeout_s=0)
        finally:
            supervisor.kill()
    assert run_rlx(["--version"]).returncode == 0
