"""A seed counts where the run shows it; runs that show no seed of their own are repeats of one, in every form."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import rlx as front_door
from tests.compare.builders import RunBuilder
from tests.compare.conftest import Said
from tests.compare.run_dirs import ASKED, CONTROL, FAST, SLOW, TREATMENT, arm_of, write_run
from tests.conftest import CASES

PRINTED = (CASES / "printed-config/log").read_text(encoding="utf-8")
SEEDS = (11, 12, 13)
Answer = Callable[..., dict[str, Any]]


def printed(seed: int) -> str:
    """What verl prints at its start where every seed of it is this one."""
    return re.sub(r"seed': \d+", f"seed': {seed}", PRINTED)


def only_data(seed: int) -> str:
    """The same where the launch sets one key and leaves the others to verl."""
    return re.sub(r"(?<=\[0m) {11}'seed': 1,", f"{' ' * 11}'seed': {seed},", PRINTED)


def of_script(builder: RunBuilder, finals: Sequence[float], logs: Sequence[str]) -> None:
    """Runs of a users' script, named after SEEDS, whose logs begin so."""
    for seed, final, log in zip(SEEDS, finals, logs, strict=False):
        run = replace(builder, seed=seed, series={0: 0.1, 5: 0.5, 6: final})
        write_run(replace(run.plan(), recipe={}, command=("bash", "script/train.sh")), run.series, None)
        file = attempt(builder.arm, seed) / "log"
        file.write_text(log + file.read_text(encoding="utf-8"), encoding="utf-8")


def attempt(arm: str, seed: int) -> Path:
    (found,) = Path(os.environ["RLX_ROOT"]).glob(f"runs/gsm8k-{arm}-s{seed}-*/attempts/1")
    return found


def composed(arm: str, seed: int, said: int) -> None:
    """Write what Hydra composed for a run."""
    file = attempt(arm, seed) / "hydra/.hydra/config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    rollout = f"actor_rollout_ref:\n  rollout:\n    seed: {said}\n"
    file.write_text(f"data:\n  seed: {said}\n{rollout}critic:\n  data_loader_seed: 42\n", encoding="utf-8")


@pytest.fixture
def answer(say: Said) -> Answer:
    """The comparison of two arms as JSON."""
    return lambda *names: json.loads(say(*(names or ("baseline", "fast")), as_json=True)[1])


def repeats(found: dict[str, Any]) -> list[str]:
    (contrast,) = found["contrasts"]
    return [each["message"] for each in contrast["findings"] if each["id"] == "RLX913"]


def test_only_the_data_keys_change() -> None:
    assert only_data(11) != PRINTED and only_data(11).count("seed': 11") == 1


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param([""] * 3, id="nothing printed"),
        pytest.param([printed(1)] * 3, id="the same for all"),
        pytest.param([printed(11)] * 3, id="that of the first for all"),
        pytest.param([printed(11), printed(12), printed(1)], id="one does not show it"),
        pytest.param([f"+ echo the seed is {seed}\n" for seed in SEEDS], id="words"),
    ],
)
def test_a_number_that_reaches_no_variable_is_no_seed(answer: Answer, logs: list[str]) -> None:
    of_script(CONTROL, SLOW, logs)
    of_script(TREATMENT, FAST, logs)
    found = answer()
    (contrast,) = found["contrasts"]
    assert len(repeats(found)) == 2 and "differs" not in found["claim"]
    assert contrast["test"] is None or "df" not in contrast["test"], "no test of arms"
    assert all(arm["repeats"] for arm in (found["control"], *found["treatments"]))
    assert len(contrast["checkpoints"]) == 2, "a test of two runs is about these two"


