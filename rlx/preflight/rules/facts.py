"""The facts that rules look at: the recipe, and the settings that its back-end really gets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rlx.backends.protocol import load_backend
from rlx.errors import UsageError
from rlx.preflight.memory import Estimate, estimate_of
from rlx.preflight.models.architecture_config import architecture_from_text, known_architecture
from rlx.preflight.models.architectures import Architecture, architecture_of
from rlx.preflight.rules.number_text import product

if TYPE_CHECKING:
    from rlx.backends.effective import EffectiveSettings
    from rlx.plan import FoundTree
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
_EPOCHS = "trainer.total_epochs"


@dataclass(frozen=True)
class Facts:
    """Numbers are None where nobody knows them before the start: then no rule about them speaks."""

    resolved: ResolvedRecipe
    settings: EffectiveSettings
    found: FoundTree | None = None

    @classmethod
    def of(cls, resolved: ResolvedRecipe, found: FoundTree | None = None) -> Facts:
        """Raises UsageError where nobody knows what the back-end's settings are."""
        return cls(resolved, load_backend(resolved.recipe.backend.kind).settings(resolved, found), found)

    @property
    def recipe(self) -> Recipe:
        return self.resolved.recipe

    @cached_property
    def release(self) -> tuple[int, ...]:
        """Major and minor number of the back-end."""
        from rlx.backends.verl.keys import release

        return release(self.settings.version)

    def setting(self, key: str) -> object:
        return self.settings.get(key)

    def whole(self, key: str) -> int | None:
        value = self.settings.get(key)
        return value if type(value) is int else None

    def count(self, key: str) -> int | None:
        """A whole number of at least 1."""
        value = self.whole(key)
        return value if value is not None and value > 0 else None

    def source(self, key: str) -> str:
        """The recipe key from which a setting follows; the setting's own name where it is a default."""
        return self.settings.sources.get(key, key)

    def named(self, key: str) -> str:
        """`train.micro_batch_size 16`, for messages; the value as YAML writes it."""
        value = self.settings.get(key)
        return f"{self.source(key)} {value if isinstance(value, str) else json.dumps(value, default=str)}"

    def is_true(self, key: str) -> bool:
        return self.settings.get(key) is True

    @property
    def is_megatron(self) -> bool:
        return self.recipe.backend.engine == "megatron"

    @property
    def is_nla(self) -> bool:
        """The NLA fork's own entry point, which never calls verl's validate_config."""
        return "nla" in (self.recipe.backend.entrypoint or "")

    @property
    def architecture(self) -> Architecture | None:
        """The model's shapes: from its config.json on the host or here, else from the table. None: not known."""
        return self._shape[0]

    @property
    def architecture_problem(self) -> str:
        """The reason why the config.json that was found does not count; "" if it does, or there is none."""
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
    def memory(self) -> Estimate | None:
        """Estimate; None where model or device memory is not known, or overrides split otherwise than `layout`."""
        layout = self.recipe.layout
        sizes = (layout.tp, layout.pp, layout.cp) if self.is_megatron else (1, 1, layout.cp)
        as_written = (self.tp, self.pp, self.cp) == sizes and self.devices == layout.nodes * layout.devices_per_node
        if self.architecture is None or (self.recipe.backend.kind == "verl" and not as_written):
            return None
        return estimate_of(self.recipe, self.settings, self.architecture)

    @cached_property
    def devices(self) -> int | None:
        return product(self.whole("trainer.n_gpus_per_node"), self.whole("trainer.nnodes"))

    @cached_property
    def tp(self) -> int | None:
        return self.count(f"{ACTOR}.megatron.tensor_model_parallel_size") if self.is_megatron else 1

    @cached_property
    def pp(self) -> int | None:
        return self.count(f"{ACTOR}.megatron.pipeline_model_parallel_size") if self.is_megatron else 1

    @cached_property
    def cp(self) -> int | None:
        """Context parallel size of Megatron, or Ulysses' sequence parallel size."""
        key = "megatron.context_parallel_size" if self.is_megatron else "ulysses_sequence_parallel_size"
        return self.count(f"{ACTOR}.{key}")

    @cached_property
    def model_parallel(self) -> int | None:
        """Devices that hold one copy of the model's work on a sample."""
        return product(self.tp, self.pp, self.cp)

    @cached_property
    def data_parallel(self) -> int | None:
        """Compute it; None as well where the devices cannot be split like that."""
        if not self.devices or not self.model_parallel or self.devices % self.model_parallel:
            return None
        return self.devices // self.model_parallel

    @cached_property
    def samples(self) -> int | None:
        """Samples a step: prompts times samples a prompt."""
        return product(self.whole("data.train_batch_size"), self.whole(f"{ROLLOUT}.n"))

    @cached_property
    def mini_samples(self) -> int | None:
        """Samples an optimiser update: verl counts prompts in a mini batch, the NLA fork counts samples."""
        return product(self.whole(f"{ACTOR}.ppo_mini_batch_size"), 1 if self.is_nla else self.whole(f"{ROLLOUT}.n"))

    @cached_property
    def longest(self) -> int | None:
        """Tokens of the longest sample: prompt and response."""
        prompt, response = self.count("data.max_prompt_length"), self.count("data.max_response_length")
        return prompt + response if prompt and response else None

    @cached_property
    def steps_of_data(self) -> int | None:
        """Count whole batches in all epochs; verl drops what is left of each."""
        steps, epochs = self.steps_of_epoch, self.count(_EPOCHS)
        return steps * epochs if steps is not None and epochs else None

    @cached_property
    def steps_of_epoch(self) -> int | None:
        rows, keys = self.train_rows, ("data.train_batch_size", "megatron_training.global_batch_size")
        batch = next(filter(None, map(self.count, keys)), None)
        return rows // batch if rows and batch else None

    @cached_property
    def train_rows(self) -> int | None:
        """Rows that are trained on: those promised, or the first `data.train_max_samples` of them."""
        rows, most = self.recipe.data.train_rows, self.count("data.train_max_samples")
        return min(rows, most) if rows and most else rows

    @cached_property
    def steps(self) -> int | None:
        """Steps that will be taken: what is asked for, or what the data gives if that is less."""
        keys = ("trainer.total_training_steps", "megatron_training.train_iters")
        return min((count for count in (self.steps_of_data, *map(self.count, keys)) if count), default=None)

    @cached_property
    def lora_rank(self) -> int | None:
        """Rank of the adapters; None: every weight is trained. Both keys count, as in verl's own configuration."""
        return self.count(f"{MODEL}.lora.rank") or self.count(f"{MODEL}.lora_rank")

    @cached_property
    def filters_groups(self) -> bool:
        """Tell whether groups without an advantage are thrown away and others generated in their place (DAPO)."""
        return self.is_true("algorithm.filter_groups.enable")

    @cached_property
    def uses_v1(self) -> bool:
        """Tell whether verl's trainer of 0.9 runs, and not that of before or of a fork."""
        return self.release >= (0, 9) and self.is_true("trainer.use_v1") and self.recipe.backend.entrypoint is None

    @cached_property
    def fixed_micro_batches(self) -> bool:
        return not self.is_true(f"{ACTOR}.use_dynamic_bsz")
