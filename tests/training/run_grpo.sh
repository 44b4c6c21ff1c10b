#!/usr/bin/env bash
# GRPO on the tiny model, as its users start verl by hand: nothing in here knows of rlx's runs.
set -xeuo pipefail

ASSETS="$HOME/.cache/rlx/tiny-cpu"
RLX_PACKAGE="$(python3 -c 'import os, rlx; print(os.path.dirname(rlx.__file__))')"
REWARD="$RLX_PACKAGE/../recipes/tiny-cpu/reward.py"

# verl 0.9.1 has no rollout for a CPU; rlx's one is a plugin of it.
export PYTHONPATH="$RLX_PACKAGE/payload:$RLX_PACKAGE/backends/verl/payload:${PYTHONPATH:-}"
export VERL_USE_EXTERNAL_MODULES=rlx_verl_cpu
export VERL_PLATFORM=cpu OMP_NUM_THREADS=1 TQ_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 GLOO_SOCKET_IFNAME=lo

python3 -u -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    algorithm.use_kl_in_reward=False \
    data.train_files="$ASSETS/train.parquet" \
    data.val_files="$ASSETS/val.parquet" \
    data.prompt_key=prompt \
    data.train_batch_size=20 \
    data.max_prompt_length=32 \
    data.max_response_length=8 \
    data.filter_overlong_prompts=True \
    data.filter_overlong_prompts_workers=null \
    data.seed=1 \
    data.dataloader_num_workers=0 \
    actor_rollout_ref.model.path="$ASSETS/model" \
    actor_rollout_ref.model.use_remove_padding=False \
    actor_rollout_ref.model.enable_gradient_checkpointing=False \
    +actor_rollout_ref.model.override_config.attn_implementation=sdpa \
    actor_rollout_ref.actor.strategy=fsdp2 \
    actor_rollout_ref.actor.optim.lr=2e-4 \
    actor_rollout_ref.actor.use_kl_loss=False \
    actor_rollout_ref.actor.use_torch_compile=False \
    actor_rollout_ref.actor.ppo_mini_batch_size=20 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=80 \
    actor_rollout_ref.actor.data_loader_seed=1 \
    actor_rollout_ref.actor.fsdp_config.seed=1 \
    actor_rollout_ref.actor.fsdp_config.dtype=float32 \
    actor_rollout_ref.actor.fsdp_config.use_torch_compile=False \
    '+actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}' \
    actor_rollout_ref.ref.fsdp_config.dtype=float32 \
    actor_rollout_ref.ref.fsdp_config.use_torch_compile=False \
    actor_rollout_ref.rollout.name=cpu \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.seed=1 \
    actor_rollout_ref.rollout.dtype=float32 \
    actor_rollout_ref.rollout.temperature=1.0 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=80 \
    actor_rollout_ref.rollout.calculate_log_probs=True \
    actor_rollout_ref.rollout.free_cache_engine=False \
    actor_rollout_ref.rollout.agent.num_workers=1 \
    reward.custom_reward_function.path="$REWARD" \
    reward.custom_reward_function.name=compute_score \
    reward.num_workers=1 \
    reward.reward_model.rollout.name=cpu \
    transfer_queue.backend.SimpleStorage.num_data_storage_units=1 \
    trainer.device=cpu \
    trainer.nnodes=1 \
    trainer.n_gpus_per_node=1 \
    trainer.total_epochs=1 \
    trainer.test_freq=5 \
    trainer.val_before_train=True \
    trainer.save_freq=-1 \
    trainer.project_name=tiny \
    trainer.experiment_name=grpo \
    trainer.logger='[console]' \
    trainer.v1.sampler.custom_sampler.name=FastReplayBuffer \
    trainer.v1.sampler.custom_sampler.path="$RLX_PACKAGE/backends/verl/payload/rlx_verl_cpu_trainer.py" \
    ray_kwargs.ray_init.num_cpus=8 \
    +ray_kwargs.ray_init.num_gpus=1 \
    +ray_kwargs.ray_init.include_dashboard=False \
    +ray_kwargs.ray_init.object_store_memory=268435456
