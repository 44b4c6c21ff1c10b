"""What stands in a host's entry reaches the training there: setup scripts, environment, proxies. By real ssh, too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlx.hosts import user_file
from rlx.runs import RunRef
from tests.cli.support import rlx, tiny_cpu_files
from tests.cli.test_secrets_asked import PROXY, runs, sha256
from tests.conftest import REPOSITORY
from tests.loopback import Loopback, loopback
from tests.runs.test_secrets import SECRET, files_with_the_secret, watched_arguments
from tests.runs.toys import ended

__all__ = ["loopback"]

RECIPE = str(REPOSITORY / "recipes" / "tiny-cpu.yaml")
# Plays the Python that would train: what it sees is what the training would see.
PYTHON = f"""\
#!/bin/sh
[ "$1" != -c ] || exec {sys.executable} "$@"  # the look at the host
echo "setup $FROM_SETUP, env $FROM_ENV, ours $TOKENIZERS_PARALLELISM, $VERL_PLATFORM, ${{CORP_PROXY-no name}}"
printf %s "$https_proxy" | sha256sum
"""
SETTINGS = (
    "setup: [~/set_env.sh], env: {FROM_ENV: x y, VERL_PLATFORM: npu}, proxies: {https_proxy: {secret: CORP_PROXY}}"
)


def launch_on(host: str, home: Path, entry: str, monkeypatch: pytest.MonkeyPatch) -> RunRef:
    (home / "set_env.sh").write_text(
        "export FROM_SETUP=sourced$NOT_SET TOKENIZERS_PARALLELISM=setup\n", encoding="utf-8"
    )
    (home / "python").write_text(PYTHON, encoding="utf-8")
    (home / "python").chmod(0o700)
    tiny_cpu_files(home)
    user_file().parent.mkdir()
    user_file().write_text(f"hosts: {{{host}: {{{entry}}}}}", encoding="utf-8")
    monkeypatch.setenv("CORP_PROXY", PROXY)
    with watched_arguments() as found:
        rlx("launch", RECIPE, "--host", host, "--arm", "aqn", "--set", "backend.python=~/python")
        (ref,) = runs()
        assert ended(ref).exit_code == 0
    assert found == []
    assert files_with_the_secret() == []
    return ref


def test_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "house").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "house"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    ref = launch_on("local", tmp_path / "house", SETTINGS, monkeypatch)
    check(rlx("logs", ref.run_id).stdout)


def test_on_a_host_reached_by_ssh(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    # The alias of the ssh config is no entry; the entry gives it another name and a root.
    root = loopback.home / "experiments"
    ref = launch_on("a3", loopback.home, f"ssh: loop, root: {root}, leases: {root}/leases, {SETTINGS}", monkeypatch)
    assert (ref.host, ref.place.destination) == ("a3", "loop")
    log = root / "runs" / ref.run_id / "attempts" / "1" / "log"
    check(log.read_text(encoding="utf-8"))
    files = [path for path in root.rglob("*") if path.is_file()]
    assert log in files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def check(log: str) -> None:
    # The recipe and rlx go before the host, the host before its setup scripts.
    assert "setup sourced, env x y, ours false, cpu, no name\n" in log
    assert sha256(PROXY) in log
