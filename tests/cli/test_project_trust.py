"""A project's rlx.yaml counts once its content is trusted: a cloned one redirects no launch and gets no secret."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import UsageError
from rlx.hosts import default_host, known_hosts, site_of, user_file
from tests.cli.support import rlx, trust_project
from tests.conftest import REPOSITORY
from tests.wording import settled

HOSTILE = """
hosts:
  local: {setup: [/tmp/evil.sh]}
  a3: {ssh: thief@192.0.2.66, setup: [/tmp/evil.sh], env: {PATH: /tmp/evil}, proxies: {https_proxy: {secret: HF_TOKEN}}}
  new: {ssh: thief@192.0.2.67, root: /data/rlx}
defaults: {host: new}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.delenv("RLX_PROJECT")
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    user_file().parent.mkdir(parents=True)
    user_file().write_text("hosts: {a3: {ssh: me@npu-host-1}}\n", encoding="utf-8")
    path = tmp_path / "clone/rlx.yaml"
    path.write_text(HOSTILE, encoding="utf-8")
    return path


def test_an_untrusted_file_changes_no_host(project: Path) -> None:
    assert site_of("a3").place.destination == "me@npu-host-1"
    assert site_of("local").setup == ()
    assert set(known_hosts()) == {"local", "a3"}
    assert default_host().host == "local"


def test_an_untrusted_file_that_is_needed_is_an_error(project: Path, wording: SnapshotAssertion) -> None:
    refused = []
    for name in ("new", None):
        with pytest.raises(UsageError, match=re.escape(str(project))) as caught:
            site_of(name)
        assert "rlx hosts trust" in caught.value.hint
        refused.append(settled(f"{caught.value.message}\n{caught.value.hint}", {str(project): "file"}))
    assert refused == wording
    assert "rlx hosts trust" in rlx("launch", "tiny-cpu", code=2).stderr
    # A name with a dot could be a destination of its own: not what the file makes of it, nor around it.
    project.write_text("hosts: {npu.example.org: {ssh: thief@192.0.2.66}}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(str(project))):
        site_of("npu.example.org")


def test_the_user_sees_what_it_changes(project: Path, wording: SnapshotAssertion) -> None:
    shown = rlx("hosts", "trust", "-y").stdout
    for fact in (
        "me@npu-host-1",
        "thief@192.0.2.66",
        "/tmp/evil.sh",
        "PATH=/tmp/evil",
        "HF_TOKEN",
        "https_proxy",
        "host local: ",
        "host new: ",
    ):
        assert fact in shown
    assert settled(shown, {str(project): "file", str(user_file()): "hosts.yaml"}) == wording
    assert site_of("a3").place.destination == "thief@192.0.2.66"
    assert site_of().host == "new"


def test_nobody_is_taken_to_agree(project: Path, wording: SnapshotAssertion) -> None:
    assert settled(rlx("hosts", "trust", code=2).stderr, {str(project): "file"}) == wording
    assert set(known_hosts()) == {"local", "a3"}


def test_a_change_asks_again(project: Path, wording: SnapshotAssertion) -> None:
    trust_project()
    project.write_text(HOSTILE.replace("192.0.2.67", "192.0.2.68"), encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(str(project))):
        site_of("new")
    assert site_of("a3").place.destination == "me@npu-host-1"
    assert settled(rlx("hosts").stderr, {str(project): "file"}) == wording
    trust_project()
    assert site_of("new").place.destination == "thief@192.0.2.68"


def test_the_same_content_elsewhere_is_another_file(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust_project()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/rlx.yaml").write_text(HOSTILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(UsageError, match=re.escape(str(tmp_path / "other/rlx.yaml"))):
        site_of("new")


def test_an_entry_that_the_user_writes_later_is_not_replaced(project: Path) -> None:
    trust_project()
    user_file().write_text("hosts: {a3: {ssh: me@npu-host-1}, new: {ssh: me@npu-host-2}}\n", encoding="utf-8")
    assert site_of("new").place.destination == "me@npu-host-2"
    assert site_of("a3").place.destination == "thief@192.0.2.66"


def test_a_name_of_the_ssh_config_is_the_users(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust_project()
    (tmp_path / "ssh_config").write_text("Host new\n", encoding="utf-8")
    monkeypatch.setenv("RLX_SSH_CONFIG", str(tmp_path / "ssh_config"))
    assert site_of("new").place.destination == "new"


def test_an_entry_is_added_to_no_untrusted_file_unseen(project: Path, wording: SnapshotAssertion) -> None:
    said = rlx("hosts", "add", "b1", "me@b", "--project").stderr
    assert "rlx hosts trust" in said and settled(said, {str(project): "file"}) == wording
    assert set(known_hosts()) == {"local", "a3"}


def test_an_empty_file_needs_no_trust(project: Path) -> None:
    project.write_text("\n", encoding="utf-8")
    assert site_of().host == "local"
    hosts = json.loads(rlx("hosts", "list", "--json").stdout)["hosts"]
    assert [host["name"] for host in hosts] == ["local", "a3"]
