"""The numbers for the rules on verl, from its effective settings. None: not known before the start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rlx.backends.verl.keys import release
from rlx.backends.verl.trainers import DECLARED, is_dapo_recipe, is_own_program
from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.number_text import product

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
BATCH, GEN_BATCH = "data.train_batch_size", "data.gen_batch_size"
_EPOCHS = "trainer.total_epochs"


@dataclass(frozen=True)
class VerlFacts(RecipeFacts):
    """A recipe for verl, or for a fork of it."""

    @cached_property
    def release(self) -> tuple[int, ...]:
        """Major and minor number of verl."""
        return release(self.settings.version)

    @property
    def is_nla(self) -> bool:
        """The NLA fork's own entry point, which never calls verl's validate_config."""
        return "nla" in (self.recipe.backend.entrypoint or "")

    @property
    def is_split_as_written(self) -> bool:
        if self.recipe.backend.trainer == DECLARED:
            return False  # how it assigns devices to roles is not known
        layout = self.recipe.layout
        sizes = (layout.tp, layout.pp, layout.cp) if self.is_megatron else (1, 1, layout.cp)
        return (self.tp, self.pp, self.cp) == sizes and self.devices == layout.nodes * layout.devices_per_node

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
        return product(self.trained, self.whole(f"{ROLLOUT}.n"))

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
        """The most that an epoch can give: whole batches, of which a filter may take several for a step."""
        rows, generated = self.train_rows, self.generated
        if not rows or not generated:
            return None
        return rows // generated // (-(-(self.trained or 1) // generated))

    @cached_property
    def train_rows(self) -> int | None:
        """Rows that are trained on: those promised, or the first `data.train_max_samples` of them."""
        rows, most = self.recipe.data.train_rows, self.count("data.train_max_samples")
        return min(rows, most) if rows and most else rows

    @cached_property
    def steps(self) -> int | None:
        """Steps that will be taken: what is asked for, or what the data gives if that is less."""
        return min(filter(None, (self.steps_of_data, self.count("trainer.total_training_steps"))), default=None)

    @cached_property
    def lora_rank(self) -> int | None:
        """Rank of the adapters; None: every weight is trained. Both keys count, as in verl's own configuration."""
        return self.count(f"{MODEL}.lora.rank") or self.count(f"{MODEL}.lora_rank")

    @cached_property
    def filters_groups(self) -> bool:
        """Tell whether groups without an advantage are thrown away and others generated in their place (DAPO)."""
        return self.is_true("algorithm.filter_groups.enable")

    @property
    def starts_main_ppo(self) -> bool:
        return is_own_program(self.recipe.backend, self.settings.version)

    @property
    def is_dapo_recipe(self) -> bool:
        """The DAPO recipe's own trainer, which counts batches of the data and not steps."""
        return is_dapo_recipe(self.recipe, self.settings.version)

    @cached_property
    def generated(self) -> int | None:
        """Prompts of a batch of the data, which is generated at once."""
        return (self.count(GEN_BATCH) if self.is_dapo_recipe else None) or self.count(BATCH)

    @cached_property
    def trained(self) -> int | None:
        """Prompts that a step trains on: without its filter the DAPO recipe takes whatever was generated."""
        return self.generated if self.is_dapo_recipe and not self.filters_groups else self.count(BATCH)

    @cached_property
    def uses_v1(self) -> bool:
        """Tell whether verl's trainer of 0.9 runs, and not that of before or of a fork."""
        return self.release >= (0, 9) and self.is_true("trainer.use_v1") and self.starts_main_ppo

    @cached_property
    def fixed_micro_batches(self) -> bool:
        return not self.is_true(f"{ACTOR}.use_dynamic_bsz")


BackendFacts = VerlFacts
