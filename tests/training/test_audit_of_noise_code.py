"""Noise code beside vLLM's own model, in the environment that `make engines` makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.api.noise import AuditSchedule, read_noise_code, run_noise_code
from tests.audit.checkouts import BY_CLASS, BY_TEXT, checkout
from tests.conftest import REPOSITORY

PYTHON = REPOSITORY / ".venv-engines/bin/python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment with vLLM: make engines")


@pytest.mark.parametrize(("code", "reached"), [(BY_CLASS, 0), (BY_TEXT, 5)], ids=["by class", "by name"])
def test_what_it_reaches_in_vllm(code: str, reached: int, tmp_path: Path) -> None:
    hook = read_noise_code(checkout(tmp_path / "c", code)).hook
    runs = run_noise_code(hook, python=str(PYTHON), schedule=AuditSchedule(stages=3, steps=6))
    [vllm] = [outcome for outcome in runs.outcomes if outcome.engine == "vllm"]
    assert vllm.norms == {"vllm.model_executor.layers.layernorm.RMSNorm": 5}
    assert vllm.reached == reached and (vllm.noisy[0].moved > 0) == bool(reached)
    assert (vllm.told.layers if vllm.told else None) == (None if reached else 5)
