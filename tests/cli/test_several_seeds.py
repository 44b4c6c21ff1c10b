"""Lists are written alike everywhere: `--seed 1 2 3`, `--seed 1,2,3`, `--arm a,b`, `--host a --host b`."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.cli.frame.options import ARM_LIST, HOST_LIST, NUMBER_LIST, spelled_out
from rlx.errors import ExitCode
from tests.cli.support import rlx, rlx_here
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs

RECIPE = str(REPOSITORY / "recipes/tiny-cpu.yaml")
SIX = [(arm, seed) for seed in (1, 2, 3) for arm in ("baseline", "aqn")]


def planned(*words: str) -> list[tuple[str, int]]:
    """Shown before anything refuses them: this machine may lack the model, the data and verl."""
    done = rlx_here(words)
    assert done.stdout, done.output
    return [(plan["arm"], plan["seed"]) for plan in json.loads(done.stdout)["plans"]]


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        "RECIPE --arm all --seed 1 2 3",
        "--seed 1 2 3 RECIPE --arm all",
        "--seed 1 2 3 -- RECIPE",
        "--arm all --seed 1 RECIPE --seed 2 3",
        "--seed 1 --seed 2 --seed 3 RECIPE",
        "RECIPE --seed=1 2 3",
        "RECIPE --seed 1 2 2 3 1",
        "--seed 1,2,3 RECIPE",
        "--seed 1,2 --arm baseline,aqn RECIPE --seed=3",
        "RECIPE --arm baseline --arm aqn --seed 1 --seed 2,3",
    ],
)
def test_every_order_plans_the_same_runs(words: str) -> None:
    typed = [RECIPE if word == "RECIPE" else word for word in words.split()]
    assert planned("plan", "--json", *typed) == SIX
    assert planned("launch", "--dry-run", "--json", *typed) == SIX


def test_numbers_are_the_seed_s_and_no_recipe() -> None:
    assert "launch what?" in rlx("launch", "--seed", "1", "2", code=ExitCode.USAGE).stderr


def test_a_wrong_seed_is_named() -> None:
    """By its option; the words are Typer's, and differ from one of its versions to another."""
    assert "--seed" in rlx("plan", RECIPE, "--seed", "x", "2", code=ExitCode.USAGE).stderr
    assert "-2" in rlx("plan", RECIPE, "--seed", "1", "-2", code=ExitCode.USAGE).stderr
    assert "--seed" in rlx("plan", RECIPE, "--seed", code=ExitCode.USAGE).stderr


def test_an_option_of_one_number_takes_one() -> None:
    assert rlx("show", RECIPE, "--seed", "1").stdout
    assert not rlx("show", RECIPE, "--seed", "1", "2", code=ExitCode.USAGE).stdout


WORDS = st.sampled_from(["--seed", "--seed=4", "--arm", "all", "a,b", "2026", "7,8", "-5", "--", "seed"])
PARAMS = [SimpleNamespace(metavar=NUMBER_LIST, opts=["--seed"]), SimpleNamespace(metavar=ARM_LIST, opts=["--arm"])]


@given(words=st.lists(WORDS, max_size=8))
def test_saying_it_again_changes_nothing(words: list[str]) -> None:
    spelled = spelled_out(words, PARAMS)
    assert spelled_out(spelled, PARAMS) == spelled


@given(words=st.lists(WORDS, max_size=8))
def test_what_has_no_such_option_stays_as_it_is(words: list[str]) -> None:
    assert spelled_out(words, []) == words


@pytest.mark.parametrize(
    ("words", "spelled"),
    [
        ("--seed 1,2 3 4,5 x 6", "--seed=1 --seed=2 --seed=3 --seed=4 --seed=5 x 6"),
        ("--seed=1,2 3", "--seed=1 --seed=2 --seed=3"),
        ("--arm a,b c --arm d", "--arm=a --arm=b c --arm=d"),
        ("x --host a -v --host b,c y -- --host d", "--host=a,b,c x -v y -- --host d"),
        ("--arm a -- --seed 1,2", "--arm=a -- --seed 1,2"),
        ("--arm", "--arm"),
    ],
)
def test_lists_in_every_form(words: str, spelled: str) -> None:
    hosts = SimpleNamespace(metavar=HOST_LIST, opts=["--host"])
    assert spelled_out(words.split(), [*PARAMS, hosts]) == spelled.split()


@pytest.mark.long
@pytest.mark.parametrize("words", ["--seed 1 3 baseline aqn", "baseline --seed 1 aqn --seed 3"])
def test_the_seeds_of_a_comparison_stand_anywhere(words: str) -> None:
    place_runs(CASES / "six-runs")
    answer = json.loads(rlx("compare", *words.split(), "--json").stdout)
    assert [(run["arm"], run["seed"]) for run in answer["left_out"]] == [("aqn", 2), ("baseline", 2)]
    assert len(answer["control"]["runs"]) == 2
