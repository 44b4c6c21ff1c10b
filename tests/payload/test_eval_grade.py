"""The rule of GSM8K is verl's own, so that arms of both back-ends are graded as verl grades its training."""

from __future__ import annotations

import importlib.util
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rlx_eval_grade import gsm8k

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
