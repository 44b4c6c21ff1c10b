#!/usr/bin/env bash
# Trains 'cpu-aqn-adaptive, arm main, seed 1'. supervise.sh starts this file and sets every RLX_ variable in it.
# Hydra, not the shell, expands ${oc.env:…} in the arguments.
# shellcheck disable=SC2016
set -euo pipefail

export VERL_USE_EXTERNAL_MODULES=rlx_verl_cpu,rlx_verl_weights
export VERL_PLATFORM=cpu
export OMP_NUM_THREADS=1
export TQ_NUM_THREADS=1
export TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1
export TRANSFORMERS_OFFLINE=1
export GLOO_SOCKET_IFNAME=lo
export PATH=/opt/tools:"$PATH"
export PATH='/opt/my python/bin':"$PATH"
export PYTHONPATH="$RLX_RUN_DIR/payload${PYTHONPATH:+:$PYTHONPATH}"
export VERL_FILE_LOGGER_PATH="$RLX_ATTEMPT_DIR/metrics.jsonl"
# A Ray of its own, which no neighbour can join, and which joins no neighbour's.
export RAY_ADDRESS=local
export RAY_TMPDIR="$RLX_RAY_TMP"
export RAY_AUTH_MODE=token
export RAY_AUTH_TOKEN_PATH="$RLX_RAY_TMP/token"
export RAY_DEDUP_LOGS=0
export RAY_USAGE_STATS_ENABLED=0
unset CUDA_VISIBLE_DEVICES

cd "$RLX_RUN_DIR"
python3 "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  "$HOME"/models/tiny \
  "$HOME"/data/train.parquet \
  "$HOME"/data/val.parquet \
  || echo "rlx: no record of versions and data" >&2

# A further attempt goes on from the checkpoint that was chosen for it, or begins anew.
set --
case ${RLX_RESUME_FROM:-} in
  '') ;;
  none) set -- trainer.resume_mode=disable ;;
  *) set -- trainer.resume_mode=resume_path 'trainer.resume_from_path=${oc.env:RLX_RESUME_FROM}' ;;
esac
exec python3 -u -m verl.trainer.main_ppo \
  actor_rollout_ref.actor.strategy=fsdp2 \
  trainer.device=cpu \
  trainer.nnodes=1 \
  trainer.n_gpus_per_node=1 \
  actor_rollout_ref.actor.use_torch_compile=False \
  actor_rollout_ref.actor.fsdp_config.use_torch_compile=False \
  actor_rollout_ref.ref.fsdp_config.use_torch_compile=False \
  'actor_rollout_ref.model.path="${oc.env:HOME}/models/tiny"' \
  actor_rollout_ref.rollout.dtype=float32 \
  actor_rollout_ref.actor.fsdp_config.dtype=float32 \
  '+actor_rollout_ref.actor.fsdp_config.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}' \
  actor_rollout_ref.ref.fsdp_config.dtype=float32 \
  '+actor_rollout_ref.ref.fsdp_config.mixed_precision={param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}' \
  'data.train_files="${oc.env:HOME}/data/train.parquet"' \
  'data.val_files="${oc.env:HOME}/data/val.parquet"' \
  data.prompt_key=prompt \
  data.max_prompt_length=32 \
  data.max_response_length=8 \
  data.filter_overlong_prompts=True \
  'reward.custom_reward_function.path="${oc.env:RLX_RUN_DIR}/payload/score.py"' \
  reward.custom_reward_function.name=compute_score \
  algorithm.adv_estimator=grpo \
  actor_rollout_ref.actor.use_kl_loss=False \
  algorithm.use_kl_in_reward=False \
  data.train_batch_size=16 \
  actor_rollout_ref.actor.ppo_mini_batch_size=16 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64 \
  actor_rollout_ref.actor.optim.lr=0.0003 \
  trainer.total_epochs=30 \
  trainer.total_training_steps=30 \
  trainer.save_freq=10 \
  data.seed=1 \
  actor_rollout_ref.actor.data_loader_seed=1 \
  actor_rollout_ref.actor.fsdp_config.seed=1 \
  actor_rollout_ref.ref.fsdp_config.seed=1 \
  actor_rollout_ref.rollout.seed=1 \
  actor_rollout_ref.rollout.name=cpu \
  actor_rollout_ref.rollout.n=8 \
  actor_rollout_ref.rollout.temperature=1.0 \
  actor_rollout_ref.rollout.top_p=1.0 \
  actor_rollout_ref.rollout.top_k=-1 \
  actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
  actor_rollout_ref.rollout.expert_parallel_size=1 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \
  actor_rollout_ref.rollout.enforce_eager=True \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=128 \
  actor_rollout_ref.rollout.calculate_log_probs=True \
  trainer.test_freq=7 \
  trainer.val_before_train=True \
  actor_rollout_ref.rollout.val_kwargs.n=1 \
  actor_rollout_ref.rollout.val_kwargs.temperature=0.0 \
  actor_rollout_ref.rollout.val_kwargs.do_sample=False \
  trainer.project_name=cpu-aqn-adaptive \
  trainer.experiment_name=main-s1 \
  'trainer.logger=[console, file]' \
  'trainer.default_local_dir="${oc.env:RLX_RUN_DIR}/checkpoints"' \
  'trainer.validation_data_dir="${oc.env:RLX_ATTEMPT_DIR}/validation"' \
  'hydra.run.dir="${oc.env:RLX_ATTEMPT_DIR}/hydra"' \
  actor_rollout_ref.model.use_remove_padding=False \
  actor_rollout_ref.model.enable_gradient_checkpointing=False \
  actor_rollout_ref.rollout.free_cache_engine=False \
  actor_rollout_ref.rollout.agent.num_workers=1 \
  reward.num_workers=1 \
  transfer_queue.backend.SimpleStorage.num_data_storage_units=1 \
  data.dataloader_num_workers=0 \
  data.filter_overlong_prompts_workers=null \
  trainer.v1.sampler.custom_sampler.name=FastReplayBuffer \
  reward.reward_model.rollout.name=cpu \
  'trainer.v1.sampler.custom_sampler.path="${oc.env:RLX_RUN_DIR}/payload/rlx_verl_cpu_trainer.py"' \
  +actor_rollout_ref.model.override_config.attn_implementation=sdpa \
  ray_kwargs.ray_init.num_cpus=8 \
  +ray_kwargs.ray_init.num_gpus=1 \
  +ray_kwargs.ray_init.include_dashboard=False \
  +ray_kwargs.ray_init.object_store_memory=268435456 \
  "$@"
