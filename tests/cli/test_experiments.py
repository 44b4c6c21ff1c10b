"""An experiment is registered by its first launch, runs in blocks, and lists what is missing, added and failed."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.api.completing import experiment_names
from rlx.backends import registry
from rlx.errors import NoSuchRun, RlxError, UsageError
from rlx.model import LaunchPlan, Registration, from_jsonable, to_jsonable
from rlx.runs import Index, RunRef, read_manifest
from rlx.runs.index.registrations import with_registrations
from tests.cli.support import rlx_here
from tests.runs.toys import ended, home, start, toy_plan
from tests.wording import settled

RECIPE = """
version: 1
name: sums
backend: {kind: toy, version: "1.0"}
model: {path: /nowhere/model}
data: {train: /nowhere/train, val: /nowhere/val, train_rows: 8, val_rows: 100, max_prompt_tokens: 8,
       max_response_tokens: 8}
reward: gsm8k
train: {batch_size: 4, mini_batch_size: 4, micro_batch_size: 4, steps: 3, lr: 0.25}
rollout: {engine: cpu, n: 2, log_prob_micro_batch_size: 4}
layout: {device: cpu, devices_per_node: 1}
eval: {every: 3}
seed: 11
control: slow
arms:
  slow: {}
  fast: {train: {lr: 0.75}}
"""
ASKED = """
experiment:
  question: Does a larger rate help?
  primary: {metric: val-core/toy/acc/mean@1}
  test: superiority
  seeds: 3
  spare_seeds: 1
