"""A recipe and the version of a back-end for which it is written: keys, rendering and effective settings."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

# Hydra's own settings; part of every Hydra program, of no table.
_HYDRA = re.compile(r"hydra[./]")
# `${a.b}`, `${.b}` (beside the key itself) and `${oc.select:a.b,default}`; anything else is known at start only.
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?(\.?[\w.]+)(?:,\s*(.*))?\}", re.DOTALL)
_MOST_REFERENCES = 8


@dataclass(frozen=True, slots=True)
class Rendering:
    """A resolved recipe and the keys of the back-end's version: the one found on the host, else the recipe's."""

    resolved: ResolvedRecipe
    recipe: Recipe
    table: KeyTable
    version: str


@dataclass(frozen=True)
class KeyTable:
    """The keys of one trainer of one version, with their defaults. `version` may differ from the recipe's."""

    version: str
    defaults: Mapping[str, Any]
    nodes: frozenset[str]

    @classmethod
    def of(cls, version: str, defaults: Mapping[str, Any]) -> KeyTable:
        return cls(version, defaults, frozenset(_inner_nodes(defaults)))

    def __contains__(self, key: str) -> bool:
        """Tell whether the back-end accepts `key=…`: a leaf, a whole section, or a setting of Hydra."""
        return key in self.defaults or key in self.nodes or _HYDRA.match(key) is not None

    def first(self, *keys: str) -> str:
        """Return the first of several names that this version knows; the first of all if it knows none."""
        return next((key for key in keys if key in self), keys[0])

    def nearest(self, key: str, count: int = 3) -> tuple[str, ...]:
        """Known keys that resemble `key`: the same last word elsewhere first, then similar spelling."""
        last = key.rpartition(".")[2]
        homonyms = [known for known in self.defaults if known.rpartition(".")[2] == last]
        similar = difflib.get_close_matches(key, self.defaults, n=count, cutoff=0.75)
        ranked = sorted(homonyms, key=lambda known: -difflib.SequenceMatcher(None, key, known).ratio())
        return tuple(dict.fromkeys(ranked[:count] + similar))[:count]


def _inner_nodes(keys: Mapping[str, Any]) -> Iterator[str]:
    for key in keys:
        parts = key.split(".")
        yield from (".".join(parts[:depth]) for depth in range(1, len(parts)))


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
        """Return the value as the back-end gets it; None: it is null, missing, or known only at start."""
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
