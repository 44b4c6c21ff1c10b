"""Files of hosts as people write them: each folder of tests/cases/hosts holds one and what rlx must make of it.

A case has error.txt, or hosts.json. With RLX_UPDATE_CASES=1 what rlx says now is written; read the difference before
you keep it.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import UsageError
from rlx.hosts import default_host, known_host, known_hosts, site_of, user_file
from rlx.model import Place, to_jsonable
from tests.cli.support import trust_project
from tests.conftest import CASES
from tests.wording import settled

FOLDERS = sorted(path for path in (CASES / "hosts").iterdir() if path.is_dir())


def write_user(text: str) -> None:
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(text, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The rlx.yaml of a project, two folders above the working directory and below the home directory."""
    folder = tmp_path / "house" / "project"
    (folder / "recipes" / "mine").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "house"))
    monkeypatch.delenv("RLX_PROJECT")
    monkeypatch.chdir(folder / "recipes" / "mine")
    return folder / "rlx.yaml"


def said_of(folder: Path) -> tuple[str, str]:
    user_file().parent.mkdir()
    shutil.copy(folder / "hosts.yaml", user_file())
    try:
        said = {"hosts": to_jsonable(known_hosts()), "defaults": to_jsonable(default_host())}
    except UsageError as error:
        return "error.txt", f"{error.message}\n".replace(str(user_file()), "hosts.yaml")
    text = json.dumps(said, indent=1, ensure_ascii=False).replace(str(user_file()), "hosts.yaml")
    return "hosts.json", text.replace(os.environ["RLX_LEASES"], "LEASES") + "\n"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLX_ROOT")
    name, said = said_of(folder)
    if os.environ.get("RLX_UPDATE_CASES"):
        (folder / name).write_text(said, encoding="utf-8")
    assert said == (folder / name).read_text(encoding="utf-8")
    assert "hunter2" not in said


def test_a_case_expects_one_thing() -> None:
    for folder in FOLDERS:
        assert (folder / "error.txt").exists() != (folder / "hosts.json").exists(), folder.name
        assert folder.name.startswith("ok-") == (folder / "hosts.json").exists(), folder.name


def test_without_files_there_is_this_machine() -> None:
    assert list(known_hosts()) == ["local"]
    assert site_of().place.is_local
    assert site_of().root == os.environ["RLX_ROOT"]


def test_a_named_host_becomes_a_site() -> None:
    shutil.copytree(CASES / "hosts" / "ok-everything", user_file().parent)
    site = site_of("a3")
    assert site.place == Place("a3", "user@npu-host-1", "paramiko")
    # `defaults` names a3, so its container goes before that of the entry.
    assert (site.container, site_of("a3", "mine").container, site_of("a3", "").container) == ("other", "mine", None)
    assert (site.root, site.leases) == ("/data/me/rlx", "/var/tmp/leases-of-us")
    assert site.env["HCCL_CONNECT_TIMEOUT"] == "1800"
    assert site.proxies == {"https_proxy": "CORP_PROXY"}
    assert site.path_prefix == ()
    assert site_of() == site
    assert site_of("b1").container is None
    assert site_of("local").path_prefix


@pytest.mark.parametrize(
    "name",
    [
        "user@npu-host-1",
        "npu-host-1.example.org",
        "192.0.2.7",
        "ssh://me@npu-host-1:2222",
        "ssh://npu",
        "ssh://[fe80::1]:22",
        "fe80::1",
    ],
)
def test_a_destination_needs_no_entry(name: str) -> None:
    assert site_of(name).place == Place(name, name)


@pytest.mark.parametrize(
    "name",
    [
        "-oProxyCommand=id",
        "u@-oX",
        "u:hunter2@h",
        "a b@h",
        "h:22",
        "a/b",
        "ssh://",
        "ssh://h:x",
        "ssh://h:0",
        "ssh://h:65536",
        "ssh://h/a",
        "x\n.y",
    ],
)
def test_what_is_no_destination_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        site_of(name)
    assert "hunter2" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("container", ["-v", "a b", "a/b", "$(id)"])
def test_what_is_no_container_is_refused(container: str) -> None:
    with pytest.raises(UsageError, match="container"):
        site_of("local", container)


