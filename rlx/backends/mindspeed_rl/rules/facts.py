"""The numbers for the rules on MindSpeed-RL, from its effective settings. None: not known before the start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rlx.planning.rules.facts import RecipeFacts
from rlx.planning.rules.number_text import product

SHARED, ACTOR, RL, GENERATE = "megatron_training", "actor_config", "rl_config", "generate_config"
TP, PP = f"{ACTOR}.tensor_model_parallel_size", f"{ACTOR}.pipeline_model_parallel_size"
EP, CP = f"{ACTOR}.expert_model_parallel_size", f"{ACTOR}.context_parallel_size"
BATCH, MICRO = f"{ACTOR}.global_batch_size", f"{ACTOR}.micro_batch_size"
INFER_TP, INFER_EP = f"{GENERATE}.infer_tensor_parallel_size", f"{GENERATE}.infer_expert_parallel_size"
NPUS, SAMPLES = f"{RL}.actor_resource.num_npus", f"{RL}.n_samples_per_prompt"
MAX_TOKENS = f"{GENERATE}.sampling_config.max_tokens"


@dataclass(frozen=True)
class MindSpeedRlFacts(RecipeFacts):
    """Iterations are as configured, and the data is repeated as often as they need."""

    @property
    def steps_of_epoch(self) -> int | None:
        rows, batch = self.train_rows, self.count(f"{SHARED}.global_batch_size")
        return rows // batch if rows and batch else None

    @property
    def steps_of_data(self) -> int | None:
        return None

    @property
    def steps(self) -> int | None:
        return self.count(f"{SHARED}.train_iters")


BackendFacts = MindSpeedRlFacts


@dataclass(frozen=True)
class NpuSizes:
    """Counts of at least 1."""

    facts: RecipeFacts

    def __getitem__(self, key: str) -> int | None:
        return self.facts.count(key)

    @cached_property
    def model_parallel(self) -> int | None:
        """NPUs that hold one copy of the model's work on a sample."""
        return product(self[TP], self[PP], self[CP])

    @cached_property
    def groups(self) -> int | None:
        """Data-parallel groups of the training; None as well where the NPUs cannot be split like that."""
        npus, size = self[NPUS], self.model_parallel
        return npus // size if npus and size and npus % size == 0 else None

    @cached_property
    def replicas(self) -> int | None:
        """Engines of the rollout."""
        npus, tp = self[NPUS], self[INFER_TP]
        return npus // tp if npus and tp else None

    @cached_property
    def samples(self) -> int | None:
        """Samples an iteration."""
        return product(self[BATCH], self[SAMPLES])

    def named(self, key: str) -> str:
        """`layout.tp 2`, for messages."""
        return self.facts.named(key)

    def source(self, key: str) -> str:
        return self.facts.source(key)
