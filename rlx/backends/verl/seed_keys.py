"""Name the keys of verl that seed its training."""

from __future__ import annotations

# Each version has some of these. Where rollout.seed is missing, the inference engine's seed is fixed.
SEED_KEYS = (
    "data.seed",
    "actor_rollout_ref.actor.data_loader_seed",
    "actor_rollout_ref.actor.fsdp_config.seed",
    "actor_rollout_ref.actor.megatron.seed",
    "actor_rollout_ref.ref.fsdp_config.seed",
    "actor_rollout_ref.ref.megatron.seed",
    "actor_rollout_ref.rollout.seed",
)
CRITIC_SEED_KEYS = (
    "critic.data_loader_seed",
    "critic.fsdp.seed",
    "critic.model.fsdp_config.seed",
    "critic.megatron.seed",
)
