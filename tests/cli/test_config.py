"""rlx config: the default host, its container and the folder of its runs, in the user's file of hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.api.settings import change_setting, settings
from rlx.errors import UsageError
from rlx.hosts import default_host, known_host, site_of, user_file
from tests.cli.support import rlx, rlx_here

FILE = """\
# Mine.
hosts:
  a3:
    ssh: me@npu-host-1  # the quiet one
    container: verl
  a4: {ssh: me@npu-host-2}
"""


@pytest.fixture(autouse=True)
def _hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLX_ROOT", raising=False)
    user_file().parent.mkdir()
    user_file().write_text(FILE, encoding="utf-8")


def shown() -> dict[str, str | None]:
    return {each.key: each.value for each in settings()}


def test_the_default_host_comes_and_goes() -> None:
    change_setting("host", "a3")
    assert user_file().read_text(encoding="utf-8") == FILE + "defaults:\n  host: a3\n"
    assert (default_host().host, shown()["host"], shown()["container"]) == ("a3", "a3", "verl")
    change_setting("container", "other")
    assert site_of(None).container == "other"
    # A container belongs to its host.
    change_setting("host", "a4")
    assert shown()["container"] is None
    change_setting("host", None)
    assert user_file().read_text(encoding="utf-8") == FILE
    assert shown()["host"] == "local"


def test_the_folder_of_the_runs_is_that_of_the_default_host() -> None:
    change_setting("host", "a4")
    set_ = change_setting("root", "/data/me/rlx")
    assert (set_.value, set_.written.partition(":")[0]) == ("/data/me/rlx", str(user_file()))
    assert known_host("a4").root == "/data/me/rlx"
    assert known_host("a3").root == "~/rlx"
    assert "# the quiet one" in user_file().read_text(encoding="utf-8")
    assert change_setting("root", None).written == ""


def test_the_folder_of_the_runs_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert change_setting("root", "/data/rlx").value == "/data/rlx"
    monkeypatch.setenv("RLX_ROOT", "/elsewhere")
    told = rlx_here(["config", "set", "root", "/data/other"]).output
    assert "root is /elsewhere (RLX_ROOT)" in told and "warning: RLX_ROOT takes precedence" in told


@pytest.mark.parametrize(
    ("key", "value"),
    [("hots", "a3"), ("host", "a5"), ("root", "relative"), ("container", "no such name"), ("home", "/x")],
)
def test_what_cannot_be_set_changes_nothing(key: str, value: str) -> None:
    with pytest.raises(UsageError):
        change_setting(key, value)
    assert user_file().read_text(encoding="utf-8") == FILE


def test_a_host_without_an_entry_has_no_folder_to_set() -> None:
    change_setting("host", "me@npu-host-3")
    with pytest.raises(UsageError, match="no host 'me@npu-host-3'"):
        change_setting("root", "/data")


def test_what_the_commands_print(tmp_path: Path) -> None:
    assert rlx("config", "set", "host", "a3").stderr == f"rlx: host is a3 ({user_file()}:8)\n"
    assert rlx("config", "get", "host").stdout == "a3\n"
    listed = {each["key"]: each for each in json.loads(rlx("config", "list", "--json").stdout)["settings"]}
    assert listed["host"] == {"key": "host", "value": "a3", "written": f"{user_file()}:8"}
    assert listed["home"]["written"] == "RLX_HOME"
    table = rlx("config").stdout
    assert "setting" in table and str(user_file()) in table
    assert rlx("config", "unset", "host").stderr == "rlx: host is local (default)\n"
    assert rlx("config", "get", "container", code=1).stdout == ""


def test_a_new_host_says_which_folder_its_runs_have_and_why() -> None:
    told = rlx("hosts", "add", "b1", "me@npu-host-1").stderr
    assert "folder of the runs there: ~/rlx (the default" in told
    told = rlx("hosts", "add", "b2", "me@npu-host-1", "--root", "/data/me").stderr
    assert "folder of the runs there: /data/me (--root)" in told
    told = rlx("hosts", "add", "b3", "me@npu-host-1", "--container", "verl", "--root", "/data/me").stderr
    assert "/data/me (--root); verl must mount it" in told
    told = rlx("hosts", "add", "b4", "me@npu-host-1", "--container", "verl").stderr
    assert "~/rlx if verl mounts it; else" in told and "rlx plan RECIPE --host b4 shows which" in told
