"""The facts that rules check: the recipe, and the settings that its back-end really gets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rlx.backends.protocol import load_backend
from rlx.backends.registry import optional_part
from rlx.errors import UsageError
from rlx.planning.memory import MemoryEstimate, estimate_of
from rlx.planning.models.architecture_config import architecture_from_text, known_architecture
from rlx.planning.models.architectures import Architecture, architecture_of

if TYPE_CHECKING:
    from rlx.backends.shared.rendering import EffectiveSettings
    from rlx.model import Installation
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe


@dataclass(frozen=True)
class RecipeFacts:
    """The facts of one arm. A number that is unknown before the start is None, and its rules are skipped."""

    resolved: ResolvedRecipe
    settings: EffectiveSettings
    found: Installation | None = None

    @property
    def recipe(self) -> Recipe:
        return self.resolved.recipe

    def setting(self, key: str) -> object:
        return self.settings.get(key)

    def whole(self, key: str) -> int | None:
        value = self.settings.get(key)
        return value if type(value) is int else None

    def count(self, key: str) -> int | None:
        """Return a whole number of at least 1."""
        value = self.whole(key)
        return value if value is not None and value > 0 else None

    def source(self, key: str) -> str:
        """Return the recipe key from which a setting follows; the setting's own name for a default."""
        return self.settings.sources.get(key, key)

    def named(self, key: str) -> str:
        """Write `train.micro_batch_size 16` for messages, with the value as in YAML."""
        value = self.settings.get(key)
        return f"{self.source(key)} {value if isinstance(value, str) else json.dumps(value, default=str)}"

    def is_true(self, key: str) -> bool:
        return self.settings.get(key) is True

    @property
    def is_megatron(self) -> bool:
        return self.recipe.backend.engine == "megatron"

    @property
    def architecture(self) -> Architecture | None:
        """The model's shapes, from its config.json on the host or here, else from the table. None: not known."""
        return self._shape[0]

    @property
    def architecture_problem(self) -> str:
        """The reason why the config.json that was found is not used; "" if it is, or there is none."""
        return self._shape[1]

    @cached_property
    def _shape(self) -> tuple[Architecture | None, str]:
        try:
            if self.found and self.found.model:
                return architecture_from_text(self.found.model, f"config.json on {self.found.where}"), ""
            return known_architecture(self.recipe), ""
        except UsageError as problem:
            return architecture_of(self.recipe), problem.message

    @cached_property
    def memory(self) -> MemoryEstimate | None:
        """The estimate; None where model or device memory is unknown, or an override splits the devices differently."""
        if self.architecture is None or not self.is_split_as_written:
            return None
        return estimate_of(self.recipe, self.settings, self.architecture)

    @property
    def is_split_as_written(self) -> bool:
        """Whether the devices are split as the recipe's `layout` says, without an override."""
        return True

    @property
    def fixed_micro_batches(self) -> bool:
        """Whether a micro batch is a number of samples, and not filled up by tokens."""
        return True

    @property
    def train_rows(self) -> int | None:
        """The number of training rows."""
        return self.recipe.data.train_rows

    @property
    def steps_of_epoch(self) -> int | None:
        """The number of whole batches of the rows."""
        return self.train_rows // self.recipe.train.batch_size if self.train_rows else None

    @property
    def steps_of_data(self) -> int | None:
        """The number of whole batches in all epochs; the remainder of each epoch is dropped."""
        return self.steps_of_epoch * self.recipe.train.epochs if self.steps_of_epoch is not None else None

    @property
    def steps(self) -> int | None:
        """The number of steps: as the recipe says, or fewer if the data is smaller."""
        return min(filter(None, (self.steps_of_data, self.recipe.train.steps)), default=None)


def facts_of(resolved: ResolvedRecipe, found: Installation | None = None) -> RecipeFacts:
    """Return the facts, with those of the back-end if it has any. Raises UsageError if the settings are unknown."""
    kind = resolved.recipe.backend.kind
    settings = load_backend(kind).settings(resolved, found)
    own = optional_part(kind, "rules.facts")
    facts: RecipeFacts = (own.BackendFacts if own else RecipeFacts)(resolved, settings, found)
    return facts
