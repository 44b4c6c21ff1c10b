"""Look up the arguments that a version of TRL takes: the fields of its GRPOConfig, with their defaults."""

from __future__ import annotations

import json
from functools import cache

from rlx.backends.shared.rendering import KeyTable
from rlx.backends.trl.generate_keys import KEYS_FOLDER
from rlx.errors import UsageError


def shipped_versions() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in KEYS_FOLDER.glob("*.json")))


@cache
def find_table(version: str) -> KeyTable:
    """Return the table of `version`. Raises UsageError for any other: rlx's noise extends private methods of TRL."""
    if version not in shipped_versions():
        raise UsageError(
            f"backend.version: rlx knows no TRL {version}",
            f"use one of {', '.join(shipped_versions())}; rlx extends private methods, which change with each version",
        )
    return KeyTable.of(version, json.loads((KEYS_FOLDER / f"{version}.json").read_text(encoding="utf-8")))
