"""Experiments of the like stand beside every comparison: with more of them, chance shows a difference in one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.support import rlx
from tests.compare.builders import RunBuilder
from tests.compare.run_dirs import CONTROL, TREATMENT, write_run

PAIR = ("gsm8k-baseline-s1", "gsm8k-fast-s1")
MODEL = {"model": {"path": "~/qwen"}}


def of(builder: RunBuilder, **recipe: Any) -> RunBuilder:
    return replace(builder, recipe={**builder.recipe, **MODEL, **recipe})


def write(name: str, *builders: RunBuilder, minute: int = 0) -> None:
    for builder in builders:
        write_run(replace(builder.plan(), name=name), builder.series, None, minute)


@pytest.fixture(autouse=True)
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    write("gsm8k", of(CONTROL), of(TREATMENT))
    yield


def others() -> list[dict[str, Any]]:
    found: dict[str, Any] = json.loads(rlx("compare", *PAIR, "--json").stdout)
    return list(found["others"])


def test_an_experiment_of_the_like_stands_in_every_form(wording: SnapshotAssertion) -> None:
    write("again", of(CONTROL), of(TREATMENT), of(replace(TREATMENT, arm="faster")), minute=1)
    (found,) = others()
    assert (found["name"], found["runs"], set(found["arms"])) == ("again", 2, {"fast", "faster"})
    forms: list[Callable[[], str]] = [
        lambda: rlx("compare", *PAIR).stdout,
        lambda: rlx("compare", *PAIR, "--md").stdout,
        lambda: rlx("compare", *PAIR, "--csv").stderr,
        lambda: (
            rlx("report", "gsm8k-baseline-s1", "gsm8k-fast-s1", "-o", "page.html").stdout
            + Path("page.html").read_text(encoding="utf-8")
        ),
    ]
    shown = forms[0]()
    (part,) = [part for part in shown.split("\n\n") if "\n  again:" in part]
    heading, line = part.strip().splitlines()
    assert "train" in heading and heading == wording
    for form in forms:
        said = form()
        assert heading in said and line.strip().partition(", launched")[0] in said


@pytest.mark.parametrize(
    ("what", "builder"),
    [
        ("another model", replace(TREATMENT, recipe={"train": {"lr": 2e-6}, "model": {"path": "~/llama"}})),
        ("other data", of(TREATMENT, data={"train": "~/math/train.parquet", "val": "~/gsm8k/test.parquet"})),
        ("another kind of treatment", of(replace(TREATMENT, treatment=("aqn.sigma_start",)))),
        ("no treatment", of(CONTROL)),
    ],
)
def test_what_is_not_alike_is_not_named(what: str, builder: RunBuilder) -> None:
    write("else", builder, minute=1)
    assert others() == [], what


def test_a_damaged_manifest_costs_nothing() -> None:
    write("again", of(CONTROL), of(TREATMENT), minute=1)
    (manifest,) = Path(os.environ["RLX_ROOT"]).glob("runs/again-fast-*/manifest.json")
    assert len(others()) == 1
    manifest.write_text("{", encoding="utf-8")
    assert others() == []
