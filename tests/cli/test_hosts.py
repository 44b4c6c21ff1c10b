"""rlx hosts keeps the file as a person wrote it; launch and plan go where it says, or say why not."""

from __future__ import annotations

import json
import re
import stat
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.cli.hosts import hosts
from rlx.hosts import known_hosts, user_file
from tests.cli.support import rlx
from tests.conftest import REPOSITORY
from tests.wording import settled

CANN = "/usr/local/Ascend/ascend-toolkit/set_env.sh"
NPU_RECIPE = str(REPOSITORY / "recipes" / "qwen2.5-1.5b-gsm8k-aqn-npu.yaml")
CPU_RECIPE = str(REPOSITORY / "recipes" / "tiny-cpu.yaml")


def write(text: str) -> None:
    user_file().parent.mkdir(exist_ok=True)
    user_file().write_text(text, encoding="utf-8")


def listed() -> list[str]:
    return [host["name"] for host in json.loads(rlx("hosts", "list", "--json").stdout)["hosts"]]


def test_a_host_comes_and_goes() -> None:
    options = (
        "--container",
        "verl",
        "--root",
        "/data/me/rlx",
        "--device",
        "npu:8",
        "--setup",
        CANN,
        "--setup",
        "~/e.sh",
        "--address",
        "192.0.2.7",
    )
    done = rlx("hosts", "add", "a3", "user@npu-host-1", *options, "--env", "A=b=c", "--proxy", "https_proxy=CORP_PROXY")
    assert (done.stdout, "rlx launch RECIPE --host a3" in done.stderr) == ("", True)
    assert stat.S_IMODE(user_file().stat().st_mode) == 0o600
    assert listed() == ["local", "a3"]
    shown = json.loads(rlx("hosts", "show", "a3", "--json").stdout)["host"]
    assert shown.pop("written").endswith("hosts.yaml:2")
    assert shown == {
        "name": "a3",
        "ssh": "user@npu-host-1",
        "transport": "openssh",
        "container": "verl",
        "image": None,
        "root": "/data/me/rlx",
        "device": {"kind": "npu", "count": 8},
        "setup": [CANN, "~/e.sh"],
        "env": {"A": "b=c"},
        "proxies": {"https_proxy": "CORP_PROXY"},
        "leases": "/var/tmp/rlx-leases",
        "address": "192.0.2.7",
        "python": None,
        "batch": None,
    }
    text = rlx("hosts", "show", "a3").stdout
    assert "device     8 × npu\n" in text
    assert "8 × npu" in rlx("hosts").stdout
    rlx("hosts", "remove", "a3")
    assert listed() == ["local"]


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (("add", "a3", "other@npu-host-2"), "a3"),
        (("add", "b1", "me:hunter2@npu-host-1"), "password"),
        (("add", "b1", "npu", "--env", "https_proxy=http://me:hunter2@192.0.2.1"), "https_proxy"),
        (("add", "b1", "npu", "--env", "hunter2"), "--env"),
        (("add", "b1", "npu", "--device", "tpu:8"), "npu, cuda, cpu"),
        (("add", "b1", "npu", "--device", "npu:many"), "device"),
        (("add", "b1", "npu", "--root", "relative"), "root"),
        (("add", "b 1", "npu"), "b 1"),
        (("add", "local", "npu"), "local"),
        (("remove", "b1"), "'b1'"),
        (("show", "b1"), "'b1'"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_and_nothing_is_written(
    arguments: tuple[str, ...], fact: str, wording: SnapshotAssertion
) -> None:
    write("hosts: # mine\n  a3: {ssh: user@npu-host-1}\n")
    before = user_file().read_text(encoding="utf-8")
    done = rlx("hosts", *arguments, code=2)
    assert fact in done.stderr and settled(done.stderr, {str(user_file()): "hosts.yaml"}) == wording
    assert "hunter2" not in done.stderr
    assert user_file().read_text(encoding="utf-8") == before


WRITTEN = """\
# My hosts.

hosts:
    # The old one.
    a2:
        ssh: user@npu-host-2   # behind the gate
        env:
            TEXT: |
                two
                lines

    # The one for experiments.
    a3: {ssh: user@npu-host-1,
         container: verl}

    # The last.
    a4: {ssh: user@npu-host-4}
    # A thought at the end.

defaults: {host: a2}  # until summer
"""


def test_what_a_person_wrote_stays(wording: SnapshotAssertion) -> None:
    write(WRITTEN)
    rlx("hosts", "add", "b1", "user@npu-host-5")
    added = "    b1:\n      ssh: user@npu-host-5\n"
    assert user_file().read_text(encoding="utf-8") == WRITTEN.replace("host-4}\n", "host-4}\n" + added)
    rlx("hosts", "remove", "b1")
    assert user_file().read_text(encoding="utf-8") == WRITTEN
    rlx("hosts", "add", "a3", "me@npu-host-9", "--replace")
    entry, comment = "    a3:\n      ssh: me@npu-host-9\n", "    # The one for experiments.\n"
    head, _, rest = WRITTEN.partition("    a3: {")
    replaced = head + entry + rest.partition("verl}\n")[2]
    assert user_file().read_text(encoding="utf-8") == replaced
    rlx("hosts", "remove", "a3")
    assert user_file().read_text(encoding="utf-8") == replaced.replace(comment + entry, "")
    done = rlx("hosts", "remove", "a2")
    assert "hosts.yaml:8" in done.stderr and settled(done.stderr, {str(user_file()): "hosts.yaml"}) == wording


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "hosts:\n", "hosts: # none", "defaults: {host: local}", "hosts: {}\n", "{}", "--- {}\n"]
)
def test_the_first_host_of_a_file(text: str, wording: SnapshotAssertion) -> None:
    write(text)
    if "{}" in text:
        refused = rlx("hosts", "add", "a3", "user@npu-host-1", code=1).stderr
        assert settled(refused, {str(user_file()): "hosts.yaml"}) == wording(name="written in braces")
        assert user_file().read_text(encoding="utf-8") == text
    else:
        rlx("hosts", "add", "a3", "user@npu-host-1")
        assert list(known_hosts()) == ["local", "a3"]
        assert text.strip() in user_file().read_text(encoding="utf-8")


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    write("")
    kept = tmp_path / "dotfiles.yaml"
    user_file().rename(kept)
    kept.chmod(0o640)
    user_file().symlink_to(kept)
    rlx("hosts", "add", "a3", "user@npu-host-1")
    assert user_file().is_symlink()
    assert "a3:" in kept.read_text(encoding="utf-8")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


