"""What stands beside the answer of a registered experiment: edited launches that must be named, and honest neighbours.

RLX934: runs that are not known here. RLX935: launched before the registration, or apart. RLX936: the same question
again. RLX937: a run that gave up its place as its machine's fault.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rlx
from rlx.model import Registration
from rlx.model.registration import MEAN_OF_LAST, RegisteredArm
from rlx.runs.index.registrations import with_registrations
from rlx.runs.run import utc_text
from tests.compare.builders import RunBuilder
from tests.compare.run_dirs import ASKED, CONTROL, FAST, SLOW, TREATMENT, arm_of, write_run

HOUR, YEAR = 3600.0, 365 * 86400.0
Step = Callable[[], object]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def runs_of(asked: Registration = ASKED) -> list[RunBuilder]:
    """Return the six runs of an experiment, in the order of their positions in one launch."""
    return [*arm_of(CONTROL, SLOW, asked), *arm_of(TREATMENT, FAST, asked)]


def launch(minute: int = 0, builders: Sequence[RunBuilder] = (), places: Sequence[int] = ()) -> None:
    """Write runs of one launch, that many minutes after the first; `places`: their positions, else from 0 on."""
    builders = builders or runs_of()
    for position, builder in zip(places or range(len(builders)), builders, strict=True):
        write_run(builder.plan(), builder.series, None, minute)
        change(builder, minute, position=position)


def change(builder: RunBuilder, minute: int, **fields: Any) -> None:
    path = folder(builder.arm, builder.seed, minute) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **fields}), encoding="utf-8")


def folder(arm: str, seed: int, minute: int = 0) -> Path:
    return Path(os.environ["RLX_ROOT"]) / f"runs/gsm8k-{arm}-s{seed}-20261120-12{minute:02}00-abcd"


def delete(*runs: tuple[str, int], minute: int = 0) -> None:
    for arm, seed in runs:
        shutil.rmtree(folder(arm, seed, minute))


def lose(arm: str, seed: int, minute: int = 0, *, lines: int = -1) -> None:
    """Let the machine take the end of a run along, and of its log and metrics all but these first lines."""
    attempt = folder(arm, seed, minute) / "attempts/1"
    (attempt / "state/exit").unlink()
    (attempt / "state/supervisor").write_text("1 1 another-boot\n", encoding="utf-8")
    for name in ("log", "metrics.jsonl"):
        kept = (attempt / name).read_text(encoding="utf-8").splitlines()[:lines]
        (attempt / name).write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")


def end(arm: str, seed: int, *, said: str, minute: int = 0) -> None:
    """Let a run fail at its last step with these words in its log."""
    attempt = folder(arm, seed, minute) / "attempts/1"
    for name in ("log", "metrics.jsonl"):
        kept = (attempt / name).read_text(encoding="utf-8").splitlines()[:-1]
        words = [said] if name == "log" else []
        (attempt / name).write_text("".join(f"{line}\n" for line in [*kept, *words]), encoding="utf-8")
    (attempt / "state/exit").write_text(f"1 leader {time.time():.0f} 100\n", encoding="utf-8")


def register(*others: Registration) -> None:
    """Register further experiments on this machine."""
    home = Path(os.environ["RLX_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    for one in others:
        with_registrations(home, [replace(CONTROL, registration=one).plan()])


def forget() -> None:
    """Lose the index, as on another machine; `rlx.experiments` makes it anew from the hosts."""
    shutil.rmtree(os.environ["RLX_HOME"], ignore_errors=True)


def registered_at(seconds: float) -> Registration:
    """Return the experiment as registered that long after now."""
    return replace(ASKED, registered=utc_text(time.time() + seconds))


def notes() -> list[str]:
    found = [each for each in rlx.experiments() if each.registration.name == ASKED.name and each.assigned]
    return sorted({note.id for experiment in found for note in experiment.notes})


def steps(*each: Step) -> Step:
    return lambda: [step() for step in each]


RUNS = runs_of()
EXTRA = arm_of(TREATMENT, (0.7,), ASKED, first=9)
ARMS = ASKED.arms
GAPS: dict[str, Step] = {
    "a run of the control": steps(launch, lambda: delete(("baseline", 2))),
    "a run of the treatment": steps(launch, lambda: delete(("fast", 1))),
    "the first of its launch": steps(launch, lambda: delete(("baseline", 1))),
    "two runs side by side": steps(launch, lambda: delete(("baseline", 3), ("fast", 1))),
    "all of one arm but its last": steps(launch, lambda: delete(("fast", 1), ("fast", 2))),
    "known by what stands after it, the index lost": steps(launch, lambda: delete(("baseline", 2)), forget),
    "in the second of two launches": steps(lambda: launch(0, RUNS[:3]), lambda: launch(0, RUNS[3:], (3, 5, 6))),
    "a launch of which one run is left": steps(
        launch, lambda: delete(("baseline", 1), ("baseline", 2), ("baseline", 3), ("fast", 1), ("fast", 2))
    ),
}
WHOLE: dict[str, Step] = {
    "a whole launch": launch,
    "a whole launch, the index lost": steps(launch, forget),
    "a run that rlx removed": steps(launch, lambda: rlx.remove("gsm8k-fast-s2", reason="of no use", force=True)),
    "a run without its manifest": steps(
        launch, rlx.experiments, lambda: (folder("fast", 2) / "manifest.json").unlink()
    ),
    "runs of further seeds in the same launch": lambda: launch(0, [*RUNS, *EXTRA]),
}
LATE: dict[str, Step] = {
    "registered a second after": lambda: launch(0, runs_of(registered_at(61))),
    "registered an hour after": lambda: launch(0, runs_of(registered_at(HOUR))),
    "registered a year after": lambda: launch(0, runs_of(registered_at(YEAR))),
    "the control before the registration": steps(
        lambda: launch(0, runs_of(registered_at(HOUR / 2))[:3]),
        lambda: launch(59, runs_of(registered_at(HOUR / 2))[3:]),
    ),
    "one run a minute after the others": steps(lambda: launch(0, RUNS[:5]), lambda: launch(2, RUNS[5:])),
    "the treatment three quarters of an hour after": steps(lambda: launch(0, RUNS[:3]), lambda: launch(45, RUNS[3:])),
    "a seed of both arms later": steps(
        lambda: launch(0, [*RUNS[:2], *RUNS[3:5]]), lambda: launch(30, [RUNS[2], RUNS[5]])
    ),
    "a launch a run": steps(*(partial(launch, 10 * place, [run]) for place, run in enumerate(RUNS))),
}
IN_TIME: dict[str, Step] = {
    "all at once": launch,
    "registered a minute before": lambda: launch(0, runs_of(registered_at(-60))),
    "a later run that stands for no registered one": steps(launch, lambda: launch(50, EXTRA)),
    "a run launched again that had its result": steps(launch, lambda: launch(40, RUNS[5:])),
    "two launches within the minute": steps(
        launch, lambda: change(RUNS[5], 0, launch_id="20261120-120030-fedcba", position=0)
    ),
}
AGAIN: dict[str, Registration] = {
    "another name": replace(ASKED, name="renamed"),
    "other seeds": replace(ASKED, seeds=(7, 8, 9)),
    "more seeds": replace(ASKED, seeds=(1, 2, 3, 4, 5)),
    "another wording": replace(ASKED, question="Is a larger rate better?"),
    "arms of other names": replace(
        ASKED, control="slow", arms=(replace(ARMS[0], name="slow"), replace(ARMS[1], name="quick"))
    ),
    "arms in another order": replace(ASKED, arms=ARMS[::-1]),
    "spare seeds": replace(ASKED, spare_seeds=(4, 5)),
    "other values shown beside it": replace(ASKED, secondary=("response_length/*",)),
}
ANOTHER: dict[str, Registration] = {
    "another metric": replace(ASKED, metric="val-core/math/acc/mean@1"),
    "another moment": replace(ASKED, at=MEAN_OF_LAST, validations=3),
    "another test": replace(ASKED, test="equivalence", margin=2.0),
    "another treatment": replace(ASKED, arms=(ARMS[0], RegisteredArm("fast", ("train.lr",), "2", "e"))),
    "another control": replace(ASKED, arms=(replace(ARMS[0], recipe="9"), ARMS[1])),
}
SPARE = replace(ASKED, spare_seeds=(4,))
LOST: dict[str, Step] = {
    "a run of the treatment": steps(launch, lambda: lose("fast", 3), lambda: launch(1, RUNS[5:])),
    "a run of the control": steps(launch, lambda: lose("baseline", 1), lambda: launch(1, RUNS[:1])),
    "before its first step": steps(launch, lambda: lose("fast", 2, lines=2), lambda: launch(1, RUNS[4:5])),
    "after its last validation": steps(launch, lambda: lose("fast", 2, lines=99), lambda: launch(1, RUNS[4:5])),
    "a spare seed has its place": steps(
        lambda: launch(0, runs_of(SPARE)),
        lambda: lose("fast", 2),
        lambda: launch(1, arm_of(TREATMENT, (0.7,), SPARE, first=4)),
    ),
    "one of each arm": steps(
        launch, lambda: lose("fast", 1), lambda: lose("baseline", 1), lambda: launch(1, [RUNS[0], RUNS[3]])
    ),
    "twice": steps(
        launch,
        lambda: lose("fast", 3),
        lambda: launch(1, RUNS[5:]),
        lambda: lose("fast", 3, 1),
        lambda: launch(2, RUNS[5:]),
    ),
}
KEPT: dict[str, Step] = {
    "all have results": launch,
    "a result that was launched again": steps(launch, lambda: launch(1, RUNS[5:])),
    "an error of its own, launched again": steps(
        launch, lambda: end("fast", 2, said="ValueError: wrong argument"), lambda: launch(1, RUNS[4:5])
    ),
    "a run of no registered seed that was lost": steps(launch, lambda: launch(1, EXTRA), lambda: lose("fast", 9, 1)),
}


@pytest.mark.parametrize("name", GAPS)
def test_a_launch_of_which_runs_are_not_known_is_named(name: str) -> None:
    GAPS[name]()
    assert "RLX934" in notes()


@pytest.mark.parametrize("name", WHOLE)
def test_a_launch_that_is_known_is_whole(name: str) -> None:
    WHOLE[name]()
    assert "RLX934" not in notes()


@pytest.mark.parametrize("name", LATE)
def test_runs_before_the_registration_or_apart_are_named(name: str) -> None:
    LATE[name]()
    assert "RLX935" in notes()


@pytest.mark.parametrize("name", IN_TIME)
def test_runs_of_one_time_after_the_registration_are_not(name: str) -> None:
    IN_TIME[name]()
    assert "RLX935" not in notes()


@pytest.mark.parametrize("name", AGAIN)
def test_the_same_question_in_other_words_is_named(name: str) -> None:
    launch()
    register(AGAIN[name])
    assert notes() == ["RLX936"]


@pytest.mark.parametrize("name", ANOTHER)
def test_another_question_is_not(name: str) -> None:
    launch()
    register(ANOTHER[name])
    assert notes() == []


@pytest.mark.parametrize("name", LOST)
def test_a_run_that_gave_up_its_place_is_named(name: str) -> None:
    LOST[name]()
    assert "RLX937" in notes()


@pytest.mark.parametrize("name", KEPT)
def test_a_run_that_kept_its_place_is_not(name: str) -> None:
    KEPT[name]()
    assert "RLX937" not in notes()
