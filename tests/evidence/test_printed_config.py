"""The configuration in a console log, printed as Python prints a dictionary and torn as Ray tears it."""

from __future__ import annotations

import pprint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlx.backends.verl.log import parse_printed_config
from rlx.evidence.run_configuration import printed_config, read_printed_config, seeds_of_config

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=30), st.floats(-1e6, 1e6))
TREES = st.recursive(
    LEAVES, lambda each: st.one_of(st.lists(each, max_size=4), st.dictionaries(st.text(max_size=6), each, max_size=4))
)

WARNING = (
    "(TaskRunner pid=7) /usr/lib/x.py:3: UserWarning: no such engine: ModuleNotFoundError('x'\n",
    "(TaskRunner pid=7)   warnings.warn(\n",
    "(TaskRunner pid=7) 2026-01-31 09:12:44,120 INFO {'lr': [\n",
)


def said(tree: dict[str, Any], *, lose_blanks: bool = False) -> list[str]:
    lines = pprint.pformat(tree).splitlines()
    if lose_blanks:
        lines = [lines[0], *(line.lstrip() for line in lines[1:])]
    return [f"\x1b[36m(TaskRunner pid=7)\x1b[0m {line}\n" for line in lines]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(tree=st.dictionaries(st.text(max_size=6), TREES, max_size=5), lose_blanks=st.booleans())
def test_what_was_printed_is_read(tmp_path: Path, tree: dict[str, Any], lose_blanks: bool) -> None:
    tree = {"actor_rollout_ref": tree}
    lines = said(tree, lose_blanks=lose_blanks)
    mixed = [line for each in lines for line in (each, "another process {'\n", "(WorkerDict pid=8) {'a': [1,\n")]
    (tmp_path / "log").write_text("step:0 - a:1\n" + "".join(mixed) + "(TaskRunner pid=7) done\n", encoding="utf-8")
    assert read_printed_config(tmp_path / "log") == tree
    warned = [line for each in lines for line in (each, *WARNING)]
    (tmp_path / "log").write_text("".join(warned), encoding="utf-8")
    assert read_printed_config(tmp_path / "log") == tree


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(max_size=40), st.just("{'actor': {"), st.just(" 'a': [1,"), st.just("}}"))))
def test_no_log_raises(lines: list[str]) -> None:
    assert isinstance(parse_printed_config(lines), dict)


def test_a_log_that_ends_in_it_or_has_none(tmp_path: Path) -> None:
    lines = said({"actor_rollout_ref": {"lr": 1, "text": "long " * 40}, "data": {"seed": 1}})
    assert parse_printed_config([line.partition("m ")[2] for line in lines[:-1]]) == {}
    assert read_printed_config(tmp_path / "log") == {}
    (tmp_path / "log").write_text("nothing of the kind\n", encoding="utf-8")
    assert read_printed_config(tmp_path / "log") == {}


@pytest.mark.parametrize("name", ["log", "log-with-warnings"])
def test_a_real_log(name: str) -> None:
    """Cut from recorded runs; in the second, warnings of the same process came between. Others have theirs cut out."""
    recorded = Path(__file__).parent.parent / "cases" / "printed-config"
    found = read_printed_config(recorded / name)
    assert found["actor_rollout_ref"]["actor"]["optim"]["lr"] == 0.0002
    assert found["trainer"]["total_epochs"] == 1
    assert found["actor_rollout_ref"]["rollout"]["val_kwargs"]["n"] == 1


ARGUMENTS = """noise before
GRPOConfig(
accelerator_config={'split_batches': False},
eval_strategy=IntervalStrategy.NO,
fsdp=None,
learning_rate=0.0004,
output_dir=/data/a=b, c,
seed=3,
)
step:1 - reward:0.5
"""


def test_the_arguments_that_a_program_of_trl_prints() -> None:
    assert printed_config(ARGUMENTS) == {
        "accelerator_config": {"split_batches": False},
        "eval_strategy": "no",
        "fsdp": None,
        "learning_rate": 0.0004,
        "output_dir": "/data/a=b, c",
        "seed": 3,
    }
    assert seeds_of_config(printed_config(ARGUMENTS)) == {"seed": 3}
    for cut in ("seed=3,", "\n)\n"):
        assert printed_config(ARGUMENTS.replace(cut, "\n")) == {}
