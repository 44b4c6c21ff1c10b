"""The digest of an experiment is that of what its recipe writes: new versions of the schema leave it as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.backends.shared.registering import registration_of
from rlx.model import Registration, from_jsonable, to_jsonable
from rlx.recipe import load_recipe
from rlx.recipe.schema import Experiment
from rlx.renamed_keys import RenamedKey
from tests.conftest import CASES
from tests.recipe.changed_schema import Model, use, with_field, with_renamed

RECIPES = CASES / "golden" / "recipes"
NAMES = ("asked.yaml", "noise.yaml", "post.yaml", "verifiers.yaml")


def asked(path: Path, *sets: str) -> Registration:
    file = load_recipe(path, sets)
    found = registration_of(file.name, file.control, file.experiment)
    assert found is not None and found.form == 2 and found.written
    return found


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for path in RECIPES.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


SCHEMAS: dict[str, Callable[[], Model]] = {
    "a new key in a section that they write": lambda: with_field("eval.post", "max_tokens", int, 512),
    "a new key in the section that an arm brings": lambda: with_field("aqn", "decay", float | None, None),
    "a new key in a correction": lambda: with_field("algorithm.correction", "clip", bool, True),
    "another default": lambda: with_field("train", "epochs", int, 5),
    "another default where they are graded": lambda: with_field("eval", "temperature", float, 1.0),
    "another default after the training": lambda: with_field("eval.post", "batch_size", int, 8),
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("name", NAMES)
def test_a_later_schema_leaves_it_in_both_forms(name: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = asked(RECIPES / name)
    use(monkeypatch, SCHEMAS[schema]())
    after = asked(RECIPES / name)
    assert (after.digest, after.content) == (before.digest, before.content)


def test_a_new_key_that_is_written_makes_another_experiment(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, with_field("eval.post", "max_tokens", int, 512))
    before, edited = asked(copied / "post.yaml"), copied / "post.yaml"
    edited.write_text(edited.read_text(encoding="utf-8").replace("row_count: 1319", "row_count: 1319, max_tokens: 64"))
    assert not asked(edited).is_same(before)


@pytest.mark.parametrize("name", NAMES)
def test_a_renamed_key_leaves_it_by_either_name(name: str, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = asked(copied / name)
    row = RenamedKey("rollout.log_prob_micro_batch_size", "rollout.scoring_batch", "0.4.0")
    use(monkeypatch, with_renamed("rollout", "log_prob_micro_batch_size", "scoring_batch"), row)
    by_old_name = asked(copied / name)
    for path in copied.glob("*.yaml"):
        path.write_text(path.read_text(encoding="utf-8").replace("log_prob_micro_batch_size", "scoring_batch"))
    by_new_name = asked(copied / name)
    assert {each.digest for each in (before, by_old_name, by_new_name)} == {before.digest}
    assert {each.content for each in (before, by_old_name, by_new_name)} == {before.content}


EDITS = {
    "a value of all arms": ("asked.yaml", "steps: 2", "steps: 3"),
    "a value of the treatment": ("asked.yaml", "lr: 2.0e-6", "lr: 3.0e-6"),
    "a key that was a default": ("asked.yaml", "eval: {every: 1}", "eval: {every: 1, n: 4}"),
    "what is graded": ("asked.yaml", "reward: gsm8k", "reward: math"),
    "the question": ("asked.yaml", "a larger rate", "a smaller rate"),
    "the metric": ("asked.yaml", "mean@1}", "mean@2}"),
    "the test": ("asked.yaml", "superiority", "equivalence\n  margin: 1"),
    "the seeds": ("asked.yaml", "seeds: 2", "seeds: 3"),
    "what is compared": ("asked.yaml", "seeds: 2", "seeds: 2\n  kind: systems"),
    "the first seed": ("asked.yaml", "control: slow", "control: slow\nseed: 5"),
    "the control": ("asked.yaml", "control: slow", "control: fast"),
    "the name": ("asked.yaml", "name: asked", "name: other"),
    "an arm more": ("asked.yaml", "  slow: {}", "  slow: {}\n  slower: {train: {lr: 1.0e-7}}"),
    "how treatments share the error rate": ("noise.yaml", "several: holm", "several: dunnett"),
    "the margin": ("noise.yaml", "margin: 2", "margin: 4"),
    "the file that is extended": ("base.yaml", "epochs: 3", "epochs: 4"),
    "the content of the reward": ("reward.py", "+ bonus", "- bonus"),
    "null in an arm": ("noise.yaml", "model: {lora: null}", "model: {lora: {rank: 4, alpha: 8}}"),
    "an override of an arm": ("noise.yaml", "data.seed: 4", "data.seed: 5"),
    "rows that are measured after the training": ("post.yaml", "test.parquet", "other.parquet"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_what_matters_makes_another_experiment(edit: str, copied: Path) -> None:
    name, old, new = EDITS[edit]
    recipe = copied / (name if name not in ("base.yaml", "reward.py") else "noise.yaml")
    before = asked(recipe)
    text = (copied / name).read_text(encoding="utf-8")
    assert old in text
    (copied / name).write_text(text.replace(old, new), encoding="utf-8")
    assert not asked(recipe).is_same(before)


def test_an_option_is_written_too(copied: Path) -> None:
    before = asked(copied / "asked.yaml")
    assert not asked(copied / "asked.yaml", "train.steps=4").is_same(before)
    assert asked(copied / "asked.yaml", "train.steps=2").is_same(before)


SAME = {
    "another spelling of a number": ("asked.yaml", "1.0e-6", "0.000001"),
    "a comment": ("asked.yaml", "eval: {every: 1}", "eval: {every: 1}  # each step"),
    "the order of arms": (
        "asked.yaml",
        "  slow: {}\n  fast: {train: {lr: 2.0e-6}}",
        "  fast: {train: {lr: 2.0e-6}}\n  slow:",
    ),
    "a reason for a finding": ("noise.yaml", "RLX104: known", "RLX104: we looked"),
    "where the file lies": ("noise.yaml", "extends: base.yaml", "extends: ./base.yaml"),
    "a tracker": ("post.yaml", "to: [tensorboard]", "to: [wandb]"),
}


@pytest.mark.parametrize("edit", SAME)
def test_what_changes_no_run_leaves_it(edit: str, copied: Path) -> None:
    name, old, new = SAME[edit]
    before, text = asked(copied / name), (copied / name).read_text(encoding="utf-8")
    assert old in text
    (copied / name).write_text(text.replace(old, new), encoding="utf-8")
    assert asked(copied / name).digest == before.digest


def test_the_kind_of_a_question_is_in_no_digest_of_one_that_has_the_default() -> None:
    """Experiments that were registered before there was another kind keep their names, in both forms."""
    registered = asked(RECIPES / "asked.yaml")
    systems = replace(registered, kind="systems")
    older = {key: value for key, value in to_jsonable(registered).items() if key != "kind"}
    assert from_jsonable(Registration, older) == registered
    assert systems.content != registered.content and not systems.is_same(registered)


def test_the_weights_of_a_system_are_no_part_of_its_evaluation(copied: Path) -> None:
    path = copied / "asked.yaml"
    text = path.read_text(encoding="utf-8").replace("train: {lr: 2.0e-6}", "model: {path: /data/other}")
    evaluations = []
    for kind in ("treatment", "systems"):
        path.write_text(text.replace("seeds: 2", f"seeds: 2\n  kind: {kind}"), encoding="utf-8")
        evaluations.append({arm.evaluation for arm in asked(path).arms})
    assert [len(found) for found in evaluations] == [2, 1]


def test_the_defaults_of_a_question_stay_what_they_are() -> None:
    """Form 1 has them in its digests, so another default would part what is registered from its recipe."""
    defaults = {name: field.default for name, field in Experiment.model_fields.items() if not field.is_required()}
    assert defaults == {
        "margin": None,
        "spare_seeds": 0,
        "several": "dunnett",
        "pairing": "none",
        "secondary": (),
        "kind": "treatment",
    }
