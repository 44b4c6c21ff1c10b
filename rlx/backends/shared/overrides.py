"""One override in Hydra's grammar, and paths that exist only where and when the run starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlx.backends.shared.hydra_values import hydra_value, refuse_interpolation

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

# "" sets a key that exists, "+" adds one, "++" does either, "~" removes one.
Prefix = Literal["", "+", "++", "~"]
_PREFIXED_KEY = re.compile(r"(\+{1,2}|~|)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Override:
    """`prefix``key`=`value`. `source` is the dotted recipe key it follows from.

    The text of a verbatim value may hold OmegaConf interpolations; in any other value they are refused.
    """

    key: str
    value: object
    source: str
    prefix: Prefix = ""
    verbatim: bool = False

    @classmethod
    def read(cls, key: str, value: object) -> Override:
        """An entry of the recipe's `overrides`."""
        match = _PREFIXED_KEY.fullmatch(key)
        assert match is not None  # the pattern takes any text
        return cls(match[2], value, f"overrides.{key}", match[1], verbatim=True)  # type: ignore[arg-type]

    def leaves(self) -> Iterator[tuple[str, object]]:
        """Each key that it sets, with the value: a map sets the keys below, and also counts as a value itself."""
        return _leaves(self.key, self.value)

    def argument(self) -> str:
        """The word for Hydra's command line, not yet quoted for a shell. Raises UsageError if it cannot be written."""
        if not self.verbatim:
            refuse_interpolation(self.value, self.source)
        if self.prefix == "~" and self.value is None:
            return f"~{self.key}"
        return f"{self.prefix}{self.key}={hydra_value(self.value)}"


def _leaves(key: str, value: object) -> Iterator[tuple[str, object]]:
    yield key, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)


def host_path(path: str, source: str) -> str:
    """A path on the host as OmegaConf text; `~/` becomes that host's home directory."""
    refuse_interpolation(path, source)
    return f"${{oc.env:HOME}}/{path[2:]}" if path.startswith("~/") else path


def path_override(key: str, path: str, source: str) -> Override:
    return Override(key, host_path(path, source), source, verbatim=True)


def run_path(variable: str, name: str) -> str:
    """A path below one of the directories that exist only at start (`RLX_RUN_DIR`, `RLX_ATTEMPT_DIR`)."""
    return f"${{oc.env:{variable}}}/{name}"


def path_on_all_nodes(recipe: Recipe, name: str) -> str:
    """A path below the run directory that means the same on every node, each of which has a directory of its own.

    supervise.sh links it at a place that has the same name on all of them.
    """
    return run_path("RLX_RUN_DIR", name) if recipe.layout.nodes == 1 else run_path("RLX_RAY_TMP", f"run/{name}")
