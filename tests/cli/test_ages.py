from __future__ import annotations

import pytest

from rlx.cli.logs import parse_age
from rlx.errors import UsageError
from rlx.runs.duration import duration


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("45", 45)])
def test_ages(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-5m", "1.5h", "10 m", "yesterday", "١m"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_age(text)
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(("seconds", "text"), [(45, "45 s"), (720, "12 min"), (11_100, "3 h 05 min")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
