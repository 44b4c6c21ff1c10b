"""A registration: its digest is that of the question alone, and its blocks are random, fixed, and complete."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest

from rlx.model import Registration, from_jsonable, to_jsonable
from tests.registrations import ASKED
from tests.runs.toys import toy_plan

OTHER: dict[str, Any] = {
    "name": "products",
    "question": "Does it harm?",
    "metric": "val-core/toy/acc/mean@8",
    "also": ("val-core/other/acc/mean@1",),
    "at": "auc",
    "validations": 5,
    "test": "equivalence",
    "margin": 2.0,
    "seeds": (1, 2),
    "spare_seeds": (),
    "several": "holm",
    "pairing": "block",
    "secondary": (),
    "control": "fast",
    "kind": "systems",
    "arms": ASKED.arms[:1],
}
WRITTEN = replace(ASKED, form=2, written="a" * 64, sealed=ASKED.content)
FORMS = pytest.mark.parametrize("asked", [ASKED, WRITTEN], ids=["form-1", "form-2"])


def test_when_and_by_whom_is_no_part_of_what_is_asked() -> None:
    stamped = replace(ASKED, registered="2026-11-23T06:00:00Z", by="me@here")
    assert stamped != ASKED and stamped.digest == ASKED.digest
    assert ASKED.digest.startswith(ASKED.short)


@FORMS
@pytest.mark.parametrize("name", OTHER)
def test_everything_else_is(name: str, asked: Registration) -> None:
    """A value that is edited after the registration makes another experiment, although the recipe wrote the same."""
    assert replace(asked, **{name: OTHER[name]}).digest != asked.digest


def test_every_field_is_part_of_the_question_the_launch_or_the_form() -> None:
    assert {each.name for each in fields(Registration)} == {*OTHER, "registered", "by", "form", "written", "sealed"}


def test_in_form_2_it_is_what_was_written() -> None:
    assert WRITTEN.digest == "a" * 64
    newer_default = replace(WRITTEN, several="holm")
    assert replace(newer_default, sealed=newer_default.content).is_same(WRITTEN)
    assert not replace(WRITTEN, written="b" * 64, margin=3.0, sealed="").is_same(WRITTEN)


def test_an_experiment_is_the_same_in_both_forms() -> None:
    assert ASKED.is_same(WRITTEN) and WRITTEN.is_same(ASKED)
    assert not replace(ASKED, question="And now?").is_same(WRITTEN)


def test_the_digest_of_a_known_registration_stays_what_it_is() -> None:
    """It names files and manifests that are there already: a new field must not change it where nobody asks for it."""
    assert ASKED.digest == "b93afbe460a6b1f86dec2e1e16a1c37ce09817308eb384c8f3a3db877604fd63"


@FORMS
def test_it_survives_json_unchanged(asked: Registration) -> None:
    assert from_jsonable(Registration, json.loads(json.dumps(to_jsonable(asked)))) == asked


def test_a_block_has_each_arm_once_and_the_same_order_each_time() -> None:
    arms = ["slow", "fast", "faster"]
    for seed in range(20):
        assert sorted(ASKED.block(seed, arms)) == sorted(arms)
        assert ASKED.block(seed, arms) == ASKED.block(seed, list(reversed(arms)))
    assert list(ASKED.slots) == [(seed, arm) for seed in (1, 2, 3) for arm in ASKED.block(seed, ("fast", "slow"))]


def test_no_arm_goes_first_more_often_than_chance_has_it() -> None:
    firsts = Counter(ASKED.block(seed, ["slow", "fast"])[0] for seed in range(1000))
    assert 420 < firsts["slow"] < 580


def test_the_order_of_another_experiment_is_another() -> None:
    other = replace(ASKED, question="And now?")
    assert [one.block(seed, ["slow", "fast"]) for one in (ASKED, other) for seed in range(30)].count(
        ("slow", "fast")
    ) < 50
    assert any(ASKED.block(seed, ["slow", "fast"]) != other.block(seed, ["slow", "fast"]) for seed in range(30))


def test_a_plan_is_sealed_with_its_registration() -> None:
    from rlx.model.launch_plan import is_sealed, seal

    plan = seal(replace(toy_plan("true"), registration=ASKED))
    assert is_sealed(plan)
    assert not is_sealed(replace(plan, registration=replace(ASKED, margin=5.0)))
    assert not is_sealed(replace(plan, registration=None))
