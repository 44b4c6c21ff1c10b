"""Which run stands for which registered one: decided by launches and ends, never by who launches more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.compare.slot_assignment import EndedRun, RunOutcome, RunSlot, RunSlots, assign_slots
from rlx.model.registration import RegisteredArm, Registration

RESULT, OPEN, FAILED, MACHINE = RunOutcome.RESULT, RunOutcome.OPEN, RunOutcome.FAILED, RunOutcome.MACHINE


def asked(spares: int = 2, pairing: str = "none", arms: tuple[str, ...] = ("a", "b")) -> Registration:
    return Registration(
        name="sums",
        question="?",
        metric="m",
        at="last",
        validations=1,
        test="superiority",
        margin=None,
        seeds=(1, 2, 3),
        spare_seeds=tuple(range(4, 4 + spares)),
        several="dunnett",
        pairing=pairing,
        secondary=(),
        control="a",
        arms=tuple(RegisteredArm(name, (), "", "") for name in arms),
    )


def launches(*said: tuple[str, int, RunOutcome]) -> list[EndedRun]:
    """Runs in the order of their launch."""
    return [
        EndedRun(
            f"{arm}{seed}-{at}", arm, seed, float(at), outcome, "RLX877 a disk is full" if outcome is MACHINE else ""
        )
        for at, (arm, seed, outcome) in enumerate(said)
    ]


def complete(arm: str) -> list[tuple[str, int, RunOutcome]]:
    return [(arm, seed, RESULT) for seed in (1, 2, 3)]


def of_one_arm(*said: tuple[str, int, RunOutcome], spares: int = 2) -> RunSlots:
    return assign_slots(asked(spares, arms=("a",)), launches(*said))


def to_launch(found: RunSlots) -> list[RunSlot]:
    return [slot for slot in found.slots if slot.next_seed is not None]


def ids(found: RunSlots) -> dict[int, str]:
    return {seed: run.run_id for (seed, _), run in found.standing.items()}


def reasons(found: RunSlots) -> dict[str, str]:
    return {each.run.run_id: each.why for each in found.passed_over}


def test_without_a_run_everything_is_to_be_launched() -> None:
    found = assign_slots(asked(), [])
    assert [(slot.next_seed, slot.arm) for slot in to_launch(found)] == [*asked().slots]
    assert not found.standing and not found.passed_over


def test_first_launches_stand_and_nothing_is_left_to_launch() -> None:
    found = assign_slots(asked(), launches(*complete("a"), *complete("b")))
    assert len(found.standing) == 6 and not to_launch(found) and not found.passed_over
    assert {slot.why for slot in found.slots} == {""}


@pytest.mark.parametrize("first", [RESULT, OPEN, FAILED])
def test_what_is_launched_again_replaces_nothing(first: RunOutcome, wording: SnapshotAssertion) -> None:
    found = of_one_arm(("a", 1, first), ("a", 1, RESULT), ("a", 4, RESULT))
    assert ids(found) == {1: "a1-0"}
    assert reasons(found).keys() == {"a1-1", "a4-2"}
    assert reasons(found) == wording


def test_a_spare_takes_the_place_of_what_the_machine_ended(wording: SnapshotAssertion) -> None:
    lost = of_one_arm(("a", 1, RESULT), ("a", 2, MACHINE), ("a", 3, RESULT))
    (slot,) = to_launch(lost)
    assert (slot.seed, slot.next_seed) == (2, 4)
    assert "a2-1 (RLX877 a disk is full)" in slot.why and slot.why == wording
    found = of_one_arm(("a", 1, RESULT), ("a", 2, MACHINE), ("a", 3, RESULT), ("a", 4, RESULT))
    assert ids(found) == {1: "a1-0", 2: "a4-3", 3: "a3-2"} and not to_launch(found)
    assert reasons(found).keys() == {"a2-1"} and "RLX877" in reasons(found)["a2-1"]
    assert reasons(found) == wording


def test_without_spares_the_seed_is_launched_again_and_both_attempts_are_one_run(wording: SnapshotAssertion) -> None:
    (slot,) = to_launch(of_one_arm(*complete("a")[:2], ("a", 3, MACHINE), spares=0))
    assert slot.next_seed == 3 and slot.why == wording
    found = of_one_arm(*complete("a")[:2], ("a", 3, MACHINE), ("a", 3, FAILED), ("a", 3, RESULT), spares=0)
    assert ids(found)[3] == "a3-3" and not to_launch(found), "the attempt that ended by itself stands, and failed"


def test_spares_enter_in_order_and_one_that_is_lost_is_used_up(wording: SnapshotAssertion) -> None:
    lost = [("a", 1, MACHINE), ("a", 2, MACHINE), ("a", 3, RESULT)]
    assert [slot.next_seed for slot in to_launch(of_one_arm(*lost))] == [4, 5]
    found = of_one_arm(*lost, ("a", 5, RESULT))
    assert ids(found) == {3: "a3-2"} and [slot.next_seed for slot in to_launch(found)] == [4]
    assert reasons(found)["a5-3"] == wording
    assert ids(of_one_arm(*lost, ("a", 5, RESULT), ("a", 4, RESULT))) == {1: "a4-4", 2: "a5-3", 3: "a3-2"}
    found = of_one_arm(*lost, ("a", 4, MACHINE), ("a", 5, RESULT))
    assert ids(found) == {1: "a5-4", 3: "a3-2"} and [slot.next_seed for slot in to_launch(found)] == [2]
    found = of_one_arm(*lost, ("a", 4, FAILED))
    assert found.standing[1, "a"].outcome is FAILED, "a spare that fails by itself keeps the place as failed"


def test_whichever_was_launched_first_after_a_loss_stands(wording: SnapshotAssertion) -> None:
    lost = [("a", 1, MACHINE), ("a", 2, RESULT), ("a", 3, RESULT)]
    assert ids(of_one_arm(*lost, ("a", 1, RESULT), ("a", 4, RESULT)))[1] == "a1-3"
    found = of_one_arm(*lost, ("a", 4, RESULT), ("a", 1, RESULT))
    assert ids(found)[1] == "a4-3"
    assert reasons(found)["a1-4"] == wording


def test_each_arm_has_its_own_spares_but_blocks_give_way_whole(wording: SnapshotAssertion) -> None:
    runs = launches(("a", 1, RESULT), ("b", 1, MACHINE), *complete("a")[1:], *complete("b")[1:])
    assert [(slot.next_seed, slot.arm) for slot in to_launch(assign_slots(asked(), runs))] == [(4, "b")]
    found = assign_slots(asked(pairing="block"), runs)
    assert sorted((slot.next_seed, slot.arm) for slot in to_launch(found)) == [(4, "a"), (4, "b")]
    assert reasons(found)["a1-0"] == wording


def test_seeds_and_arms_that_nobody_registered_are_added(wording: SnapshotAssertion) -> None:
    found = assign_slots(asked(), launches(("a", 9, RESULT), ("c", 1, RESULT)))
    assert reasons(found).keys() == {"a9-0", "c1-1"} and reasons(found) == wording


RUNS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 7), st.sampled_from(RunOutcome)), max_size=14)
PAIRINGS = st.sampled_from(["none", "block"])


@settings(max_examples=300, deadline=None)
@given(RUNS, PAIRINGS, st.integers(0, 3))
def test_each_run_is_in_exactly_one_place(said: list[tuple[str, int, RunOutcome]], pairing: str, spares: int) -> None:
    runs = launches(*said)
    found = assign_slots(asked(spares, pairing), runs)
    assert [(slot.seed, slot.arm) for slot in found.slots] == [*asked(spares, pairing).slots]
    standing = [run.run_id for run in found.standing.values()]
    assert sorted(standing + [each.run.run_id for each in found.passed_over]) == sorted(run.run_id for run in runs)
    assert all(run.outcome is not MACHINE for run in found.standing.values())
    assert all(each.why for each in found.passed_over)
    assert len({(slot.next_seed, slot.arm) for slot in to_launch(found)}) == len(to_launch(found))
    assert found == assign_slots(asked(spares, pairing), runs[::-1]), "the order in which runs are named says nothing"


@settings(max_examples=300, deadline=None)
@given(RUNS, PAIRINGS, st.integers(0, 3))
def test_whoever_launches_more_makes_no_run_give_way(
    said: list[tuple[str, int, RunOutcome]], pairing: str, spares: int
) -> None:
    runs = launches(*said)
    before: set[str] = set()
    for count in range(len(runs) + 1):
        now = {run.run_id for run in assign_slots(asked(spares, pairing), runs[:count]).standing.values()}
        # A block gives way whole to a loss in it, which nobody chooses.
        assert before <= now or (pairing == "block" and runs[count - 1].outcome is MACHINE)
        before = now


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(RUNS, PAIRINGS, st.integers(0, 3))
def test_a_failure_is_worth_as_much_as_a_result(
    said: list[tuple[str, int, RunOutcome]], pairing: str, spares: int
) -> None:
    def standing(runs: list[EndedRun]) -> dict[tuple[int, str], str]:
        return {slot: run.run_id for slot, run in assign_slots(asked(spares, pairing), runs).standing.items()}

    runs = launches(*said)
    assert standing(runs) == standing([replace(run, outcome=RESULT) if run.outcome is FAILED else run for run in runs])
