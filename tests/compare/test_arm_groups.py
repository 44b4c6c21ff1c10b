"""Arms that are named come from one launch or one registered experiment, or the names are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import rlx as front_door
from rlx.api.comparing import select_arms
from rlx.api.judged_comparison import Compared
from rlx.api.runs import open_index, unheard
from rlx.compare.excluded_runs import ExcludedBy
from rlx.errors import NoSuchRun, UsageError
from rlx.model import Place, RunState
from rlx.runs.run import RunRef
from rlx.runs.status.observation import Observation
from tests.compare.builders import RunBuilder
from tests.compare.run_dirs import ASKED, CONTROL, FAST, SLOW, TREATMENT, arm_of, write_run

RunsOf = Callable[..., None]


def launch(minute: int) -> str:
    return f"20261120-12{minute:02}00-abcdef"


def fail(builder: RunBuilder, minute: int, name: str = "gsm8k") -> None:
    (run,) = Path(os.environ["RLX_ROOT"]).glob(f"runs/{name}-{builder.arm}-s{builder.seed}-20261120-12{minute:02}00-*")
    (run / "attempts/1/state/exit").write_text("1 leader 1795000000 100\n", encoding="utf-8")


def other_experiment(*builders: RunBuilder, minute: int) -> None:
    for builder in builders:
        write_run(replace(builder.plan(), name="other"), builder.series, None, minute)


def minutes(compared: Compared) -> list[list[str]]:
    """Of each arm the minutes of the launches of its runs."""
    return [[run.run_id.split("-")[-2][2:4] for run in arm.runs] for arm in compared.comparison.arms]


def taken(*names: str, seeds: tuple[int, ...] = ()) -> list[list[str]]:
    return minutes(front_door.compare(*(names or ("baseline", "fast")), seeds=seeds))


def test_a_stray_relaunch_of_the_control_is_not_taken(runs_of: RunsOf) -> None:
    runs_of(CONTROL, TREATMENT)
    runs_of(CONTROL, minute=5)
    compared = front_door.compare("baseline", "fast")
    assert minutes(compared) == [["00"], ["00"]]
    (note,) = [note for note in compared.notes if note.startswith("taken: ")]
    assert note.index(launch(0)) < note.index("not taken") < note.index(launch(5))
    (left_out,) = compared.left_out
    assert (left_out.launch_id, left_out.by) == (launch(5), ExcludedBy.ONE_LAUNCH)
    front_door.remove(left_out.run_id, reason="by mistake")
    assert not [note for note in front_door.compare("baseline", "fast").notes if note.startswith("taken: ")]


@pytest.mark.parametrize("second", ["finished", "failed", "treatment missing"])
def test_experiments_with_the_same_arms_are_never_mixed(runs_of: RunsOf, second: str) -> None:
    runs_of(CONTROL, TREATMENT)
    other_experiment(*((CONTROL,) if second == "treatment missing" else (CONTROL, TREATMENT)), minute=5)
    if second == "failed":
        fail(TREATMENT, 5, "other")
    minute = "05" if second == "finished" else "00"
    assert taken() == [[minute], [minute]]


def test_a_launch_that_has_finished_comes_before_a_newer_one_that_goes_on(runs_of: RunsOf) -> None:
    runs_of(CONTROL, TREATMENT)
    runs_of(CONTROL, minute=5)
    runs_of(TREATMENT, finished=False, minute=5)
    assert taken() == [["00"], ["00"]]


def test_arms_of_one_recipe_that_were_launched_apart_are_compared(runs_of: RunsOf) -> None:
    runs_of(CONTROL)
    runs_of(TREATMENT, minute=5)
    compared = front_door.compare("baseline", "fast")
    assert minutes(compared) == [["00"], ["05"]]
    assert [note.partition(":")[0] for note in compared.notes] == ["launched apart"]


def test_what_failed_is_not_what_is_meant_where_it_was_launched_again(runs_of: RunsOf) -> None:
    runs_of(CONTROL, TREATMENT)
    fail(TREATMENT, 0)
    runs_of(TREATMENT, minute=5)
    assert taken() == [["00"], ["05"]]


def test_a_launch_after_one_that_failed_is_shown_while_it_goes_on(runs_of: RunsOf) -> None:
    runs_of(CONTROL, TREATMENT)
    fail(CONTROL, 0)
    fail(TREATMENT, 0)
    runs_of(CONTROL, TREATMENT, finished=False, minute=5)
    assert taken() == [["05"], ["05"]]


def test_where_nothing_decides_the_launches_are_listed(runs_of: RunsOf, tmp_path: Path) -> None:
    runs_of(CONTROL)
    runs_of(CONTROL, minute=1)
    runs_of(TREATMENT, minute=2)
    for ask in (lambda: taken(), lambda: front_door.report(tmp_path / "page.html", "baseline", "fast")):
        with pytest.raises(UsageError) as refused:
            ask()
        assert all(f"{launch(minute)} of gsm8k" in refused.value.message for minute in range(3))
        assert "fast finished" in refused.value.message and refused.value.hint
    assert taken(f"gsm8k-baseline-s1-{launch(0)[:15]}-abcd", "fast") == [["00"], ["02"]]


def test_an_arm_of_one_experiment_and_one_of_another_are_refused(runs_of: RunsOf) -> None:
    runs_of(CONTROL)
    other_experiment(TREATMENT, minute=5)
    with pytest.raises(UsageError, match=r"of other, .* of gsm8k, "):
        taken()
    assert taken(f"gsm8k-baseline-s1-{launch(0)[:15]}-abcd", "fast") == [["00"], ["05"]]
    assert taken("gsm8k", "other") == taken("gsm8k-baseline-s1", "other-fast-s1") == [["00"], ["05"]]


def test_an_id_stays_and_brings_its_launch_along(runs_of: RunsOf) -> None:
    runs_of(CONTROL, TREATMENT)
    runs_of(CONTROL, TREATMENT, minute=5)
    old = f"gsm8k-baseline-s1-{launch(0)[:15]}-abcd"
    assert taken(old, "fast") == [["00"], ["00"]]
    assert taken(old, f"gsm8k-fast-s1-{launch(5)[:15]}-abcd") == [["00"], ["05"]]


def test_the_seeds_that_are_asked_for_are_those_of_one_launch(runs_of: RunsOf) -> None:
    runs_of(*(replace(builder, seed=seed) for builder in (CONTROL, TREATMENT) for seed in (1, 2)))
    runs_of(CONTROL, TREATMENT, minute=5)
    assert taken(seeds=(2,)) == [["00"], ["00"]]
    assert taken(seeds=(1,)) == [["05"], ["05"]]
    with pytest.raises(NoSuchRun, match=r"\b3\b"):
        taken(seeds=(3,))


def test_a_registered_experiment_is_one_group_however_it_was_launched(runs_of: RunsOf) -> None:
    other_experiment(CONTROL, TREATMENT, minute=0)
    runs_of(*arm_of(CONTROL, SLOW), minute=1)
    runs_of(*arm_of(TREATMENT, FAST), minute=2)
    compared = front_door.compare("baseline", "fast")
    assert minutes(compared) == [["01"] * 3, ["02"] * 3]
    assert compared.comparison.registered and compared.comparison.registered.registration.digest == ASKED.digest
    runs_of(*arm_of(CONTROL, SLOW[:1]), minute=3)
    assert front_door.compare("baseline", "fast").comparison.registered


def test_no_host_is_asked_which_launch_has_finished() -> None:
    index = open_index()
    for minute, states in enumerate([("finished", "finished"), ("finished", "failed"), ("running", "running")]):
        for position, (arm, state) in enumerate(zip(("baseline", "fast"), states, strict=True)):
            run_id = f"gsm8k-{arm}-s1-{launch(minute)[:15]}-abcd"
            place = Place("no-such-host", "no-such-host")
            index.add(RunRef(run_id, launch(minute), "gsm8k", arm, 1, place, "~/rlx", 60.0 * minute), position)
            index.cache_states([Observation(run_id, RunState(state))])

    def chosen() -> set[str]:
        return {ref.launch_id for arm in select_arms(index, ["baseline", "fast"], (), unheard) for ref in arm}

    assert chosen() == {launch(2)}, "they may have finished since"
    index.cache_states([Observation(f"gsm8k-fast-s1-{launch(2)[:15]}-abcd", RunState.FAILED)])
    assert chosen() == {launch(0)}
