"""Half-typed words in real shells, through the scripts that `rlx --show-completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlx.hosts import user_file
from rlx.runs import RunRef
from tests.cli.support import rlx
from tests.runs.toys import ended, start, toy_plan

SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("bash", "zsh", "fish")
]
BASH = """
source <(rlx --show-completion bash)
COMP_WORDS=({words} '{typed}'); COMP_CWORD={place}
_rlx_completion rlx '{typed}' ''
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# The function of zsh hands its words to `_arguments`, which only a line editor has: this one prints them.
ZSH = """
compdef() {{ : }}
_arguments() {{ print -rl -- "$@" }}
_files() {{ : }}
eval "$(rlx --show-completion zsh | grep -v '^#compdef')"
words=({words} '{typed}'); CURRENT=${{#words}}
_rlx_completion
"""
FISH = """
rlx --show-completion fish | source
complete -C '{words} {typed}'
"""


def completed(shell: str, *words: str, folder: Path | None = None) -> str:
    """What this shell would offer for the last of the words."""
    *before, typed = words
    script = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell]
    text = script.format(words=" ".join(("rlx", *before)), typed=typed, place=len(words))
    here = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": here,
        "SHELL": f"/bin/{shell}",
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    done = subprocess.run(
        [shell, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
        cwd=folder,
        encoding="utf-8",
    )
    assert done.stderr == ""
    return done.stdout


def two_arms() -> tuple[RunRef, ...]:
    runs = start(toy_plan("echo 1", arm="baseline"), toy_plan("echo 2", arm="aqn"))
    for ref in runs:
        ended(ref)
    return runs


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_runs_recipes_hosts_and_ids(shell: str) -> None:
    runs = two_arms()
    assert "metrics" in completed(shell, "me")
    assert "aqn" in completed(shell, "logs", "a")
    assert runs[0].run_id in completed(shell, "compare", "aqn", "toy-base")
    assert "tiny-cpu" in completed(shell, "launch", "tiny-c")
    assert "local" in completed(shell, "launch", "tiny-cpu", "--host", "lo")
    assert "RLX601" in completed(shell, "explain", "RLX60")
    assert "--follow" in completed(shell, "logs", "--fo")
    rlx("tag", "aqn", "keep-it")
    assert "keep-it" in completed(shell, "tag", "baseline", "ke")


@pytest.mark.parametrize("shell", SHELLS)
def test_recipe_files_of_the_folder(shell: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/mine.yaml").write_text("name: mine\n", encoding="utf-8")
    assert "runs/" in completed(shell, "validate", "ru", folder=tmp_path)
    assert "runs/mine.yaml" in completed(shell, "validate", "runs/m", folder=tmp_path)


def test_nothing_is_offered_where_nothing_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_HOME", str(tmp_path / "nowhere"))
    assert completed("bash", "logs", "").strip() == ""
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "nowhere/index.db").write_text("no database", encoding="utf-8")
    assert completed("bash", "logs", "").strip() == ""


def test_hosts_complete_without_the_ways_to_reach_them() -> None:
    user_file().parent.mkdir()
    user_file().write_text("hosts: {a3: {ssh: user@npu-host-1}}", encoding="utf-8")
    typed = {"COMP_WORDS": "rlx doctor a", "COMP_CWORD": "2", "_RLX_COMPLETE": "complete_bash"}
    command = [sys.executable, "-X", "importtime", Path(sys.executable).with_name("rlx")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **typed}, timeout=60, encoding="utf-8"
    )
    assert done.stdout.split() == ["a3"]
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "rlx.hosts.inventory.host_file" in imported
    assert not imported & {"rlx.hosts.remote_shell", "rlx.hosts.ssh.openssh", "logging", "pydantic"}
