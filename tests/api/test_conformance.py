"""Turn public launches of verl and MindSpeed-RL into recipes: no key is lost, few differ, each for a reason told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.conformance import PAGE, Launch, composed, launches, tables
from benchmarks.page_tables import out_of_date
from rlx.model import Severity
from rlx.yaml_reader.hydra import read_word

LAUNCHES = tuple(launches())
# One of each engine and version for NPUs, composed by the real Hydra.
COMPOSED = (
    "tests/special_npu/run_qwen2_5_05b_grpo_mindspeed.sh",
    "tests/special_npu/nightly_ci_ascend/run_gspo_qwen3_8b_fsdp2_npu.sh",
)


@pytest.fixture(scope="module")
def imported() -> tuple[Launch, ...]:
    """Takes seconds, so it is for the worker that runs these tests, and not for each that collects them."""
    return tuple(launch for launch in LAUNCHES if launch.imported)


def named(script: str) -> Launch:
    return next(launch for launch in LAUNCHES if launch.script == script)


def test_every_word_of_a_launch_is_read() -> None:
    assert [word for launch in LAUNCHES for word in launch.facts.get("words", ()) if read_word(word) is None] == []


def test_no_key_is_lost_and_what_differs_is_explained(imported: tuple[Launch, ...]) -> None:
    assert len(imported) >= 410
    assert sum(len(launch.fates) for launch in imported) >= 24_000
    assert [launch.script for launch in imported if not launch.is_within_bounds] == []


def test_what_is_not_taken_is_refused_by_the_name_of_its_engine(imported: tuple[Launch, ...]) -> None:
    refused = [launch.refusal.partition(":")[0] for launch in LAUNCHES if launch.imported is None]
    assert set(refused) == {"model_engine veomni", "model_engine mindspeed", "model_engine torchtitan"}
    assert len(refused) == len(LAUNCHES) - len(imported) == 18


def test_variables_stay_and_secrets_keep_their_names_alone(imported: tuple[Launch, ...]) -> None:
    for launch in imported:
        assert launch.imported is not None
        assert [fate.key for fate in launch.imported.environment] == [*launch.facts.get("environment", {})]
    keys = [fate for launch in imported if launch.imported for fate in launch.imported.environment if "KEY" in fate.key]
    assert keys and all(fate.written is None for fate in keys)


def test_a_lost_or_unexplained_key_breaks_the_bounds() -> None:
    launch = named(COMPOSED[0])
    assert launch.imported is not None and launch.is_within_bounds
    first, *rest = launch.imported.keys
    lost = replace(first, is_rendered=False, reason="nothing in the recipe's launch sets it")
    silent = replace(launch.imported, keys=(lost, *rest), findings=())
    broken = Launch(launch.repository, launch.commit, launch.script, launch.version, launch.facts)
    broken.__dict__["_answer"] = silent
    assert broken.lost == [lost] and not broken.explained and not broken.is_within_bounds


@pytest.mark.long
def test_what_differs_is_a_note_unless_a_path_must_be_filled_in(imported: tuple[Launch, ...]) -> None:
    for launch in imported:
        assert launch.imported is not None
        for finding in launch.imported.findings:
            if finding.id == "RLX003":
                assert (finding.severity is Severity.WARNING) is finding.fix.startswith("write ")


@pytest.mark.parametrize("script", COMPOSED)
def test_hydra_composes_the_launch_of_the_recipe(script: str) -> None:
    assert composed(named(script)) == ""


def test_the_pages_have_the_tables() -> None:
    stale = out_of_date(PAGE, lambda _: tables(LAUNCHES))
    assert stale == [], "python -m benchmarks.conformance --write"
