"""The recipe and the keys of the verl it is written for: what every topic may look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlx.backends.shared import rendering
from rlx.backends.shared.overrides import Override

_MODULES = "VERL_USE_EXTERNAL_MODULES"


@dataclass(frozen=True, slots=True)
class Rendering(rendering.Rendering):
    """A resolved recipe and the keys of the verl it is written for."""

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


def with_module(others: Mapping[str, str], module: str) -> dict[str, str]:
    """Name one more module that verl loads in each of its processes."""
    modules = filter(None, (others.get(_MODULES), module))
    return {_MODULES: ",".join(modules)}
