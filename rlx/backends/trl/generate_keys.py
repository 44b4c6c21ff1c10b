"""Writes a key table from the GRPOConfig of an installed TRL.

    PYTHON_WITH_TRL -m rlx.backends.trl.generate_keys     from the root of the repository

`keys/VERSION.json` appears, named by the version of the installed TRL: one sorted `key: default` a line. Defaults
that TRL works out at start are null.
"""

from __future__ import annotations

import dataclasses
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

KEYS_FOLDER = Path(__file__).parent / "keys"
_PLAIN = (bool, int, float, str, type(None))


def generate() -> Path:
    """Write the table and return its path. Raises ModuleNotFoundError without TRL."""
    from trl import GRPOConfig  # type: ignore[import-not-found,unused-ignore]

    defaults = {field.name: _default(field) for field in dataclasses.fields(GRPOConfig)}
    path = KEYS_FOLDER / f"{version('trl')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(defaults, indent=0, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _default(field: Any) -> Any:
    """Write enumerations as their text."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    value = getattr(field.default, "value", field.default)
    return value if isinstance(value, _PLAIN) else None


if __name__ == "__main__":
    print(generate())
