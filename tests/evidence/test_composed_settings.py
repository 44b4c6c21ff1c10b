"""What the plan sets, beside what the engine composed: Hydra itself composes here, and its words are compared."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

import rlx as package
from rlx.backends.shared.overrides import hydra_value
from rlx.evidence import Evidence, judge
from rlx.evidence.checks.recipe_settings import setting_mismatches
from rlx.model import RunState, to_jsonable
from rlx.model.attempt_lineage import Lineage
from rlx.model.run_dir import COMPOSED_FILE, LINEAGE_FILE
from rlx.yaml_reader.hydra import read_hydra, read_words
from tests.backends.test_hydra_values import VALUES
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.recorded import place_runs, recorded_expectations

BASE = {
    "model_engine": "dp",
    "actor": {"optim": {"lr": 1.0e-6, "betas": [0.9, 0.999]}, "dtype": "bfloat16", "extra": None, "maps": {"a": 1}},
    "data": {"seed": 1, "files": ["a", "b"], "empty": {}},
    "linked": "${actor.dtype}",
}


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a trainer, with a group whose files write elsewhere in it."""
    folder = tmp_path_factory.mktemp("configs")
    OmegaConf.save(OmegaConf.create(BASE), folder / "trainer.yaml")
    (folder / "preset").mkdir()
    (folder / "preset/large.yaml").write_text("# @package _global_\ndata:\n  rows: 10\n", encoding="utf-8")
    (folder / "model").mkdir()
    (folder / "model/big.yaml").write_text("layers: 28\n", encoding="utf-8")
    return folder


def composed(configs: Path, *words: str) -> Mapping[str, Any]:
    """What Hydra writes down of these words, as rlx reads it."""
    with initialize_config_dir(str(configs), version_base=None):
        tree: Mapping[str, Any] = read_hydra(OmegaConf.to_yaml(compose("trainer", list(words))))
    return tree


def mismatches(tree: Mapping[str, Any], *words: str) -> list[str]:
    return [text.partition(" planned ")[0] for text in setting_mismatches(read_words(words), tree)]


@pytest.mark.parametrize(
    "words",
    [
        ("actor.optim.lr=1e-5",),
        ('actor.dtype="1e-5"', "+actor.text='yes'", "+actor.flag=true", "+actor.word=yes", "+actor.nothing=null"),
        (
            "+actor.big=inf",
            "+actor.none=nan",
            "+actor.one=1_000",
            "+actor.old=007",
            "+actor.empty=",
            "+actor.word='null'",
        ),
        ("actor.optim.betas=[0.9,0.95]", "data.files=['x, y',\"z\"]", "data.files.0=first", "actor.optim.betas.1=1"),
        ("actor.optim={lr: 2}", "actor.optim.lr=3", "actor.optim.lr=4.0"),
        ("+actor.maps.b={x: {y: 1}}", "actor.maps.b.x.y=2", "actor.maps={a: 7}", "actor.extra={c: 1}"),
        ("~actor.dtype", "~data.seed=1", "+data.seed=2"),
        ("data.empty={}", "actor.extra={}", "+data.more={}"),
        ('+data.path="${oc.env:HOME}/x"', "linked=here", 'data.files=["${actor.dtype}", c]', "+data.need='???'"),
        ("+model=big", "+preset=large", "+model@other.place=big", "hydra.run.dir=/tmp/x", "hydra/job_logging=disabled"),
        ("model.layers=2", "+model=big", "model_engine=megatron"),
        ("+data.number=int(3.0)", "+data.text=str(3)", "+data.rows=1", "++data.rows=2"),
        ("+data.url=http://x/y", "+data.colon=a:b", "+data.comma=a\\,b", "+data.spaces=a b"),
    ],
    ids=lambda words: words[0],
)
def test_what_hydra_composes_of_the_plan_is_as_planned(configs: Path, words: tuple[str, ...]) -> None:
    assert mismatches(composed(configs, *words), *words) == []


# An interpolation must be one of OmegaConf's, and is left out anyhow. A file with control characters is not read.
PLAIN = VALUES.filter(lambda value: re.search(r"\$|\\[rxuU]", repr(value)) is None)
PATHS = st.sampled_from(["actor.optim.lr", "actor.dtype", "actor.maps", "actor.new", "data.files", "data.deep.new"])


@pytest.mark.long
@settings(deadline=None, max_examples=30)
@given(words=st.lists(st.tuples(PATHS, PLAIN), min_size=1, max_size=5))
def test_any_values_that_rlx_writes_are_composed_as_planned(configs: Path, words: list[tuple[str, object]]) -> None:
    """Nested values of one key in one launch are merged as OmegaConf merges them."""
    written = [f"++{key}={hydra_value(value)}" for key, value in words]
    try:
        tree = composed(configs, *written)
    except ConfigCompositionException:  # it takes no list in place of a map
        reject()
    assert mismatches(tree, *written) == []