@pytest.mark.long
def test_hosts_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.delenv("RLX_PROJECT")
    monkeypatch.chdir(tmp_path)
    rlx("hosts", "add", "a3", "user@npu-host-1", "--project")
    assert "a3:" in (tmp_path / "rlx.yaml").read_text(encoding="utf-8")
    # What rlx wrote itself counts, until the user has an own entry: that is replaced by no file in silence.
    assert "user@npu-host-1" in rlx("hosts", "show", "a3").stdout
    rlx("hosts", "add", "a3", "me@npu-host-2")
    assert "me@npu-host-2" in rlx("hosts", "show", "a3").stdout
    trusted = rlx("hosts", "trust", "-y").stdout
    assert "me@npu-host-2" in trusted and settled(trusted, {str(tmp_path): "folder"}) == wording
    assert "user@npu-host-1" in rlx("hosts", "show", "a3").stdout
    done = rlx("hosts", "add", "a3", "me@npu-host-2", "--replace")
    assert "rlx.yaml:2" in done.stderr and settled(done.stderr, {str(tmp_path): "folder"}) == wording
    rlx("hosts", "remove", "a3", "--project")
    assert "me@npu-host-2" in rlx("hosts", "show", "a3").stdout


PATHS = st.text(st.sampled_from(string.ascii_letters + " '\"\\$`#:{}[],&*!|>%@~é🙂-="), max_size=12)
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
NAMES = st.from_regex(r"(?!RLX_)[A-Z_]{1,8}", fullmatch=True).filter(
    lambda name: not any(word in name for word in ("TOKEN", "SECRET", "KEY", "PASS"))
)


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(root=PATHS, scripts=st.lists(PATHS, max_size=3), env=st.dictionaries(NAMES, VALUES, max_size=3), name=NAMES)
def test_what_was_added_is_shown(root: str, scripts: list[str], env: dict[str, str], name: str) -> None:
    name = f"h{name}"
    options = ["--root", f"/{root}", *(word for path in scripts for word in ("--setup", f"~/{path}"))]
    options += [word for key, value in env.items() for word in ("--env", f"{key}={value}")]
    invoke("add", name, "user@npu-host-1", "--replace", *options)
    invoke("add", "other", "user@npu-host-2", "--replace")
    host = json.loads(invoke("show", name, "--json"))["host"]
    assert (host["root"], host["setup"], host["env"]) == (f"/{root}", [f"~/{path}" for path in scripts], env)


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(hosts, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_recipe_for_other_devices_is_refused() -> None:
    write("hosts: {c1: {ssh: u@c, device: {kind: cpu}}, a2: {ssh: u@a, device: {kind: npu, count: 4}}}")
    done = rlx("launch", NPU_RECIPE, "--host", "c1", code=2)
    (line,) = (line for line in done.stderr.splitlines() if "RLX501" in line)
    assert "8 × npu" in line and "c1" in line and "cpu" in line
    done = rlx("launch", NPU_RECIPE, "--host", "a2", code=2)
    (line,) = (line for line in done.stderr.splitlines() if "RLX502" in line)
    assert "8 × npu" in line and "a2" in line and re.search(r"\b4\b", line)
    assert "RLX502" in rlx("plan", NPU_RECIPE, "--host", "a2", code=2).stdout
    # Every machine has a CPU: now the host is asked, and this one is not there.
    done = rlx("plan", "-v", CPU_RECIPE, "--host", "a2", "--arm", "aqn")
    assert ", in ~/rlx on a2\n" in done.stdout
    assert "RLX404" in done.stdout


@pytest.mark.parametrize(
    ("recipe", "devices"),
    [
        (NPU_RECIPE, "0,2-3"),
        (NPU_RECIPE, "4"),
        (NPU_RECIPE, "0,0"),
        (NPU_RECIPE, "3-1"),
        (NPU_RECIPE, "all"),
        (NPU_RECIPE, "0,"),
        (NPU_RECIPE, "-1"),
        (CPU_RECIPE, "0-0"),
        (CPU_RECIPE, "2"),
    ],
    ids=lambda word: Path(word).stem,
)
def test_devices_that_do_not_fit_are_refused(recipe: str, devices: str, wording: SnapshotAssertion) -> None:
    refused = rlx("launch", recipe, f"--devices={devices}", code=2).stderr
    assert "--devices" in refused and settled(refused, {str(REPOSITORY): "repository"}) == wording


def test_named_devices_are_in_the_plan() -> None:
    write("hosts: {a2: {ssh: u@a, device: {kind: npu, count: 16}}}")
    options = ("plan", NPU_RECIPE, "--host", "a2", "--arm", "qerl", "--devices")
    assert json.loads(rlx(*options, "8-14,0", "--json").stdout)["plans"][0]["device_list"] == [0, *range(8, 15)]
    assert json.loads(rlx(*options, "8", "--json").stdout)["plans"][0]["device_list"] == []
    assert "8 × npu (8, 9, 10, 11, 12, 13, 14, 15)" in rlx(*options, "8-15").stdout
    beyond = json.loads(rlx(*options, "9-16", "--json", code=2).stdout)["plans"][0]["findings"]
    (message,) = (finding["message"] for finding in beyond if finding["id"] == "RLX502")
    assert all(fact in message for fact in ("npu 16", "a2", "15"))


def test_an_unknown_host_is_no_connection(wording: SnapshotAssertion) -> None:
    write("hosts: {a3: {ssh: user@npu-host-1}}")
    for command in ("launch", "plan"):
        done = rlx(command, CPU_RECIPE, "--host", "a33", code=2)
        assert "'a33'" in done.stderr and done.stderr == wording(name="another name is near")


def test_the_default_host_is_where_a_launch_goes() -> None:
    write("hosts: {a3: {ssh: user@npu-host-1, root: /data/rlx}}\ndefaults: {host: a3}\n")
    assert ", in /data/rlx on a3\n" in rlx("plan", "-v", CPU_RECIPE, "--arm", "aqn").stdout
    assert "a3: " in rlx("launch", CPU_RECIPE, "--arm", "aqn", code=4).stderr
    assert (
        " on local\n"
        in rlx("plan", CPU_RECIPE, "--host", "local", "--arm", "aqn", "--set", "model.path=/nope", code=5).stdout
    )
    assert "a3 (default)" in rlx("hosts").stdout


@pytest.mark.parametrize("option", [("--host", "local"), ("--container", ""), ("--devices", "1")], ids=str)
def test_a_written_plan_takes_no_options(option: tuple[str, str], tmp_path: Path, wording: SnapshotAssertion) -> None:
    (tmp_path / "plan.json").write_text(rlx("plan", CPU_RECIPE, "--json").stdout, encoding="utf-8")
    refused = rlx("launch", "--plan", str(tmp_path / "plan.json"), *option, code=2).stderr
    assert "--plan" in refused and settled(refused, {str(tmp_path): "folder"}) == wording


def test_settings_of_a_host_reach_the_plan() -> None:
    write(
        f"hosts: {{local: {{setup: [{CANN}], env: {{HF_HUB_OFFLINE: 0, MINE: x y}}, "
        "proxies: {https_proxy: {secret: CORP_PROXY}}}}"
    )
    text = rlx("plan", CPU_RECIPE, "--arm", "aqn", "--files").stdout
    assert f"  source {CANN}\n" in text
    assert "  https_proxy: the secret CORP_PROXY\n" in text
    assert "export MINE='x y'\n" in text
    # What the CPU rollout needs goes before what the host says.
    assert "export HF_HUB_OFFLINE=1\n" in text