"""
ALL = {(arm, seed) for arm in ("slow", "fast") for seed in (11, 12, 13)}


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setitem(registry.PACKAGES, "toy", "tests.backends.toy")
    path = tmp_path / "sums.yaml"
    path.write_text(RECIPE + ASKED, encoding="utf-8")
    yield path


def say(*arguments: object, code: int = 0) -> tuple[str, str]:
    words = [str(word) for word in arguments]
    done = rlx_here(words)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout, settled(done.stderr, {})


def worded(text: str) -> str:
    """The text without what differs between launches: ids, digests, times and who launched."""
    named = {}
    for ref in Index(home()).runs():
        named |= {ref.run_id: f"{ref.arm} of seed {ref.seed}", ref.launch_id: "launch"}
    for path in (home() / "experiments").glob("*.json"):
        asked = from_jsonable(Registration, json.loads(path.read_text(encoding="utf-8")))
        named |= {asked.short: "experiment", asked.registered: "time", asked.by: "person"}
    return settled(text, named)


def planned(*arguments: object) -> list[dict[str, Any]]:
    return list(json.loads(say("plan", *arguments, "--json")[0])["plans"])


def order(plans: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(plan["arm"], plan["seed"]) for plan in plans]


def launched(*arguments: object) -> tuple[list[RunRef], str]:
    out, narrated = say("launch", *arguments, "--host", "local")
    by_id = {ref.run_id: ref for ref in Index(home()).runs()}
    refs = [by_id[run_id] for run_id in out.split()]
    for ref in refs:
        ended(ref)
    return refs, narrated


def registered(ref: RunRef) -> Registration:
    manifest = read_manifest(ref.run_dir)
    assert manifest is not None and manifest.plan.registration is not None
    return manifest.plan.registration


def the_one(*arguments: object) -> dict[str, Any]:
    (found,) = json.loads(say("experiments", *arguments, "--json")[0])["experiments"]
    return dict(found)


def test_without_a_word_all_registered_seeds_are_planned_in_blocks(recipe: Path) -> None:
    plans = planned(recipe)
    assert set(order(plans)) == ALL and len(plans) == 6
    assert [plan["seed"] for plan in plans] == [11, 11, 12, 12, 13, 13]
    assert order(plans) == order(planned(recipe))
    assert {plan["registration"]["question"] for plan in plans} == {"Does a larger rate help?"}
    assert {plan["registration"]["registered"] for plan in plans} == {""}
    say("plan", recipe)
    assert not (home() / "experiments").exists(), "planning registers nothing"


def test_one_that_an_earlier_version_registered_keeps_its_digest(recipe: Path) -> None:
    """Its digest was of another form: what is launched now is of that experiment, and nothing is registered anew."""
    asked = from_jsonable(Registration, planned(recipe)[0]["registration"])
    then = replace(asked, form=1, written="", sealed="")
    assert then.digest != asked.digest
    (plan,) = with_registrations(home(), [replace(toy_plan("true"), registration=then)])
    assert plan.registration is not None and plan.registration.registered
    refs, _ = launched(recipe)
    assert {registered(ref) for ref in refs} == {plan.registration}
    assert [path.stem for path in (home() / "experiments").iterdir()] == [then.digest]
    assert [run["digest"] for run in json.loads(say("experiments", "--json")[0])["experiments"]] == [then.digest]
    assert say("launch", recipe, "--host", "local")[0] == ""


def test_one_of_a_later_form_is_not_guessed_at(recipe: Path, wording: SnapshotAssertion) -> None:
    asked = from_jsonable(Registration, planned(recipe)[0]["registration"])
    (home() / "experiments").mkdir(parents=True)
    later = to_jsonable(replace(asked, form=3))
    file = home() / "experiments" / f"{asked.digest}.json"
    file.write_text(json.dumps(later), encoding="utf-8")
    with pytest.raises(RlxError, match="form 3") as caught:
        say("launch", recipe, "--host", "local")
    assert settled(caught.value.message, {str(file): "file", asked.short: "experiment"}) == wording


def test_without_an_experiment_several_seeds_go_in_blocks_too(recipe: Path) -> None:
    recipe.write_text(RECIPE, encoding="utf-8")
    assert order(planned(recipe, "--seed", 1, 2)) == [("slow", 1), ("fast", 1), ("slow", 2), ("fast", 2)]
    assert order(planned(recipe)) == [("slow", 11), ("fast", 11)]
    assert planned(recipe)[0]["registration"] is None


def test_the_order_within_blocks_is_drawn(recipe: Path) -> None:
    recipe.write_text((RECIPE + ASKED).replace("seeds: 3", "seeds: 40", 1), encoding="utf-8")
    firsts = [arm for arm, _ in order(planned(recipe))[::2]]
    assert 8 < firsts.count("slow") < 32


def test_the_plan_says_what_is_asked(recipe: Path, wording: SnapshotAssertion) -> None:
    asked = planned(recipe)[0]["registration"]
    assert (asked["test"], asked["metric"]) == ("superiority", "val-core/toy/acc/mean@1")
    assert (asked["seeds"], asked["spare_seeds"]) == ([11, 12, 13], [14])
    told = say("plan", recipe, "--arm", "fast", "--seed", 11)[0]
    assert told.partition("\nexperiment\n")[2].partition("\n\n")[0].rstrip("\n") == wording


def test_it_stands_in_every_manifest_before_the_first_step(recipe: Path, wording: SnapshotAssertion) -> None:
    refs, narrated = launched(recipe)
    assert {(ref.arm, ref.seed) for ref in refs} == ALL
    known = {registered(ref) for ref in refs}
    (asked,) = known
    assert asked.short in narrated and asked.question in narrated
    assert not re.search(r"(slow|fast)-s1\d", narrated), "no run is said to be missing"
    assert worded(narrated) == wording
    assert asked.registered.endswith("Z") and "@" in asked.by
    assert (
        json.loads((home() / "experiments" / f"{asked.digest}.json").read_text(encoding="utf-8"))["registered"]
        == asked.registered
    )
    manifest = read_manifest(refs[0].run_dir)
    assert manifest is not None and asked.registered <= manifest.created and manifest.unread == ()


def test_what_is_launched_later_has_the_time_of_the_first_launch(recipe: Path, wording: SnapshotAssertion) -> None:
    (first, *_), narrated = launched(recipe, "--seed", 11)
    assert "slow-s12" in narrated and "fast-s13" in narrated and "slow-s11" not in narrated
    assert worded(narrated) == wording
    path = home() / "experiments" / f"{registered(first).digest}.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace(registered(first).registered, "2026-01-01T00:00:00Z"), encoding="utf-8"
    )
    (later, *_), _ = launched(recipe, "--seed", 12)
    assert registered(later).registered == "2026-01-01T00:00:00Z"
    assert registered(later).digest == registered(first).digest


def test_an_interrupted_launch_is_completed_with_the_same_runs_and_the_same_registration(
    recipe: Path, wording: SnapshotAssertion
) -> None:
    refs, _ = launched(recipe, "--seed", 11)
    manifests = [(ref.run_dir / "manifest.json").read_text(encoding="utf-8") for ref in refs]
    with closing(sqlite3.connect(home() / "index.db")) as db, db:
        db.execute("UPDATE launches SET resolved = 0")
    again, narrated = launched(recipe, "--seed", 11)
    assert again == refs and refs[0].launch_id in narrated and "slow-s11" not in narrated
    assert worded(narrated) == wording
    assert [(ref.run_dir / "manifest.json").read_text(encoding="utf-8") for ref in again] == manifests
    assert [run["run_id"] for run in the_one()["runs"]] == [ref.run_id for ref in refs]


def test_what_a_run_directory_says_of_the_time_counts_only_where_nothing_is_known(recipe: Path) -> None:
    (ref, *_), _ = launched(recipe, "--seed", 11)
    first = registered(ref).registered
    path = ref.run_dir / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8").replace(first, "1999-01-01T00:00:00Z", 1), encoding="utf-8")
    assert the_one()["registered"] == first


@pytest.mark.parametrize(
    "change",
    [
        ("--set", "train.steps=4"),
        ("--set", "eval.temperature=0.5"),
        ("--set", "experiment.seeds=4"),
        ("--set", "arms.fast.train.lr=0.5"),
        ("--set", "seed=12"),
    ],
)
def test_another_recipe_is_another_experiment(change: tuple[str, str], recipe: Path) -> None:
    assert digest_of(planned(recipe, *change)[0]) != digest_of(planned(recipe)[0])


def test_the_same_question_is_the_same_whatever_is_launched(recipe: Path) -> None:
    whole = digest_of(planned(recipe)[0])
    assert digest_of(planned(recipe, "--arm", "fast", "--seed", 13)[0]) == whole
    assert digest_of(planned(recipe, "--set", "waive.RLX621=no")[0]) == whole


def test_a_reward_counts_by_what_is_in_its_file(recipe: Path) -> None:
    reward = recipe.with_name("reward.py")
    reward.write_text("def compute_score(): return 1\n", encoding="utf-8")
    recipe.write_text((RECIPE + ASKED).replace("reward: gsm8k", "reward: {path: reward.py}"), encoding="utf-8")
    before = digest_of(planned(recipe)[0])
    elsewhere = recipe.parent / "elsewhere"
    elsewhere.mkdir()
    for path in (recipe, reward):
        (elsewhere / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    assert digest_of(planned(elsewhere / recipe.name)[0]) == before
    reward.write_text("def compute_score(): return 0\n", encoding="utf-8")
    assert digest_of(planned(recipe)[0]) != before


def digest_of(plan: dict[str, Any]) -> str:
    registration = from_jsonable(LaunchPlan, plan).registration
    assert registration is not None
    return registration.digest


def test_a_written_plan_carries_its_experiment_and_no_other(recipe: Path, tmp_path: Path) -> None:
    text = say("plan", recipe, "--seed", 11, "--host", "local", "--json")[0]
    written = tmp_path / "plans.json"
    written.write_text(text.replace('"registered": ""', '"registered": "1999-01-01T00:00:00Z"'), encoding="utf-8")
    out, _ = say("launch", "--plan", written)
    refs = [ref for ref in Index(home()).runs() if ref.run_id in out.split()]
    for ref in refs:
        ended(ref)
    assert {registered(ref).registered[:4] for ref in refs} != {"1999"}, "a file does not say when it was registered"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("recipe", "train", "lr"), 0.3),
        (("recipe", "eval", "temperature"), 0.3),
        (("registration", "seeds"), [11, 12, 17]),
        (("registration", "control"), "fast"),
        (("registration", "name"), "products"),
    ],
)
def test_a_written_plan_that_contradicts_its_experiment_is_refused(
    path: tuple[str, ...], value: object, recipe: Path, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    document = json.loads(say("plan", recipe, "--seed", 11, "--host", "local", "--json")[0])
    place = document["plans"][0]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    written = tmp_path / "plans.json"
    written.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError, match="experiment") as caught:
        say("launch", "--plan", written)
    assert settled(caught.value.message, {str(written): "file"}) == wording(name="another experiment")
    assert not Index(home()).runs()


def test_what_is_missing_added_and_launched_again_is_listed(recipe: Path, wording: SnapshotAssertion) -> None:
    launched(recipe, "--seed", 11, 12)
    _, again = launched(recipe, "--seed", 12, "--arm", "fast")
    assert "fast-s12" in again and worded(again) == wording
    _, narrated = launched(recipe, "--seed", 14, 15, "--arm", "slow")
    assert "RLX038" in narrated and "seed 15" in narrated
    found = the_one()
    assert (found["name"], found["question"]) == ("sums", "Does a larger rate help?")
    assert sorted((one["arm"], one["seed"]) for one in found["missing"]) == [("fast", 13), ("slow", 13)]
    assert found["relaunched"] == [{"arm": "fast", "seed": 12}]
    parts = sorted((run["seed"], run["part"]) for run in found["runs"])
    assert parts == [(seed, "registered") for seed in (11, 11, 12, 12, 12)] + [(14, "spare"), (15, "added")]
    assert len(found["added"]) == 1 and "-slow-s15-" in found["added"][0]
    told = say("experiments", "sums")[0]
    assert "slow-s13" in told and "fast-s12" in told and found["added"][0] in told
    assert worded(told) == wording
    assert the_one(found["digest"][:8])["digest"] == found["digest"]
    assert (experiment_names("su"), experiment_names("x")) == (["sums"], [])


def test_a_run_that_failed_stays_in_the_list(recipe: Path, wording: SnapshotAssertion) -> None:
    asked = from_jsonable(LaunchPlan, planned(recipe)[0]).registration
    plans = [toy_plan(script, arm="slow", seed=seed) for script, seed in (("exit 3", 11), ("true", 12))]
    refs = start(*(replace(plan, name="sums", registration=asked) for plan in plans))
    for ref in refs:
        ended(ref)
    found = the_one("sums")
    assert found["failed"] == [refs[0].run_id]
    told = say("experiments")[0]
    assert refs[0].run_id in told and refs[1].run_id not in told
    assert worded(told) == wording
    assert [run["state"] for run in found["runs"]] == ["failed", "finished"]


def test_runs_of_the_recipe_that_answer_something_else_are_counted(recipe: Path, wording: SnapshotAssertion) -> None:
    launched(recipe, "--seed", 11)
    recipe.write_text(RECIPE, encoding="utf-8")
    launched(recipe)
    assert len(the_one()["apart"]) == 2
    assert worded(say("experiments")[0]) == wording


def test_an_index_that_was_lost_loses_no_registration(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refs, _ = launched(recipe, "--seed", 11)
    monkeypatch.setenv("RLX_HOME", str(home() / "another-machine"))
    found = the_one()
    assert found["registered"] == registered(refs[0]).registered
    assert len(found["runs"]) == 2


def test_nothing_registered_and_a_name_that_is_none(recipe: Path, wording: SnapshotAssertion) -> None:
    assert say("experiments") == ("", wording)
    assert json.loads(say("experiments", "--json")[0])["experiments"] == []
    with pytest.raises(NoSuchRun, match="'sums'"):
        say("experiments", "sums")


def test_a_damaged_file_is_named_at_the_next_launch(recipe: Path, wording: SnapshotAssertion) -> None:
    (ref, *_), _ = launched(recipe, "--seed", 11)
    path = home() / "experiments" / f"{registered(ref).digest}.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError) as reason:
        json.loads("{")
    with pytest.raises(RlxError, match=re.escape(str(path))) as caught:
        say("launch", recipe, "--host", "local", "--seed", 12)
    assert settled(caught.value.message, {str(path): "file", str(reason.value): "reason"}) == wording
    assert the_one()["registered"] == registered(ref).registered, "its runs still say it"


def test_an_imported_log_is_no_run_of_the_experiment(recipe: Path, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("toy step 1 of 3: loss=0.8\ntoy score after 3: 0.5\n", encoding="utf-8")
    say("import", log, "--name", "sums", "--recipe", recipe, "--arm", "slow", "--seed", 11)
    assert json.loads(say("experiments", "--json")[0])["experiments"] == []


def test_show_prints_it_behind_the_recipe(recipe: Path) -> None:
    shown = say("show", recipe)[0]
    assert "#   question: " in shown and "sums.yaml" in shown.partition("# experiment:")[2]
    assert json.loads(say("show", recipe, "--json")[0])["experiment"]["seeds"] == 3
    again = recipe.with_name("again.yaml")
    again.write_text(shown, encoding="utf-8")
    say("validate", again)


def toys(recipe: Path, *scripts: tuple[str, str, int]) -> dict[tuple[str, int], RunRef]:
    """Runs of the registered experiment whose script is named, at their end, by arm and seed."""
    asked = from_jsonable(LaunchPlan, planned(recipe)[0]).registration
    plans = [toy_plan(script, arm=arm, seed=seed) for script, arm, seed in scripts]
    refs = start(*(replace(plan, name="sums", registration=asked) for plan in plans))
    for ref in refs:
        ended(ref)
    return {(ref.arm, ref.seed): ref for ref in refs}


FULL = "echo 'OSError: [Errno 28] No space left on device'; exit 1"


def test_only_what_is_missing_is_launched(recipe: Path, wording: SnapshotAssertion) -> None:
    launched(recipe, "--seed", 11)
    refs, narrated = launched(recipe)
    assert {(ref.arm, ref.seed) for ref in refs} == {slot for slot in ALL if slot[1] != 11}
    assert "2 of 6" in narrated and "slow-s11" in narrated and worded(narrated) == wording
    out, narrated = say("launch", recipe, "--host", "local")
    assert out == "" and worded(narrated) == wording
    assert "rlx experiments sums" in narrated and "--again" in narrated
    assert "rlx compare slow fast" in narrated
    answer = json.loads(say("launch", recipe, "--host", "local", "--json")[0])
    assert answer["runs"] == [] and answer["launch_id"] is None
    assert say("launch", recipe, "--host", "local", "--dry-run")[0] == ""
    assert len(Index(home()).runs()) == 6


def test_what_is_missing_of_one_arm(recipe: Path) -> None:
    launched(recipe, "--seed", 11, "--arm", "fast")
    refs, _ = launched(recipe, "--arm", "fast")
    assert [(ref.arm, ref.seed) for ref in refs] == [("fast", 12), ("fast", 13)]
    assert say("launch", recipe, "--arm", "fast", "--host", "local")[0] == ""
    assert {(ref.arm, ref.seed) for ref in launched(recipe)[0]} == {("slow", seed) for seed in (11, 12, 13)}


def test_again_and_a_seed_launch_nevertheless(recipe: Path, wording: SnapshotAssertion) -> None:
    launched(recipe)
    for words in (("--again",), ("--seed", 11)):
        refs, narrated = launched(recipe, *words)
        assert len(refs) == (6 if words == ("--again",) else 2)
        assert "fast-s11" in narrated and worded(narrated) == wording


def test_a_dry_run_shows_what_would_be_launched(recipe: Path) -> None:
    launched(recipe, "--seed", 11, 12)
    plans = json.loads(say("launch", recipe, "--host", "local", "--dry-run", "--json")[0])["plans"]
    assert {(plan["arm"], plan["seed"]) for plan in plans} == {("slow", 13), ("fast", 13)}
    assert len(planned(recipe)) == 6, "rlx plan asks nobody what is there"


def test_a_spare_seed_enters_for_what_the_machine_ended(recipe: Path, wording: SnapshotAssertion) -> None:
    others = [("exit 0", arm, seed) for arm, seed in ALL if (arm, seed) != ("slow", 12)]
    lost = toys(recipe, (FULL, "slow", 12), *others)["slow", 12]
    refs, narrated = launched(recipe)
    assert [(ref.arm, ref.seed) for ref in refs] == [("slow", 14)]
    assert registered(refs[0]).digest == registered(lost).digest, "the registration stays as it is"
    assert say("launch", recipe, "--host", "local")[0] == ""
    found = the_one()
    (slot,) = [slot for slot in found["standing"] if (slot["arm"], slot["seed"]) == ("slow", 12)]
    assert (slot["run_id"], slot["next_seed"]) == (refs[0].run_id, None)
    assert lost.run_id in slot["why"] and "RLX877" in slot["why"]
    (passed_over,) = found["passed_over"]
    assert passed_over["run_id"] == lost.run_id and "RLX877" in passed_over["why"]
    told = say("experiments")[0]
    assert slot["why"] in narrated and slot["why"] in told and passed_over["why"] in told
    assert worded(told) == wording


def test_without_a_spare_the_seed_is_launched_again(recipe: Path, wording: SnapshotAssertion) -> None:
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("spare_seeds: 1", "spare_seeds: 0"), encoding="utf-8")
    lost = toys(recipe, (FULL, "slow", 12))["slow", 12]
    refs, narrated = launched(recipe)
    assert {(ref.arm, ref.seed) for ref in refs} == ALL
    assert lost.run_id in narrated and "RLX877" in narrated
    assert worded(narrated) == wording


def test_what_failed_by_itself_keeps_its_place(recipe: Path, wording: SnapshotAssertion) -> None:
    nan = "echo 'ValueError: loss is nan'; exit 1"
    failed = toys(recipe, (nan, "slow", 11), ("exit 3", "fast", 11))
    refs, narrated = launched(recipe)
    assert {(ref.arm, ref.seed) for ref in refs} == {slot for slot in ALL if slot[1] != 11}
    assert all(ref.run_id in narrated for ref in failed.values())
    assert worded(narrated) == wording


def test_whoever_removes_a_run_gets_no_other_in_its_place(recipe: Path, wording: SnapshotAssertion) -> None:
    refs, _ = launched(recipe)
    shutil.rmtree(refs[0].run_dir)
    out, narrated = say("launch", recipe, "--host", "local")
    assert out == "" and refs[0].run_id in narrated and refs[1].run_id not in narrated
    assert worded(narrated) == wording


def test_a_host_that_cannot_be_asked_has_its_runs_launched_nowhere_else(recipe: Path) -> None:
    launched(recipe, "--seed", 11, 12)
    with closing(sqlite3.connect(home() / "index.db")) as db, db:
        db.execute("UPDATE runs SET destination = 'nowhere.invalid', host = 'gone' WHERE seed = 11")
    assert {(ref.arm, ref.seed) for ref in launched(recipe)[0]} == {("slow", 13), ("fast", 13)}


def test_runs_of_another_experiment_are_not_missed(recipe: Path) -> None:
    launched(recipe)
    refs, _ = launched(recipe, "--set", "train.steps=4")
    assert {(ref.arm, ref.seed) for ref in refs} == ALL


def test_an_interrupted_launch_of_all_is_completed_under_its_ids(recipe: Path) -> None:
    refs, _ = launched(recipe)
    gone = refs[-1]
    shutil.rmtree(gone.run_dir)
    with closing(sqlite3.connect(home() / "index.db")) as db, db:
        db.execute("UPDATE launches SET resolved = 0")
        db.execute("UPDATE runs SET arrived = 0")
    again, narrated = launched(recipe)
    assert again == refs and gone.launch_id in narrated


def test_dunnett_is_noted_where_several_treatments_may_spread_unlike_each_other(recipe: Path) -> None:
    recipe.write_text(RECIPE + "  faster: {train: {lr: 0.9}}\n" + ASKED, encoding="utf-8")
    _, narrated = launched(recipe, "--seed", 11)
    assert "note RLX041" in narrated and "holm" in narrated
    assert "RLX041" not in launched(recipe, "--seed", 11, "--set", "experiment.several=holm")[1]


def test_launch_says_what_the_design_can_see(recipe: Path, wording: SnapshotAssertion) -> None:
    narrated = launched(recipe, "--seed", 11)[1]
    power = [line for line in narrated.splitlines() if line.startswith("power: ")]
    assert re.findall(r"\d+", power[0]) == ["3", "18", "80"]
    assert power == wording