@settings(deadline=None, max_examples=30)
@given(value=PLAIN, other=PLAIN)
def test_another_value_is_seen(configs: Path, value: object, other: object) -> None:
    """Unless both mean the same, or nothing can be said of one."""
    word, changed = (f"++actor.new={hydra_value(each)}" for each in (value, other))
    if type(value) is type(other) and isinstance(value, (int, float)) and value != other:
        assert mismatches(composed(configs, changed), word) == ["actor.new"]


@pytest.mark.parametrize(
    ("words", "edit", "keys"),
    [
        (("actor.optim.lr=1e-5",), ("lr: 1.0e-05", "lr: 1.0e-06"), ["actor.optim.lr"]),
        (("+actor.dtypes=[a,b]",), ("  - b\n", ""), ["actor.dtypes"]),
        (("+actor.more={x: 1, y: {z: 2}}",), ("z: 2", "z: 3"), ["actor.more.y.z"]),
        (("++data.seed=2",), ("  seed: 2\n", ""), ["data.seed"]),
        (("~actor.dtype",), ("  extra: null\n", "  extra: null\n  dtype: float32\n"), ["actor.dtype"]),
        (("data.seed=2", "data.seed=3"), ("seed: 3", "seed: 2"), ["data.seed"]),
        (("data.files.1=c",), ("- c\n", "- b\n"), ["data.files.1"]),
        (("actor.extra=true",), ("extra: true", "extra: false"), ["actor.extra"]),
        (("actor.extra='null'",), ("extra: 'null'", "extra: null"), ["actor.extra"]),
        (("data.seed=7", "actor.dtype=float32"), ("data:\n  seed: 7", "data:\n  seed: 1"), ["data.seed"]),
    ],
)
def test_what_the_composed_file_says_otherwise(
    configs: Path, words: tuple[str, ...], edit: tuple[str, str], keys: list[str]
) -> None:
    with initialize_config_dir(str(configs), version_base=None):
        text = OmegaConf.to_yaml(compose("trainer", list(words)))
    assert edit[0] in text
    assert mismatches(read_hydra(text.replace(*edit)), *words) == keys


@pytest.fixture
def run() -> Path:
    """The recorded control of the pair with a probe."""
    placed = place_runs(CASES / "pairs/probed")
    return next(run for run in placed if "-baseline-" in run.name)


def change(run: Path, before: str, after: str, attempt: int = 1) -> None:
    file = run / "attempts" / str(attempt) / COMPOSED_FILE
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


def said(run: Path) -> tuple[str, list[str]]:
    (row,) = json.loads(rlx("status", run.name, "--json").stdout)["runs"]
    return row["verdict"]["status"], [finding["id"] for finding in row["verdict"]["findings"]]


def test_status_and_compare_say_the_same(run: Path) -> None:
    assert said(run)[0] == "valid"
    change(run, "train_batch_size: 20", "train_batch_size: 10")
    assert said(run) == ("invalid", ["RLX644", "RLX646"])
    compared = package.compare("baseline", "aqn")
    assert [one.verdict.status for one in compared.runs] == ["invalid", "valid"]
    assert not compared.reportable


def test_without_a_composed_configuration_nothing_is_said(run: Path) -> None:
    (run / "attempts/1" / COMPOSED_FILE).unlink()
    assert said(run) == ("valid", [])


def again(run: Path, step: int) -> None:
    """A further attempt with the files of the first: it goes on from a checkpoint, or begins anew at step 0."""
    shutil.copytree(run / "attempts/1", run / "attempts/2")
    checkpoint = f"global_step_{step}" if step else ""
    lineage = Lineage(2, "lost", "its processes are gone", "2026-11-24T17:00:00+00:00", "me@laptop", step, checkpoint)
    (run / "attempts/2" / LINEAGE_FILE).write_text(json.dumps(to_jsonable(lineage)), encoding="utf-8")
    (run / "latest").unlink()
    (run / "latest").symlink_to("attempts/2")


def test_where_a_further_attempt_goes_on_is_no_other_setting(run: Path) -> None:
    again(run, 10)
    change(run, "resume_mode: auto", "resume_mode: resume_path", 2)
    assert "RLX644" not in said(run)[1]


def test_a_further_attempt_is_held_to_the_plan_as_well(run: Path) -> None:
    again(run, 10)
    change(run, "train_batch_size: 20", "train_batch_size: 10", 2)
    status, ids = said(run)
    assert status == "invalid" and "RLX644" in ids


def test_what_an_attempt_composed_that_counts_no_more(run: Path) -> None:
    change(run, "train_batch_size: 20", "train_batch_size: 10")
    again(run, 0)
    change(run, "train_batch_size: 10", "train_batch_size: 20", 2)
    assert "RLX644" not in said(run)[1]


@pytest.mark.parametrize(("state", "is_seen"), [("running", False), ("failed", True)])
def test_before_the_first_step_the_file_may_not_be_whole(state: str, is_seen: bool) -> None:
    expectations = recorded_expectations(
        json.loads((CASES / "logs/tiny-baseline/expectations.json").read_text(encoding="utf-8"))
    )
    evidence = Evidence(setting_mismatches=("data.seed planned 1, composed (absent)",))
    verdict = judge(evidence, expectations, RunState(state), arm="baseline")
    assert ("RLX644" in [finding.id for finding in verdict.findings]) == is_seen