def test_every_form_says_so_and_why(say: Said, tmp_path: Path, wording: SnapshotAssertion) -> None:
    of_script(CONTROL, SLOW, [""] * 3)
    of_script(TREATMENT, FAST, [printed(1)] * 3)
    page = tmp_path / "page.html"
    front_door.report(page, "baseline", "fast")
    (contrast,) = json.loads(say("baseline", "fast", as_json=True)[1])["contrasts"]
    messages = [finding["message"] for finding in contrast["findings"] if finding["id"] == "RLX913"]
    assert len(messages) == 2 and messages == wording
    texts = [say("baseline", "fast", **option)[1] for option in ({}, {"as_markdown": True})]
    for text in (*texts, page.read_text(encoding="utf-8")):
        assert all(message in html.unescape(text) for message in messages)
        assert "3 and 3 seeds" not in text and "Student" not in text


@pytest.mark.parametrize("config", [printed, only_data])
def test_a_script_whose_log_shows_the_seeds_has_them(answer: Answer, config: Callable[[int], str]) -> None:
    of_script(CONTROL, SLOW, [*map(config, SEEDS)])
    of_script(TREATMENT, FAST, [*map(config, SEEDS)])
    found = answer()
    (contrast,) = found["contrasts"]
    assert repeats(found) == [] and contrast["p_value"] < 0.01
    assert contrast["test"]["method"].startswith("Welch's t test")
    assert "repeats" not in found["control"]


def test_one_arm_without_seeds_is_enough(answer: Answer) -> None:
    of_script(CONTROL, SLOW, [*map(printed, SEEDS)])
    of_script(TREATMENT, FAST, [""] * 3)
    found = answer()
    (message,) = repeats(found)
    assert "fast" in message and "baseline" not in message and "11, 12, 13" in message
    assert (found["contrasts"][0]["test"] or {}).get("t") is None


def test_two_runs_with_one_configuration_are_repeats_whatever_they_are_called(answer: Answer) -> None:
    # The defaults of verl hold several numbers: some run may be named after one of them by chance.
    config = PRINTED.replace("'data_loader_seed': 1,", "'data_loader_seed': 12,")
    for builder, finals in ((CONTROL, SLOW), (TREATMENT, FAST)):
        of_script(builder, finals[:2], [config.replace("seed': 42", "seed': 11")] * 2)
    assert len(repeats(answer())) == 2


def test_of_a_recipe_the_launch_shows_the_seed_unless_the_composed_configuration_denies_it(
    answer: Answer, wording: SnapshotAssertion
) -> None:
    for builder in (*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST)):
        write_run(builder.plan(), builder.series, None)
    sound = answer()
    assert sound["claim"].startswith("registered, 3 seeds: yes") and repeats(sound) == []
    for arm in ("baseline", "fast"):
        for seed in ASKED.seeds:
            composed(arm, seed, seed)
    assert answer()["claim"] == sound["claim"]
    composed("fast", 2, 1)
    found = answer()
    (message,) = repeats(found)
    assert message == wording
    assert found["registered"]["answers"] == [] and found["registered"]["objection"] == message


def test_a_log_that_was_taken_in_shows_its_seed_by_itself(answer: Answer, tmp_path: Path) -> None:
    logs = {}
    for builder, finals in ((CONTROL, SLOW), (TREATMENT, FAST)):
        of_script(builder, finals, [""] * 3)
        for seed in SEEDS:
            logs[builder.arm, seed] = (attempt(builder.arm, seed) / "log").read_text(encoding="utf-8")
    for name, config in (("shown", printed), ("typed", lambda seed: PRINTED)):
        for (arm, seed), log in logs.items():
            file = tmp_path / f"{name}-{arm}-{seed}.log"
            file.write_text(config(seed) + log, encoding="utf-8")
            front_door.import_logs(file, name, arm=f"{name}-{arm}", seed=seed, validation_items=100)
    sound, bare = answer("shown-baseline", "shown-fast"), answer("typed-baseline", "typed-fast")
    assert repeats(sound) == [] and sound["contrasts"][0]["test"]["method"].startswith("Welch's t test")
    assert len(repeats(bare)) == 2 and (bare["contrasts"][0]["test"] or {}).get("t") is None
