"""The settings that a back-end really gets: its defaults, and over them what rlx writes and the recipe's overrides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

# `${a.b}`, `${.b}` (beside the key itself) and `${oc.select:a.b,default}`; anything else is known at start only.
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?(\.?[\w.]+)(?:,\s*(.*))?\}", re.DOTALL)
_MOST_REFERENCES = 8


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """`version` of the back-end; `sources`: the dotted recipe key from which a setting follows, if it is no default.

    A setting in `removed` is deleted by the recipe, whatever its default.
    """

    version: str
    defaults: Mapping[str, object]
    written: Mapping[str, object]
    sources: Mapping[str, str]
    removed: frozenset[str] = frozenset()

    def get(self, key: str) -> object:
        """The value as the back-end gets it; None: it is null, not there, or known at start only."""
        for _ in range(_MOST_REFERENCES):
            value = None if key in self.removed else self.written.get(key, self.defaults.get(key))
            if not isinstance(value, str) or "${" not in value:
                return value
            match = _REFERENCE.fullmatch(value)
            if match is None:
                return None
            target = match[1] if match[1][0] != "." else f"{key.rpartition('.')[0]}{match[1]}"
            if match[2] is not None and target not in self.written and target not in self.defaults:
                return _default(match[2])
            key = target
        return None

    def section(self, prefix: str) -> Mapping[str, object]:
        """All settings below a section, by their full names."""
        keys = {key for known in (self.defaults, self.written) for key in known if key.startswith(f"{prefix}.")}
        return {key: self.get(key) for key in sorted(keys)}


def _default(text: str) -> object:
    try:
        return json.loads(text.lower())
    except ValueError:
        return text
