"""The configuration keys of one version of a back-end, and which one a misspelt key probably means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Hydra's own settings; part of every Hydra program, of no table.
_HYDRA = re.compile(r"hydra[./]")


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
        """The first of several names that this version knows; the first of all if it knows none."""
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