def test_a_misspelt_name_goes_nowhere(wording: SnapshotAssertion) -> None:
    write_user("hosts: {a3: {ssh: user@npu-host-1}}")
    with pytest.raises(UsageError, match="'a33'") as caught:
        site_of("a33")
    assert (caught.value.message, caught.value.hint) == wording


@pytest.fixture
def ssh_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RLX_SSH_CONFIG", str(tmp_path / "ssh_config"))
    return tmp_path / "ssh_config"


def test_names_of_the_ssh_config_are_hosts(ssh_config: Path, wording: SnapshotAssertion) -> None:
    folder = ssh_config.parent / "conf.d"
    folder.mkdir()
    (folder / "work").write_text("Host work # mine\n", encoding="utf-8")
    lines = (f"Include {folder}/*", 'Host=jump "gate"', " User me", "Host npu-* !npu-9", "Host *", " User you")
    ssh_config.write_text("\n".join([*lines, "Match host lab1,lab2 user me", ""]), encoding="utf-8")
    for name in ("jump", "gate", "npu-7", "work", "lab2"):
        assert site_of(name).place == Place(name, name)
    for name in ("npu-9", "elsewhere", "mine", "me"):
        with pytest.raises(UsageError, match=f"'{name}'"):
            site_of(name)
    with pytest.raises(UsageError) as caught:
        site_of("wrok")
    assert "work" in caught.value.hint and caught.value.hint == wording


def test_an_include_of_itself_ends(ssh_config: Path) -> None:
    ssh_config.write_text(f"Include {ssh_config}\nHost last\n", encoding="utf-8")
    assert site_of("last").place.destination == "last"


def test_the_project_goes_before_the_user(project: Path) -> None:
    write_user("hosts: {a3: {ssh: u@a, container: verl}, b1: {ssh: u@b}}\ndefaults: {host: b1, container: c}")
    assert (site_of().host, site_of().container) == ("b1", "c")
    project.write_text("hosts: {a3: {ssh: p@a}}\ndefaults: {host: a3}\n", encoding="utf-8")
    trust_project()
    assert known_host("a3").ssh == "p@a"
    # As a whole: nothing of the user's entry or defaults shines through.
    assert (site_of().host, site_of().container) == ("a3", None)
    assert known_host("b1").ssh == "u@b"


def test_the_search_for_the_project_ends_at_home(project: Path) -> None:
    above = project.parent.parent.parent / "rlx.yaml"
    above.write_text("defaults: {host: above@a}", encoding="utf-8")
    assert site_of().host == "local"
    (project.parent.parent / "rlx.yaml").write_text("defaults: {host: home@a}", encoding="utf-8")
    trust_project()
    assert site_of().host == "home@a"
    project.write_text("defaults: {host: project@a}", encoding="utf-8")
    trust_project()
    assert site_of().host == "project@a"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives a file to another user")
def test_the_project_file_of_somebody_else_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    project.write_text("defaults: {host: evil@192.0.2.66}", encoding="utf-8")
    os.chown(project, 12345, -1)
    with pytest.raises(UsageError, match=str(project)) as caught:
        site_of()
    assert settled(caught.value.message, {str(project): "file"}) == wording
    monkeypatch.setenv("RLX_PROJECT", str(project))
    trust_project()
    assert site_of().host == "evil@192.0.2.66"


def test_a_default_that_nobody_knows_names_its_place(project: Path) -> None:
    project.write_text("\ndefaults: {host: a33}\n", encoding="utf-8")
    trust_project()
    with pytest.raises(UsageError, match=r"rlx\.yaml:2: defaults\.host: .*'a33'"):
        site_of()
    # Who names a host himself does not care about the default.
    assert site_of("local").place.is_local


@pytest.mark.parametrize("content", [b"\xff\xfeh\x00", b"hosts: \xe9", b"#" * 1_000_001])
def test_what_is_no_text_is_refused(content: bytes) -> None:
    user_file().parent.mkdir()
    user_file().write_bytes(content)
    with pytest.raises(UsageError, match=r"hosts\.yaml"):
        known_hosts()


def test_a_folder_in_its_place_is_refused() -> None:
    user_file().mkdir(parents=True)
    with pytest.raises(UsageError, match=str(user_file())):
        known_hosts()


def test_a_project_that_is_not_there_is_no_silence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLX_PROJECT", str(tmp_path / "gone.yaml"))
    with pytest.raises(UsageError, match="RLX_PROJECT"):
        site_of()
