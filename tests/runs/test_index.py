"""The index: whatever happens to it, none replaces it in silence, and the runs are still there. And what names mean."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import NoSuchRun, RlxError
from rlx.hosts import local_site
from rlx.model import LOCAL, Place, RunState, Site
from rlx.runs import Index, RunRef, current_runs, latest_launch, read_manifest, resolve
from rlx.runs.index import run_index
from rlx.runs.judging.judge_runs import judge_runs
from rlx.runs.manifest import fetch_manifests
from tests.cli.support import rlx
from tests.runs.toys import FOREVER, ended, home, see, start, toy_plan, until
from tests.wording import settled


@pytest.fixture
def two_launches() -> tuple[tuple[RunRef, ...], tuple[RunRef, ...]]:
    older = start(toy_plan("true", arm="base"), toy_plan("true", arm="aqn"), toy_plan("true", arm="old"))
    newer = start(*(toy_plan("true", arm=arm, seed=seed) for arm, seed in (("base", 1), ("base", 2), ("aqn", 1))))
    return older, newer


def test_what_names_mean(two_launches: tuple[tuple[RunRef, ...], tuple[RunRef, ...]]) -> None:
    older, newer = two_launches
    index = Index(home())
    assert index.runs() == (*newer, *older)
    assert latest_launch(index) == newer
    assert resolve(index, ["base"]) == newer[:2]
    assert resolve(index, ["old"]) == (older[2],)
    assert resolve(index, ["aqn", "base", "aqn"]) == (newer[2], *newer[:2])
    assert resolve(index, ["toy-base-s2"]) == resolve(index, ["base-s2"]) == (newer[1],)
    assert resolve(index, ["old-s1"]) == (older[2],)
    assert resolve(index, [older[0].run_id]) == (older[0],)
    assert resolve(index, [older[0].launch_id]) == older
    assert resolve(index, [older[2].run_id[:-1]]) == (older[2],)
    with pytest.raises(NoSuchRun, match=r"'toy-base' .*\b3\b") as ambiguous:
        resolve(index, ["toy-base"])
    assert older[0].run_id in ambiguous.value.hint and newer[0].run_id in ambiguous.value.hint
    with pytest.raises(NoSuchRun, match="'aqm'") as unknown:
        resolve(index, ["aqm"])
    assert "aqn" in unknown.value.hint
    with pytest.raises(NoSuchRun):
        resolve(index, [""])


def test_an_arm_goes_before_a_run_that_a_table_would_call_so() -> None:
    runs = start(toy_plan("true", arm="aqn"), toy_plan("true", arm="aqn-s1"))
    assert resolve(Index(home()), ["aqn-s1"]) == runs[1:]


def kept_copies() -> list[Path]:
    return sorted(path for path in home().glob("index.db.*") if path.name != "index.db-journal")


def seen(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def newer(database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA user_version = 99")


def in_a_folder(database: Path) -> None:
    database.rename(database.with_name("away"))
    database.mkdir()


def as_a_pipe(database: Path) -> None:
    database.unlink()
    os.mkfifo(database)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no database": (lambda path: path.write_bytes(b"this is no database" * 100), "file is not a database"),
    "cut": (lambda path: os.truncate(path, 5000), "malformed"),
    "overwritten": (lambda path: path.write_bytes(path.read_bytes()[:5000] + b"\xff" * 4000), "malformed"),
    "newer": (newer, " 99 "),
    "a folder": (in_a_folder, ""),
    "a pipe": (as_a_pipe, ""),
    "a device": (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), ""),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_an_index_that_cannot_be_used_is_refused_until_another_is_asked_for(
    kind: str, two_launches: tuple[tuple[RunRef, ...], tuple[RunRef, ...]], wording: SnapshotAssertion
) -> None:
    older, newest = two_launches
    damage, what = DAMAGE[kind]
    database = home() / "index.db"
    damage(database)
    was = seen(database)
    for words in (["status", "-a"], ["logs", older[0].run_id], ["stop", older[0].run_id], ["prune", "--keep", "9"]):
        refused = rlx(*words, code=1).stderr
        assert str(database) in refused and what in refused and "rlx hosts reindex" in refused, refused
        assert what not in ("", " 99 ") or settled(refused, {str(database): "index"}) == wording(name="refused")
    assert (seen(database), kept_copies()) == (was, [])
    built = rlx("hosts", "reindex")
    (copy,) = kept_copies()
    assert seen(copy) == was and str(copy) in built.stderr
    assert built.stdout.splitlines() == ["local: 6 runs"]
    assert set(Index(home()).runs()) == {*older, *newest}
    assert latest_launch(Index(home())) == newest
    # The next one has a name of its own, also in the same second.
    rlx("hosts", "reindex")
    assert len(kept_copies()) == 2


def test_an_empty_file_is_an_index_that_is_not_made_yet(
    two_launches: tuple[tuple[RunRef, ...], tuple[RunRef, ...]],
) -> None:
    (home() / "index.db").write_bytes(b"")
    assert {ref.run_id for ref in Index(home()).runs()} == {ref.run_id for refs in two_launches for ref in refs}


def test_an_index_that_another_program_has_locked_is_no_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(home())
    monkeypatch.setattr(run_index, "_BUSY_TIMEOUT_S", 0.1)
    with closing(sqlite3.connect(index.path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RlxError, match="locked") as refused:
            index.runs()
    assert "fuser" in refused.value.hint and "full" not in refused.value.hint
    assert index.runs() == () and kept_copies() == []


def test_a_new_home_finds_the_runs_of_this_machine(tmp_path: Path) -> None:
    refs = start(toy_plan("true", arm="a"), toy_plan("true", arm="b"))
    for ref in refs:
        ended(ref)
    assert Index(tmp_path / "other-home").runs() == refs


def test_runs_of_another_home_appear_when_the_root_is_read_again(tmp_path: Path) -> None:
    mine = Index(tmp_path / "mine")
    (ref,) = start(toy_plan("true"))
    assert mine.runs() == ()
    mine.rebuild(local_site())
    mine.rebuild(local_site())
    assert mine.runs() == (ref,)
    ended(ref)


def tools(folder: Path, kind: str) -> Path:
    """A folder with what a host has: `all`, those of `busybox`, or all without one."""
    folder.mkdir()
    for tool in ("awk", "cat", "cut", "grep", "sha256sum", "sh", "stat", "tr", "xargs"):
        program = shutil.which("busybox" if kind == "busybox" else tool)
        assert program
        if kind != f"no {tool}":
            (folder / tool).symlink_to(program)
    return folder


@pytest.mark.parametrize("kind", ["all", "busybox", "no sha256sum", "no awk", "no xargs"])
def test_what_a_host_has_shown_before_travels_only_where_it_cannot_digest(kind: str, tmp_path: Path) -> None:
    refs = start(toy_plan("true", arm="a"), toy_plan("true", arm="b"))
    for ref in refs:
        ended(ref)
    index, site = Index(tmp_path / "other-home"), local_site()
    texts = [(ref.run_dir / "manifest.json").read_text(encoding="utf-8") for ref in refs]
    known = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(tools(tmp_path / "bin", kind)))
        index.rebuild(site)
        both, second = (fetch_manifests(site.place, site.root, digests) for digests in (known, known[1:]))
        index.rebuild(site)
    if kind in ("all", "busybox"):
        assert (both, second) == ((known, []), (known[1:], texts[:1]))
    else:
        assert both == second == ([], texts)
    assert index.runs() == refs


def test_of_a_known_host_too_what_is_new_or_changed_is_seen_each_time(tmp_path: Path) -> None:
    (ref,) = start(toy_plan("true"))
    ended(ref)
    index, theirs = Index(home()), tmp_path / "theirs"
    site = shown_by("local", ref, theirs)
    file = theirs / "runs" / ref.run_id / "manifest.json"
    file.write_bytes((ref.run_dir / "manifest.json").read_bytes())
    assert index.rebuild(site) == index.rebuild(site) == ()
    file.write_text(file.read_text(encoding="utf-8").replace('"position": 0', '"position": 0 '), encoding="utf-8")
    assert [found.id for found in index.rebuild(site)] == ["RLX409"]
    assert [found.id for found in index.rebuild(site)] == ["RLX409"]
    file.unlink()
    assert index.rebuild(site) == ()
    file.write_bytes(b"no manifest at all")
    assert index.rebuild(site) == index.rebuild(site) == ()
    shown_by("local", ref, theirs, run_id=f"{ref.run_name}-20990101-000000-abcd", launch_id="another")
    assert index.rebuild(site) == ()
    assert len(index.runs()) == 2


def test_a_manifest_is_the_plan_with_digests_instead_of_contents(wording: SnapshotAssertion) -> None:
    plan = toy_plan("echo 'content-of-the-file'")
    (ref,) = start(plan)
    ended(ref)
    manifest = read_manifest(ref.run_dir)
    assert manifest is not None
    assert (manifest.plan.run_name, manifest.plan.site) == (plan.run_name, plan.site)
    assert [file.content for file in manifest.plan.files] == [""]
    digest = subprocess.run(
        ["sha256sum", ref.run_dir / "launch.sh"], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout
    assert manifest.digests == {"launch.sh": digest.split()[0]}
    assert "content-of-the-file" not in (ref.run_dir / "manifest.json").read_text(encoding="utf-8")
    (ref.run_dir / "manifest.json").rename(ref.run_dir / "gone")
    assert read_manifest(ref.run_dir) is None
    with pytest.raises(RlxError) as caught:
        judge_runs(Index(home()), [ref])
    assert settled(caught.value.message, {str(ref.run_dir): "folder"}) == wording


def test_current_runs_are_the_newest_launch_and_what_still_lives() -> None:
    ended_long_ago, living = start(toy_plan("true", arm="a"), toy_plan(FOREVER, arm="b"))
    ended(ended_long_ago)
    until(lambda: see(living).leader_live, "the second runs")
    (newest,) = start(toy_plan("true", arm="c"))
    assert current_runs(Index(home())) == (newest, living)


_BEGIN = """
import sys, time
from pathlib import Path
from rlx.model import LOCAL
from rlx.runs import Index, RunRef
name, home = sys.argv[1], Path(sys.argv[2])
while not (home / "go").exists():
    time.sleep(0.001)
