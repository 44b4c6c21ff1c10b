"""One override, and what every topic may look at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlx.backends.verl.hydra_values import hydra_value, refuse_interpolation
from rlx.backends.verl.keys import KeyTable

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
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

    def argument(self) -> str:
        """The word for Hydra's command line, not yet quoted for a shell. Raises UsageError if it cannot be written."""
        if not self.verbatim:
            refuse_interpolation(self.value, self.source)
        if self.prefix == "~" and self.value is None:
            return f"~{self.key}"
        return f"{self.prefix}{self.key}={hydra_value(self.value)}"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A resolved recipe and the keys of the verl it is written for. `version` is the one found, else the recipe's."""

    resolved: ResolvedRecipe
    recipe: Recipe
    table: KeyTable
    version: str

    @property
    def is_megatron(self) -> bool:
        return self.recipe.backend.engine == "megatron"

    @property
    def actor_engine(self) -> str:
        """The section that configures the actor's training engine."""
        return f"actor_rollout_ref.actor.{self._engine_section}"

    @property
    def ref_engine(self) -> str:
        return f"actor_rollout_ref.ref.{self._engine_section}"

    @property
    def _engine_section(self) -> str:
        return "megatron" if self.is_megatron else "fsdp_config"

    def added(self, key: str, value: object, source: str, verbatim: bool = False) -> Override:
        """A setting that verl reads, but that some or all versions do not list in their configuration."""
        return Override(key, value, source, "" if key in self.table else "+", verbatim)

    def unless_idle(self, key: str, value: object, source: str, idle: object) -> Iterator[Override]:
        """A setting that this version or fork need not know where `value` asks for nothing: forks lack some keys."""
        if value != idle or key in self.table:
            yield Override(key, value, source)

    @property
    def has_reference(self) -> bool:
        """Tell whether anything is held against a reference model; verl starts none otherwise."""
        return self.recipe.algorithm.kl is not None


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
