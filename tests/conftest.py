"""Every test gets its own rlx home, run root and lease directory: no test sees another's runs or devices."""

from __future__ import annotations

from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"
REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def private_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, folder in {"RLX_HOME": "home", "RLX_ROOT": "root", "RLX_LEASES": "leases"}.items():
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.setenv("NO_COLOR", "1")
