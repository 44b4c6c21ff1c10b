#!/usr/bin/env bash
# Trains 'cuda-megatron-moe, arm main, seed 1'. supervise.sh starts this file and sets every RLX_ variable in it.
# Hydra, not the shell, expands ${oc.env:…} in the arguments.
# shellcheck disable=SC2016
set -euo pipefail

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
if [[ -n ${RLX_DEVICES:-} ]]; then
  export CUDA_VISIBLE_DEVICES="$RLX_DEVICES"
fi

cd "$RLX_RUN_DIR"
python3 "$RLX_RUN_DIR/payload/provenance.py" "$RLX_ATTEMPT_DIR/provenance.json" \
  /data/models/Qwen3-30B-A3B \
  /data/gsm8k/train.parquet \
  /data/gsm8k/test.parquet \
  || echo "rlx: no record of versions and data" >&2

# A further attempt goes on from the checkpoint that was chosen for it, or begins anew.
set --
case ${RLX_RESUME_FROM:-} in
  '') ;;
  none) set -- trainer.resume_mode=disable ;;
  *) set -- trainer.resume_mode=resume_path 'trainer.resume_from_path=${oc.env:RLX_RESUME_FROM}' ;;
esac
exec python3 -u -m verl.trainer.main_ppo \
  model_engine=megatron \
  trainer.device=cuda \
  trainer.nnodes=1 \
  trainer.n_gpus_per_node=8 \
  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \
  actor_rollout_ref.ref.megatron.tensor_model_parallel_size=2 \
  actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 \
  actor_rollout_ref.ref.megatron.pipeline_model_parallel_size=2 \
  actor_rollout_ref.actor.megatron.expert_model_parallel_size=2 \
  actor_rollout_ref.ref.megatron.expert_model_parallel_size=2 \
  actor_rollout_ref.actor.megatron.context_parallel_size=1 \
  actor_rollout_ref.ref.megatron.context_parallel_size=1 \
  actor_rollout_ref.model.path=/data/models/Qwen3-30B-A3B \
  actor_rollout_ref.rollout.dtype=bfloat16 \
  actor_rollout_ref.actor.megatron.dtype=bfloat16 \
  actor_rollout_ref.ref.megatron.dtype=bfloat16 \
  actor_rollout_ref.model.lora.rank=16 \
  actor_rollout_ref.model.lora.alpha=32 \
  data.train_files=/data/gsm8k/train.parquet \
  data.val_files=/data/gsm8k/test.parquet \
  data.prompt_key=prompt \
  data.max_prompt_length=1024 \
  data.max_response_length=1024 \
  data.filter_overlong_prompts=True \
  algorithm.adv_estimator=grpo \
  actor_rollout_ref.actor.use_kl_loss=True \
  algorithm.use_kl_in_reward=False \
  actor_rollout_ref.actor.kl_loss_coef=0.001 \
  actor_rollout_ref.actor.kl_loss_type=low_var_kl \
  data.train_batch_size=128 \
  actor_rollout_ref.actor.ppo_mini_batch_size=32 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \
  actor_rollout_ref.actor.optim.lr=1e-06 \
  trainer.total_epochs=50 \
  trainer.total_training_steps=50 \
  trainer.save_freq=-1 \
  data.seed=1 \
  actor_rollout_ref.actor.data_loader_seed=1 \
  actor_rollout_ref.actor.megatron.seed=1 \
  actor_rollout_ref.ref.megatron.seed=1 \
  actor_rollout_ref.rollout.seed=1 \
  actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.n=8 \
  actor_rollout_ref.rollout.temperature=1.0 \
  actor_rollout_ref.rollout.top_p=1.0 \
  actor_rollout_ref.rollout.top_k=-1 \
  actor_rollout_ref.rollout.tensor_model_parallel_size=4 \
  actor_rollout_ref.rollout.expert_parallel_size=4 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \
  actor_rollout_ref.rollout.enforce_eager=True \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 \
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1 \
  actor_rollout_ref.rollout.calculate_log_probs=True \
  trainer.test_freq=5 \
  trainer.val_before_train=True \
  actor_rollout_ref.rollout.val_kwargs.n=1 \
  actor_rollout_ref.rollout.val_kwargs.temperature=0.0 \
  actor_rollout_ref.rollout.val_kwargs.do_sample=False \
  trainer.project_name=cuda-megatron-moe \
  trainer.experiment_name=main-s1 \
  'trainer.logger=[console, file]' \
  'trainer.default_local_dir="${oc.env:RLX_RUN_DIR}/checkpoints"' \
  'trainer.validation_data_dir="${oc.env:RLX_ATTEMPT_DIR}/validation"' \
  'hydra.run.dir="${oc.env:RLX_ATTEMPT_DIR}/hydra"' \
  "$@"
