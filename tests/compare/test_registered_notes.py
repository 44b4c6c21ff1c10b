"""What a reader of a registered answer should know stands beside it, with or without the index."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlx as front_door
from rlx.model.registration import RegisteredArm
from rlx.runs.index.registrations import with_registrations
from tests.cli.support import rlx
from tests.compare.run_dirs import ASKED, CONTROL, FAST, SLOW, TREATMENT, arm_of, write_run

RUNS = [*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def launched(minute: int = 0, *builders: Any) -> None:
    """Write runs of one launch, each with its position there."""
    for position, builder in enumerate(builders or RUNS):
        write_run(builder.plan(), builder.series, None, minute)
        run_dir = directory(builder.arm, builder.seed, minute)
        manifest = json.loads((run_dir / "manifest.json").read_text(encoding="utf-8"))
        (run_dir / "manifest.json").write_text(json.dumps({**manifest, "position": position}), encoding="utf-8")


def directory(arm: str, seed: int, minute: int = 0) -> Path:
    return Path(os.environ["RLX_ROOT"]) / f"runs/gsm8k-{arm}-s{seed}-20261120-12{minute:02}00-abcd"


def notes(code: int = 0) -> list[str]:
    """Return the ids of the notes, which every form of the comparison shows."""
    found = json.loads(rlx("compare", "baseline", "fast", "--json", code=code).stdout)
    ids = [note["id"] for note in found["registered"]["notes"]]
    shown = (
        rlx("compare", "baseline", "fast", code=code).stdout,
        rlx("compare", "baseline", "fast", "--csv", code=code).stderr,
    )
    assert all(id in said for id in ids for said in shown)
    (experiment,) = [each for each in front_door.experiments() if each.registration.is_same(ASKED)]
    assert [note.id for note in experiment.notes] == ids
    return ids


@pytest.mark.long
def test_a_whole_launch_says_nothing() -> None:
    launched()
    assert notes() == []


@pytest.mark.long
def test_a_gap_in_the_positions_of_a_launch_is_named() -> None:
    launched()
    shutil.rmtree(directory("baseline", 2))
    assert notes(11) == ["RLX934"]
    # Launched again, with the index gone.
    launched(30, RUNS[1])
    shutil.rmtree(os.environ["RLX_HOME"])
    found = notes()
    assert found[0] == "RLX934" and "RLX935" in found


@pytest.mark.long
def test_runs_launched_apart_are_named() -> None:
    launched(0, *RUNS[:5])
    launched(40, RUNS[5])
    assert notes() == ["RLX935"]


@pytest.mark.long
def test_runs_launched_before_the_registration_are_named() -> None:
    late = replace(ASKED, registered="2099-01-01T00:00:00Z")
    launched(0, *arm_of(CONTROL, SLOW, late), *arm_of(TREATMENT, FAST, late))
    assert notes() == ["RLX935"]


@pytest.mark.long
def test_the_same_question_under_another_name_is_named() -> None:
    launched()
    home = Path(os.environ["RLX_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    again = replace(ASKED, name="renamed", seeds=(7, 8, 9))
    other = replace(ASKED, name="else", arms=(ASKED.arms[0], RegisteredArm("fast", ("train.lr",), "another", "e")))
    for one in (again, other):
        with_registrations(home, [replace(CONTROL, registration=one).plan()])
    assert notes() == ["RLX936"]
    rlx("report", "baseline", "fast", "--bundle", "b.tar.gz")
    judged = json.loads(rlx("judge", "b.tar.gz", "--json").stdout)
    assert [note["id"] for note in judged["computed"]["comparison"]["registered"]["notes"]] == ["RLX936"]
    assert judged["agrees"]


@pytest.mark.long
def test_a_run_whose_records_are_gone_has_failed_everywhere() -> None:
    launched()
    rlx("status", "-a")
    (directory("fast", 3) / "manifest.json").unlink()
    found = json.loads(rlx("compare", "baseline", "fast", "--json", code=14).stdout)
    assert "seed 3 of fast does not count: its records are gone" in found["claim"]
    assert [run["why"] for run in found["left_out"]] == ["its records are gone"]
    (experiment,) = front_door.experiments()
    assert [slot.seed for slot in experiment.missing] == []
    assert [run.ref.seed for run in experiment.failed] == [3]
    rlx("report", "baseline", "fast", "-o", "page.html", code=14)
    assert "its records are gone" in Path("page.html").read_text(encoding="utf-8")


def test_a_run_that_was_lost_and_launched_again_is_named() -> None:
    launched()
    attempt = directory("fast", 3) / "attempts/1"
    (attempt / "state/exit").unlink()
    (attempt / "state/supervisor").write_text("1 1 another-boot\n", encoding="utf-8")
    for name in ("log", "metrics.jsonl"):
        lines = (attempt / name).read_text(encoding="utf-8").splitlines()
        (attempt / name).write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
    launched(30, RUNS[5])
    found = json.loads(rlx("compare", "baseline", "fast", "--json").stdout)["registered"]
    (note,) = [each for each in found["notes"] if each["id"] == "RLX937"]
    assert "seed 3 of fast" in note["message"] and "lost at step 5 of 6" in note["message"]