Index(home).begin(name, name, [RunRef(name, name, "toy", "a", 1, LOCAL, "~/rlx", 1e9)])
"""


_LAUNCHES = (
    "launches(launch_id TEXT PRIMARY KEY, digest TEXT NOT NULL, created REAL NOT NULL, resolved INTEGER NOT NULL)"
)
_RUN = (
    "run_id TEXT PRIMARY KEY, launch_id TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, arm TEXT NOT NULL"
)
_RUN += ", seed INTEGER NOT NULL, host TEXT NOT NULL"
_WAY = ", destination TEXT, via TEXT NOT NULL, inside TEXT"
_REST = ", root TEXT NOT NULL, created REAL NOT NULL, arrived INTEGER NOT NULL"
OLDER = {1: _RUN + _REST, 2: _RUN + _WAY + _REST, 3: f"{_RUN}{_WAY}{_REST} CHECK (arrived IN (-1, 0, 1))"}
"""The columns of the runs as earlier versions of rlx made them."""


@pytest.mark.parametrize("version", OLDER)
def test_an_index_of_an_older_rlx_becomes_one_of_this(version: int, tmp_path: Path) -> None:
    """Several rlx find it at the same time. What one of them journals, another one must not lose."""
    ref = RunRef("toy-old-s1-20261121-120000-abcd", "old", "toy", "old", 1, LOCAL, str(tmp_path / "gone"), 1.7e9)
    if version > 1:
        ref = replace(ref, place=Place("a3", "me@a3", "paramiko", None))
    values = {**asdict(ref), **asdict(ref.place), "position": 0, "arrived": 1}
    home().mkdir()
    with closing(sqlite3.connect(home() / "index.db")) as db, db:
        db.execute(f"CREATE TABLE {_LAUNCHES}")
        db.execute(f"CREATE TABLE runs({OLDER[version]})")
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
        db.execute("INSERT INTO launches VALUES ('old', 'asked', 1.7e9, 1)")
        db.execute(f"INSERT INTO runs({', '.join(columns)}) VALUES (:{', :'.join(columns)})", values)
        db.execute(f"PRAGMA user_version = {version}")
    names = [f"launch-{number}" for number in range(6)]
    started = [subprocess.Popen([sys.executable, "-c", _BEGIN, name, str(home())]) for name in names]
    (home() / "go").touch()
    assert [process.wait(60) for process in started] == [0] * len(started)
    index = Index(home())
    assert [name for name in names if index.pending(name) is None] == []
    assert (index.runs(), index.own_launches()) == ((ref,), {"old", *names})
    assert kept_copies() == []


@pytest.mark.parametrize("version", [1, 3])
def test_what_has_the_version_of_an_older_index_and_is_none_stays_as_it_is(version: int) -> None:
    home().mkdir()
    with closing(sqlite3.connect(home() / "index.db")) as db:
        db.execute("CREATE TABLE runs(run_id TEXT PRIMARY KEY, launch_id TEXT, host TEXT)")
        db.execute(f"PRAGMA user_version = {version}")
    before = (home() / "index.db").read_bytes()
    with pytest.raises(RlxError, match=re.escape(str(home() / "index.db"))) as caught:
        Index(home())
    assert "rlx hosts reindex" in caught.value.hint
    assert (home() / "index.db").read_bytes() == before


def test_a_home_is_for_its_user_alone() -> None:
    Index(home())
    assert home().stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_written_is_an_error() -> None:
    home().write_text("a file", encoding="utf-8")
    with pytest.raises(RlxError, match="home"):
        Index(home())


def test_nothing_launched_yet(wording: SnapshotAssertion) -> None:
    index = Index(home())
    assert index.runs() == () == current_runs(index)
    with pytest.raises(NoSuchRun) as caught:
        latest_launch(index)
    assert caught.value.message == wording


def shown_by(host: str, ref: RunRef, folder: Path, **changes: object) -> Site:
    """A host whose root holds the manifest of a run, perhaps changed. It is this machine under another name."""
    manifest = json.loads((ref.run_dir / "manifest.json").read_text(encoding="utf-8"))
    manifest.update({key: value for key, value in changes.items() if key != "plan"})
    manifest["plan"].update(changes.get("plan", {}))
    place = folder / "runs" / str(manifest["run_id"])
    place.mkdir(parents=True)
    (place / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return replace(local_site(), place=Place(host), root=str(folder))


def test_a_run_stays_where_it_was_launched(tmp_path: Path, wording: SnapshotAssertion) -> None:
    (ref,) = start(toy_plan("true"))
    ended(ref)
    index = Index(home())
    elsewhere = shown_by("thief", ref, tmp_path / "theirs")
    elsewhere = replace(elsewhere, place=Place("thief", None, "other"))
    (said,) = index.rebuild(elsewhere)
    assert said.id == "RLX409"
    assert all(name in said.message for name in ("thief", ref.run_id, "local"))
    assert settled(said.message, {ref.run_id: "run"}) == wording
    assert index.runs() == (ref,)


def test_another_run_under_a_known_id_is_left_out(tmp_path: Path) -> None:
    (ref,) = start(toy_plan("true"))
    ended(ref)
    index = Index(home())
    other = shown_by("local", ref, tmp_path / "changed", created_epoch=ref.created + 9)
    assert [found.id for found in index.rebuild(other)] == ["RLX409"]
    assert index.runs() == (ref,)


def test_a_host_joins_no_launch_of_mine(tmp_path: Path) -> None:
    (ref,) = start(toy_plan("true"))
    ended(ref)
    index = Index(home())
    joined = shown_by("thief", ref, tmp_path / "joined", run_id=f"{ref.run_name}-20990101-000000-abcd")
    assert [found.id for found in index.rebuild(joined)] == ["RLX409"]
    assert latest_launch(index) == (ref,)


def test_ids_and_names_that_a_host_invents_stand_for_nothing_of_mine(tmp_path: Path) -> None:
    (ref,) = start(toy_plan("true", arm="aqn"))
    ended(ref)
    index = Index(home())
    assert index.rebuild(shown_by("thief", ref, tmp_path / "named", run_id="aqn", launch_id="other")) == ()
    later = {"created_epoch": 4e9, "launch_id": "20990101-000000-abcdef"}
    newer = shown_by("thief", ref, tmp_path / "newer", run_id=f"{ref.run_name}-20990101-000000-abcd", **later)
    newer = replace(newer, place=Place("thief", None, "other"))
    assert index.rebuild(newer) == ()
    assert len(index.runs()) == 2
    assert resolve(index, ["aqn"]) == (ref,)


def test_a_fifo_hangs_no_report() -> None:
    (ref, other) = start(toy_plan("true", arm="a"), toy_plan("true", arm="b"))
    ended(ref)
    ended(other)
    for name in ("holder", "container", "ticket", "foreign"):
        (ref.run_dir / name).unlink(missing_ok=True)
        os.mkfifo(ref.run_dir / name)
    assert see(other).state is RunState.FINISHED
    assert see(ref).state is RunState.FINISHED
