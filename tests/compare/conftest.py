"""A published pair of checkpoints as judged runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rlx.evidence import JudgedRun
from tests.compare.builders import RunBuilder

Build = Callable[..., JudgedRun]


@pytest.fixture
def control_builder() -> Build:
    """Builds the control of a published pair, 68.16 % of 1319 items at its last step, with some values changed."""
    return lambda **changes: RunBuilder(**{"series": {0: 0.0925, 100: 0.6914, 116: 0.6816}, **changes}).judged()


@pytest.fixture
def control(control_builder: Build) -> JudgedRun:
    return control_builder()


@pytest.fixture
def treated() -> Build:
    """Builds its treatment, 70.58 %, with some values changed."""
    values: dict[str, Any] = {
        "arm": "aqn",
        "series": {0: 0.072, 100: 0.6975, 116: 0.7058},
        "recipe": {"aqn": {"sigma_start": 0.05, "stages": 10}},
        "treatment": ("aqn.sigma_start", "aqn.stages"),
    }
    return lambda **changes: RunBuilder(**{**values, **changes}).judged()
