"""`rlx prune`: deletes what rlx made of runs that are over, says what it is first, and leaves a tombstone."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import rlx as front_door
from rlx.api.pruning import delete_found, find_prunable
from rlx.errors import NoSuchRun, UsageError
from rlx.model import LOCAL, RunState
from rlx.runs import Index, RunRef
from rlx.runs.index.hidden_runs import HiddenRun
from rlx.runs.pruning import delete_runs
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.devices import put_program
from tests.loopback import Loopback, loopback
from tests.registrations import ASKED
from tests.rig import Rig
from tests.runs.another_user import commands_as_nobody
from tests.runs.far import Far, far
from tests.runs.laptop import Laptop, run_folder, toy
from tests.runs.toys import FOREVER, ended, home, start, start_one, toy_plan, until
from tests.wording import settled

__all__ = ["Loopback", "far", "loopback"]
LOG = str(CASES / "logs/tiny-aqn/log")
SAVE = """
mkdir -p "$RLX_RUN_DIR/checkpoints"
cd "$RLX_RUN_DIR/checkpoints"
for step in 2 10 20; do mkdir global_step_$step && echo weights >global_step_$step/model; done
echo 10 >latest_checkpointed_iteration.txt
mkdir notes
"""


def over(script: str, arm: str = "main") -> RunRef:
    (ref,) = start(toy_plan(script, arm=arm))
    ended(ref)
    return ref


def reasons(found: Any) -> dict[str, str]:
    return {each.run_id: each.why for each in found.kept}


def checkpoints(ref: RunRef) -> list[str]:
    return sorted(path.name for path in (ref.run_dir / "checkpoints").iterdir() if path.is_dir())


def test_a_run_directory_goes_and_its_tombstone_stays(wording: SnapshotAssertion) -> None:
    old, new = over("echo old"), over("echo new")
    dry = front_door.prune(what=["runs"], keep=1, dry_run=True)
    assert [item.run_id for item in dry.found.items] == [old.run_id] and old.run_dir.is_dir()
    done = front_door.prune(what=["runs"], keep=1)
    assert [item.run_id for item in done.deleted] == [old.run_id] and done.freed > 0 and not done.failures
    assert not old.run_dir.exists() and new.run_dir.is_dir()
    assert not (old.run_dir.parent / ".trash").exists()
    kept = json.loads((old.run_dir.parent / ".removed" / f"{old.run_id}.json").read_text(encoding="utf-8"))
    assert (kept["run_id"], kept["deleted"], kept["state"], kept["verdict"]) == (
        old.run_id,
        True,
        "finished",
        "unverified",
    )
    assert [ref.run_id for ref in front_door.find_runs()] == [new.run_id]
    rows = {row.ref.run_id: row for row in front_door.status(everything=True)}
    removed = rows[old.run_id].removed
    assert removed is not None and removed.deleted
    with pytest.raises(front_door.RlxError) as caught:
        front_door.restore(old)
    assert settled(caught.value.message, {old.run_id: "run"}) == wording
    assert not front_door.prune(what=["runs"], keep=1).found.items, "once is enough"
    (home() / "index.db").unlink()
    assert {ref.run_id for ref in Index(home()).runs()} == {old.run_id, new.run_id}


def test_what_may_not_go_says_why(wording: SnapshotAssertion) -> None:
    failed, free = over(f"{SAVE}\nexit 3", "failed"), over("echo 1", "free")
    (answered,) = start(replace(toy_plan("echo 2", arm="answered"), registration=ASKED))
    ended(answered)
    going = start_one(FOREVER)
    found = find_prunable(what=["runs"], older_than_s=0)
    why = reasons(found)
    assert [item.run_id for item in found.items] == [free.run_id]
    assert why.keys() == {going.run_id, failed.run_id, answered.run_id}
    assert {ref.arm: why[ref.run_id] for ref in (failed, answered)} == wording
    named = find_prunable([going.run_id, failed.run_id, answered.run_id], what=["runs"])
    assert {item.run_id for item in named.items} == {failed.run_id, answered.run_id}
    front_door.remove(failed)
    assert failed.run_id in {item.run_id for item in find_prunable(what=["runs"], keep=0).items}
    front_door.stop(going, grace_s=0)


def test_the_host_looks_once_more(monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    """Between the look and the deletion a run may be begun again, or another put in its place."""
    runs = [over("echo 1", arm) for arm in ("alive", "linked", "foreign", "other")]
    alive, linked, foreign, other = runs
    found = find_prunable(runs, what=["runs"])
    assert len(found.items) == 4
    me = os.getpid()
    tick = Path(f"/proc/{me}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    (alive.run_dir / "holder").write_text(f"{me} {tick} {boot} {os.uname().nodename}\n", encoding="utf-8")
    away = linked.run_dir.rename(linked.run_dir.parent.parent / "away")
    linked.run_dir.symlink_to(away)
    (foreign.run_dir / "manifest.json").write_text('{"run_id": "somebody-else"}', encoding="utf-8")
    (other.run_dir / "manifest.json").unlink()
    (other.run_dir / "manifest.json").symlink_to(away / "manifest.json")
    done = delete_found(found)
    assert not done.deleted
    why = {each.run_id: each.why for each in done.failures}
    assert why[foreign.run_id] == why[other.run_id] and (away / "manifest.json").is_file()
    assert {ref.arm: why[ref.run_id] for ref in runs} == wording
    assert all(ref.run_dir.exists() for ref in runs)
    assert not Index(home()).hidden_runs()


def test_foreign_folders_are_never_touched() -> None:
    ref = over("echo 1")
    runs = ref.run_dir.parent
    for name in ("photos", "toy-main-s1-20200101-000000-abcd"):
        (runs / name).mkdir()
        (runs / name / "precious").write_text("years of work", encoding="utf-8")
    mirror = home() / "mirror"
    (mirror / "photos").mkdir(parents=True)
    (mirror / "photos" / "precious").write_text("years of work", encoding="utf-8")
    front_door.prune(what=["runs", "checkpoints", "mirrors"], keep=0)
    assert len(list(runs.glob("*/precious"))) == 2 and (mirror / "photos" / "precious").is_file()
    assert not ref.run_dir.exists()


def test_checkpoints_go_but_the_last_whole_one() -> None:
    ref = over(f"{SAVE}\nexit 1")
    said = rlx("prune", "--what", "checkpoints", "--older-than", "0s", "--dry-run").stdout
    assert "global_step_2, global_step_20" in said and "global_step_10" not in said
    done = front_door.prune(what=["checkpoints"], older_than_s=0)
    assert [item.names for item in done.deleted] == [("global_step_2", "global_step_20")]
    assert checkpoints(ref) == ["global_step_10", "notes"]
    assert not find_prunable(what=["checkpoints"], keep=1).items
    front_door.prune(what=["checkpoints"], keep=0)
    assert checkpoints(ref) == ["notes"] and ended(ref).state is RunState.FAILED


def test_checkpoints_behind_a_link_stay(tmp_path: Path, wording: SnapshotAssertion) -> None:
    ref, linked = over(SAVE), over(SAVE, "linked")
    moved = (linked.run_dir / "checkpoints").rename(tmp_path / "big-disk")
    (linked.run_dir / "checkpoints").symlink_to(moved)
    one = (ref.run_dir / "checkpoints" / "global_step_2").rename(tmp_path / "one")
    (ref.run_dir / "checkpoints" / "global_step_2").symlink_to(one)
    done = front_door.prune(what=["checkpoints"], keep=0)
    assert reasons(done.found)[linked.run_id] == wording
    assert len(list(moved.glob("global_step_*"))) == 3 and (one / "model").is_file()
    assert checkpoints(ref) == ["global_step_2", "notes"]
    front_door.prune([linked], what=["runs"])
    assert not linked.run_dir.exists() and len(list(moved.glob("global_step_*"))) == 3


def test_what_a_cut_left_goes_with_the_next_call() -> None:
    half, ref = over("echo 1"), over("echo 2")
    trash = half.run_dir.parent / ".trash"
    trash.mkdir()
    # As a connection that ends in the middle leaves it: the tombstone is there, the folder renamed.
    found = find_prunable([half], what=["runs"])
    delete_found(found)
    Index(home()).restore([half.run_id])
    trash.mkdir()
    (trash / "half.toy.1.2").mkdir()
    (trash / "half.toy.1.2" / "rest").write_text("x" * 5000, encoding="utf-8")
    assert {run.run_id for run in Index(home()).runs()} == {half.run_id, ref.run_id}
    again = find_prunable(what=["runs"], keep=1)
    assert [item.run_id for item in again.items] == [half.run_id] and sum(again.trash.values()) > 4000
    done = delete_found(again)
    assert [item.run_id for item in done.deleted] == [half.run_id] and not trash.exists()
    assert Index(home()).hidden_runs()[half.run_id].deleted


def test_a_folder_that_cannot_be_written_stays_whole(
    monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    ref = over("echo 1")
    (ref.run_dir.parent / ".trash").symlink_to(home())
    done = front_door.prune(what=["runs"], keep=0)
    assert settled(done.failures[0].why, {str(home().parent): "folder"}) == wording
    assert ref.run_dir.is_dir()
    assert not (ref.run_dir.parent / ".removed" / f"{ref.run_id}.json").exists()
    (ref.run_dir.parent / ".trash").unlink()
    front_door.remove(ref, reason="mistake")
    (ref.run_dir.parent / ".trash").write_text("", encoding="utf-8")
    done = front_door.prune(what=["runs"], keep=0)
    assert done.failures and not Index(home()).hidden_runs()[ref.run_id].deleted
    kept = json.loads((ref.run_dir.parent / ".removed" / f"{ref.run_id}.json").read_text(encoding="utf-8"))
    assert (kept["deleted"], kept["reason"]) == (False, "mistake"), "what was said before"


def test_a_log_that_was_taken_in_stays_and_its_copy_goes(tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = tmp_path / "own.log"
    log.write_bytes(Path(LOG).read_bytes())
    taken = front_door.import_logs(log, "old")
    done = front_door.prune(what=["runs"], keep=0)
    assert settled(done.found.items[0].note, {str(log): "log"}) == wording
    assert not taken.ref.run_dir.exists() and log.read_bytes() == Path(LOG).read_bytes()
    (home() / "index.db").unlink()
    assert [row.removed is not None for row in front_door.status(everything=True)] == [True]


def test_it_asks_and_needs_a_yes_without_a_terminal(wording: SnapshotAssertion) -> None:
    ref = over("echo 1")
    told = rlx("prune", "--what", "runs", "--keep", "0", code=1)
    assert ref.run_id in told.stdout and ref.run_dir.is_dir()
    assert re.sub(r"[\d.]+ [KM]iB", "<size>", told.stderr) == wording
    answer = json.loads(rlx("prune", ref.run_id, "--what", "runs", "--json", "-y").stdout)
    assert [item["run_id"] for item in answer["deleted"]] == [ref.run_id] and answer["freed"] > 0
    nothing = rlx("prune", "--keep", "0")
    assert nothing.stdout == "" and nothing.stderr == wording


def test_what_means_nothing_is_refused() -> None:
    over("echo 1")
    for options in ({}, {"what": ["photos"], "keep": 1}, {"keep": -1}):
        with pytest.raises(UsageError):
            front_door.prune(**options)
    with pytest.raises(NoSuchRun):
        front_door.prune("nobody", what=["runs"])


SLOW_RM = """touch "$HOME/deleting"
while [ ! -e "$HOME/go" ]; do sleep 0.05; done
exit 1
"""


def test_a_cable_cut_in_the_middle(far: Far, wording: SnapshotAssertion) -> None:
    """The folder has its name in the trash, and the next call deletes it."""
    (ref,) = start(far.plan("echo 1"))
    ended(ref)
    program = far.loopback.home / "bin" / "rm"
    program.parent.mkdir()
    put_program(program.parent, "rm", SLOW_RM)
    far.loopback.write_bashrc(f"PATH={program.parent}:$PATH\n")
    done: list[Any] = []
    pruning = Thread(target=lambda: done.append(front_door.prune(ref, what=["runs"])))
    pruning.start()
    until(lambda: (far.loopback.home / "deleting").exists(), "it deletes")
    far.loopback.cut()
    pruning.join(60)
    (far.loopback.home / "go").touch()
    assert [each.run_id for each in done[0].failures] == [ref.run_id] and not done[0].deleted
    assert not far.folder(ref).exists() and any((far.runs / ".trash").iterdir())
    far.loopback.write_bashrc("")
    program.unlink()
    assert front_door.status(ref)[0].observation.detail == wording
    found = find_prunable(ref, what=["runs"])
    assert found.trash and [item.run_id for item in found.items] == [ref.run_id]
    assert [item.run_id for item in delete_found(found).deleted] == [ref.run_id]
    assert not (far.runs / ".trash").exists() and Index(home()).hidden_runs()[ref.run_id].deleted


def test_what_root_of_a_container_owns_stays_whole(monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    with commands_as_nobody(monkeypatch) as folder:
        ref = RunRef("toy-main-s1-20261124-120000-abcd", "l", "toy", "main", 1, LOCAL, str(folder / "root"), 1.8e9)
        inside = ref.run_dir / "attempts" / "1" / "state" / "started"
        inside.mkdir(parents=True)
        (ref.run_dir / "manifest.json").write_text(f'{{"run_id": "{ref.run_id}"}}', encoding="utf-8")
        for path in (folder / "root", *(folder / "root").rglob("*")):
            os.chown(path, *((0, 0) if path == inside else (65534, 65534)))
        hidden = HiddenRun(ref.run_id, "l", "toy", "main", 1, "local", 0, 0, 1.8e9, "", "lost", "?", "", 1.8e9, "me")
        refused = delete_runs([ref], {ref.run_id: hidden}).refused
        assert settled(refused[ref.run_id], {str(folder): "folder"}) == wording
        assert inside.is_dir()
        os.chown(inside, 65534, 65534)
        assert delete_runs([ref], {ref.run_id: hidden}).freed and not ref.run_dir.exists()


def test_a_read_only_disk(rig: Rig, tmp_path: Path, wording: SnapshotAssertion) -> None:
    host, mine = rig.host("h1"), Laptop(rig.client, tmp_path / "mine")
    host.limit_disk("/srv", 8_000_000)
    (ref,) = mine.launch(toy(replace(mine.site("h1"), root="/srv/rlx"), "true\n"))
    mine.ended(ref)
    host.run("mount", "--bind", "/srv", "/srv")
    host.run("mount", "-o", "remount,bind,ro", "/srv")
    here = json.loads(mine.rlx("rm", ref.run_id, "--json").out)["removed"][0]["here_only"]
    assert here == wording
    said = mine.rlx("prune", ref.run_id, "--what", "runs", "-y")
    assert said.code == 1 and "read-only" in said.err and run_folder(host, ref).is_dir()
    host.run("umount", "-l", "/srv")
    gone = json.loads(mine.rlx("prune", ref.run_id, "--what", "runs", "-y", "--json").out)
    assert [item["run_id"] for item in gone["deleted"]] == [ref.run_id] and not run_folder(host, ref).exists()


def test_of_what_others_launched_names_are_hidden_here_alone(
    far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    (ref,) = start(far.plan("echo 1"))
    ended(ref)
    monkeypatch.setenv("RLX_HOME", str(tmp_path / "a colleague's"))
    monkeypatch.setenv("LOGNAME", "a-colleague")
    front_door.status(host=far.site.place.host)
    found = find_prunable(what=["runs"], keep=0)
    assert found.items == () and (reasons(found)[ref.run_id], front_door.remove(ref)[0].here_only) == wording
    assert not (far.runs / ".removed").exists()
    assert front_door.restore(ref) == (ref,)
    assert front_door.prune(ref.run_id, what=["runs"]).deleted and not far.folder(ref).exists()


def test_two_laptops_and_a_mirror(
    far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    first, second = home(), tmp_path / "second laptop"
    mistake, old, new = (start(far.plan(f"echo {word}"))[0] for word in ("mistake", "old", "new"))
    for ref in (mistake, old, new):
        ended(ref)
    front_door.status([mistake, old, new])
    mirror = home() / "mirror"
    assert (mirror / old.run_id).is_dir()

    # A copy goes, and comes again; that of a run whose directory is gone is the only one.
    assert [item.run_id for item in front_door.prune(keep=2).deleted] == [mistake.run_id]
    assert not (mirror / mistake.run_id).exists() and not (mirror / ".trash").exists()
    front_door.status(mistake)
    assert (mirror / mistake.run_id).is_dir()
    (mirror / "nobody-knows").mkdir()
    (mirror / "nobody-knows" / "cursor.json").write_text("{}", encoding="utf-8")

    front_door.remove(mistake, reason="wrong rate")
    assert [item.run_id for item in front_door.prune([old], what=["runs"]).deleted] == [old.run_id]
    assert not far.folder(old).exists() and far.folder(mistake).is_dir()
    found = find_prunable(keep=1)
    assert reasons(found)[old.run_id] == wording
    assert {item.run_id for item in found.items} == {mistake.run_id, "nobody-knows"}

    monkeypatch.setenv("RLX_HOME", str(second))
    rows = front_door.status(host=far.site.place.host)
    assert [row.ref.run_id for row in rows] == [new.run_id]
    assert rlx("status", "--host", far.site.place.host).stderr == wording
    shown = {row.ref.run_id: row for row in front_door.status(host=far.site.place.host, everything=True)}
    assert shown.keys() == {mistake.run_id, old.run_id, new.run_id}
    removed = shown[mistake.run_id].removed
    assert removed is not None and removed.reason == "wrong rate" and not removed.deleted

    # What one laptop takes back, the other sees.
    front_door.restore(mistake.run_id)
    monkeypatch.setenv("RLX_HOME", str(first))
    assert mistake.run_id in Index(first).hidden_runs()
    front_door.status(host=far.site.place.host)
    assert {run_id: each.deleted for run_id, each in Index(first).hidden_runs().items()} == {old.run_id: True}

    # A host that is down costs its own runs, and nothing of them goes.
    far.go_down()
    kept = reasons(front_door.prune(what=["runs", "mirrors"], keep=0).found)
    assert new.run_id in kept
    assert far.folder(new).is_dir() and (mirror / new.run_id).is_dir()
