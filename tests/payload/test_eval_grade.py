"""The rule of GSM8K is verl's own, so that arms of both back-ends are graded as verl grades its training."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest
import rlx_eval_grade
from hypothesis import given
from hypothesis import strategies as st
from rlx_eval_grade import gsm8k, load_reward
from rlx_eval_order import EvalFailure, EvalOrder
from rlx_eval_rows import EvalRow

from tests.wheels import INSTALLED

_PIECES = st.sampled_from(["#### ", "####", "#", " ", "-", "7", "42", "1,000", "3.5", ".", ",", "so\n", "x" * 150, "$"])


def _of_verl() -> Any:
    package = importlib.util.find_spec("verl")
    assert package is not None and package.submodule_search_locations, INSTALLED
    path = f"{package.submodule_search_locations[0]}/utils/reward_score/gsm8k.py"
    spec = importlib.util.spec_from_file_location("gsm8k_of_verl", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VERL = _of_verl()


@given(st.lists(_PIECES, max_size=12).map("".join), st.sampled_from(["42", "7", "1000", "-7", "3.5", "", "427"]))
def test_as_verl_grades(answer: str, truth: str) -> None:
    assert gsm8k(answer, truth) == VERL.compute_score(answer, truth)


def test_what_it_tells_apart() -> None:
    assert [gsm8k(f"so it is #### {number}", "1000") for number in ("1,000", "1000", "999")] == [1, 1, 0]
    assert gsm8k("it is 1000", "1000") == 0
    assert gsm8k("#### 1000" + " " * 300, "1000") == 0


def order_of(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EvalOrder:
    """The function stands beside the program, as in the payload of a run."""
    (tmp_path / "own.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(rlx_eval_grade, "__file__", str(tmp_path / "rlx_eval_grade.py"))
    nothing = {name: None for name in EvalOrder.__dataclass_fields__}
    return EvalOrder(**{**nothing, "reward": {"file": "own.py", "function": "compute_score", "kwargs": {"most": 2}}})


ROW = EvalRow(7, [{"role": "user", "content": "1+1"}], "2", "some/source", {"index": 3})


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("1", {"score": 1.0, "acc": 1.0}),
        ("True", {"score": 1.0, "acc": 1.0}),
        ("{'score': -1, 'acc': False, 'pred': '2'}", {"score": -1.0, "acc": 0.0, "pred": "2"}),
        ("{'score': 0.25}", {"score": 0.25, "acc": 0.25}),
        ("[extra_info['index'], most].index(most)", {"score": 1.0, "acc": 1.0}),
        ("float(data_source == 'some/source' and solution_str == ground_truth)", {"score": 1.0, "acc": 1.0}),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_what_a_function_tells(
    kind: str, returned: str, told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As verl's naive reward manager calls it and reads it: a number is score and accuracy at once."""
    arguments = "data_source, solution_str, ground_truth, extra_info, most"
    grade = load_reward(order_of(f"{kind} compute_score({arguments}):\n    return {returned}\n", tmp_path, monkeypatch))
    assert grade(ROW, "2") == told
    assert json.loads(json.dumps(grade(ROW, "2"))) == told


@pytest.mark.parametrize(
    "returned", ["None", "'1'*400", "{'acc': 1}", "{'score': 1, 'acc': None}", f"{math.inf!r} - 1", "float('nan')"]
)
def test_what_is_no_score(returned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"inf = float('inf')\ndef compute_score(**_):\n    return {returned}\n"
    grade = load_reward(order_of(text, tmp_path, monkeypatch))
    with pytest.raises(EvalFailure, match=r"row 7: .*(score|acc)"):
        grade(ROW, "2")
